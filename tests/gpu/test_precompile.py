"""The kernels that are compiled ahead are those that the engine needs; see also tests/unit/test_precompile.py."""

import subprocess
import sys
from pathlib import Path

from engine.config import EngineConfig
from engine.precompile import precompiling

POCKET = Path(__file__).parents[2] / "models" / "pocket"
LOAD = """
import sys
from engine.code2wav.loading import load_decoder
from engine.config import EngineConfig
load_decoder(EngineConfig.model_validate_json(sys.argv[1]))
"""


def compiled(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix == ".cubin"}


def test_code2wav_finds_all_its_kernels_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    config = EngineConfig(model=str(POCKET))
    with precompiling(config):
        pass
    ahead = compiled(tmp_path)
    assert ahead
    subprocess.run([sys.executable, "-c", LOAD, config.model_dump_json()], check=True, timeout=200)
    assert compiled(tmp_path) == ahead
