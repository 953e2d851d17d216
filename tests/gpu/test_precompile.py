"""The kernels that are compiled ahead are those that the engine needs; see also tests/unit/test_precompile.py."""

import os
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
TALKER = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import torch
from engine.checkpoint.config import read_model
from engine.kernels.triton_launch import CompileOnly
from engine.talker.fused.compilations import compile_triton_kernels
from engine.talker.fused.layers_loading import row_layers
from engine.talker.fused.triton import FusedFirstCodes
from engine.talker.gpu_step.slots import Slots
from tests.support.talker_layers import random_cache, random_layers
from tests.unit.published import model_config
talker, cuda = read_model(model_config("1b7-custom_voice"), Path("config.json")).talker, torch.device("cuda")
"""
COMPILE = (
    TALKER
    + """
with ThreadPoolExecutor() as pool, CompileOnly(pool, load=True) as launch:
    compile_triton_kernels(talker, 8, launch, layers=True)
"""
)
RUN = (
    TALKER
    + """
FusedFirstCodes(Slots(8, 64, talker, text_pad=0, device=cuda, dtype=torch.bfloat16)).self_check()
row_layers(random_layers(talker.transformer, 64, cuda), random_cache(talker.transformer, 2, cuda, torch.bfloat16))
"""
)


def compiled(folder: Path) -> set[str]:
    """The compiled kernels and the functions that launch them."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix in (".cubin", ".so")}


def test_code2wav_finds_all_its_kernels_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    config = EngineConfig(model=str(POCKET))
    with precompiling(config, ahead=True):
        pass
    ahead = compiled(tmp_path)
    assert ahead
    subprocess.run([sys.executable, "-c", LOAD, config.model_dump_json()], check=True, timeout=200)
    assert compiled(tmp_path) == ahead


def test_the_talker_finds_its_triton_kernels_compiled(tmp_path):
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COMPILE], check=True, timeout=200, env=environment)
    ahead = compiled(tmp_path)
    assert ahead
    subprocess.run([sys.executable, "-c", RUN], check=True, timeout=200, env=environment)
    assert compiled(tmp_path) == ahead
