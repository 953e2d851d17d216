"""How Code2Wav is run: what the device, Triton, the checkpoint and the configuration allow."""

import importlib.util
from dataclasses import replace

import pytest
import torch

from engine.code2wav.form import choose_form
from engine.code2wav.loading import load_decoder
from engine.config import Code2WavConfig, EngineConfig
from engine.errors import SetupError
from tests.codecs import CPU, PUBLISHED, SMALL

GPU = torch.device("cuda")


@pytest.fixture
def triton(monkeypatch):
    """Installed, or with False not."""

    def install(there):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: "triton" if there else None)

    install(True)
    return install


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_a_cpu_runs_plain_torch_in_float32(dtype):
    form = choose_form(Code2WavConfig(dtype=dtype), CPU, PUBLISHED)
    assert (form.graphed, form.dtype) == (False, torch.float32)


@pytest.mark.parametrize(("dtype", "expected"), [("auto", torch.float16), ("float32", torch.float32)])
def test_a_gpu_with_triton_runs_captured_batches(triton, dtype, expected):
    form = choose_form(Code2WavConfig(dtype=dtype, streams=64, max_batch_frames=128), GPU, PUBLISHED)
    assert (form.graphed, form.dtype) == (True, expected)
    assert (64, 2) in form.sizes and (64, 3) not in form.sizes and (96, 1) not in form.sizes


def test_without_triton_and_for_narrow_heads_a_gpu_runs_plain_torch(triton):
    narrow = replace(SMALL, transformer=replace(SMALL.transformer, head_dim=16))
    assert choose_form(Code2WavConfig(), GPU, narrow).plain == "the codec's heads have only 16 channels"
    triton(False)
    form = choose_form(Code2WavConfig(), GPU, PUBLISHED)
    assert (form.plain, form.dtype) == ("Triton is not installed", torch.float32)


def test_float16_where_it_cannot_be_had_is_an_error_that_says_why(checkpoints):
    config = EngineConfig(
        model=str(checkpoints["0b6-custom_voice"]), device="cpu", code2wav=Code2WavConfig(dtype="float16")
    )
    with pytest.raises(SetupError, match=r"engine\.code2wav\.dtype is float16, .*there is no GPU"):
        load_decoder(config)
