"""How Code2Wav is run: what the device, Triton, the checkpoint and the configuration allow."""

import importlib.util
import logging
from dataclasses import replace

import pytest
import torch

from engine.code2wav import loading
from engine.code2wav.loading import choose_backend, load_decoder
from engine.config import Code2WavConfig, EngineConfig
from engine.errors import CheckpointError, EngineFailed, SetupError
from tests.support.code2wav_decoders import CPU, PUBLISHED, SMALL

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
    form = choose_backend(Code2WavConfig(dtype=dtype), 16, CPU, PUBLISHED)
    assert (form.graphed, form.dtype) == (False, torch.float32)


@pytest.mark.parametrize(("dtype", "expected"), [("auto", torch.float16), ("float32", torch.float32)])
def test_a_gpu_with_triton_runs_captured_batches(triton, dtype, expected):
    form = choose_backend(Code2WavConfig(dtype=dtype, max_batch_frames=128), 64, GPU, PUBLISHED)
    assert (form.graphed, form.dtype) == (True, expected)
    assert (64, 2) in form.sizes and (64, 3) not in form.sizes and (96, 1) not in form.sizes


def test_without_triton_and_for_narrow_heads_a_gpu_runs_plain_torch(triton):
    narrow = replace(SMALL, transformer=replace(SMALL.transformer, head_dim=16))
    assert choose_backend(Code2WavConfig(), 16, GPU, narrow).fallback_reason == (
        "the codec's heads have 16 channels, and the kernels need at least 32"
    )
    triton(False)
    form = choose_backend(Code2WavConfig(), 16, GPU, PUBLISHED)
    assert (form.fallback_reason, form.dtype) == ("Triton is not installed", torch.float32)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nmore"),
        OSError("Read-only file system"),
        ImportError("no triton"),
    ],
)
def test_a_gpu_whose_kernels_cannot_be_had_runs_plain_torch_and_the_log_says_why(
    triton, checkpoints, monkeypatch, caplog, error
):
    caplog.set_level(logging.INFO)
    refuse(monkeypatch, error)
    config = EngineConfig(model=str(checkpoints["0b6-custom_voice"]), code2wav=Code2WavConfig(dtype="auto"))
    assert load_decoder(config) == "plain torch"
    (line,) = (record.message for record in caplog.records if "Code2Wav" in record.message)
    assert line == f"Code2Wav runs in plain torch: {type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), CheckpointError("decoder.0 is missing")]
)
def test_what_plain_torch_cannot_mend_is_no_reason_for_it(triton, checkpoints, monkeypatch, error):
    refuse(monkeypatch, error)
    with pytest.raises(type(error)) as raised:
        load_decoder(EngineConfig(model=str(checkpoints["0b6-custom_voice"])))
    assert raised.value is error


def test_a_gpu_that_is_lost_ends_the_engine_with_a_clear_error(triton, checkpoints, monkeypatch):
    def lost():
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    refuse(monkeypatch, RuntimeError("Triton Error [CUDA]: unspecified launch failure"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(EngineFailed, match=r"restart the engine process: Triton Error"):
        load_decoder(EngineConfig(model=str(checkpoints["0b6-custom_voice"])))


def test_kernels_that_cannot_be_had_are_no_float16(triton, checkpoints, monkeypatch):
    refuse(monkeypatch, RuntimeError("Failed to find C compiler"))
    config = EngineConfig(model=str(checkpoints["0b6-custom_voice"]), code2wav=Code2WavConfig(dtype="float16"))
    with pytest.raises(SetupError, match=r"dtype is float16, .*Failed to find C compiler"):
        load_decoder(config)


def refuse(monkeypatch, error):
    """A GPU on which making the graphed decoder fails so."""

    def refused(*_):
        raise error

    monkeypatch.setattr(loading, "choose_device", lambda config: GPU)
    monkeypatch.setattr(loading, "choose_backend", lambda config, *_: choose_backend(config, 16, GPU, PUBLISHED))
    monkeypatch.setattr(loading, "graphed_decoder", refused)
    monkeypatch.setattr(loading, "_load_plain", lambda *_: "plain torch")


def test_float16_where_it_cannot_be_had_is_an_error_that_says_why(checkpoints):
    config = EngineConfig(
        model=str(checkpoints["0b6-custom_voice"]), device="cpu", code2wav=Code2WavConfig(dtype="float16")
    )
    with pytest.raises(SetupError, match=r"engine\.code2wav\.dtype is float16, .*there is no GPU"):
        load_decoder(config)
