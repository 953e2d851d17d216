"""The included configuration files and checkpoint: those of the repository, or a folder of the package."""

from __future__ import annotations

from pathlib import Path


def _config_folder() -> Path:
    """Return the folder of the configuration files.

    A wheel has them, and the checkpoint that they name, in ``server/data`` (``pyproject.toml``). A repository, and
    an editable installation of it, has them beside the packages.
    """
    package = Path(__file__).resolve().parent
    installed = package / "data"
    return (installed if installed.is_dir() else package.parent) / "configs"


CONFIGS = _config_folder()
DEFAULT_CONFIG = CONFIGS / "pocket.yaml"
POCKET = CONFIGS.parent / "models" / "pocket"
"""The included checkpoint."""


def config_names() -> list[str]:
    """Return the names of the included configurations, such as ``pocket``."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def find_config(config: Path) -> Path:
    """Return the file of the included configuration that ``config`` names, else ``config``. A file takes precedence."""
    named = config.name in config_names() and len(config.parts) == 1 and not config.exists()
    return CONFIGS / f"{config.name}.yaml" if named else config
