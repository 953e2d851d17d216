"""The CUDA kernels compile with NVRTC, which needs no GPU."""

import importlib.util
from pathlib import Path

import pytest

from engine.checkpoint.config import read_model
from engine.kernels import nvrtc
from engine.kernels.codec_units import compilations as codec_compilations
from engine.talker.fused.compilations import talker_compilations
from tests.unit.published import model_config

ELF = b"\x7fELF"
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="nvidia-cuda-nvrtc has no package for this system"
)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(nvrtc, "cache_folder", lambda: None)


def test_the_kernels_of_a_published_talker_compile():
    """Those for one row and for the most rows, of the smaller talker: the others differ in sizes only."""
    talker = read_model(model_config("0b6-custom_voice"), Path("config.json")).talker
    compilations = talker_compilations(talker, [1, 256], layers=True)
    assert len(compilations) == 4
    assert all(compiled().startswith(ELF) for compiled in compilations)


def test_the_kernels_of_code2wav_compile():
    compilations = codec_compilations()
    assert compilations
    assert all(compiled().startswith(ELF) for compiled in compilations)
