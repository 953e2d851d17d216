"""The backend of Code2Wav, selected by device, Triton, checkpoint and configuration."""

import importlib.util
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from engine.code2wav import cpu, loading
from engine.code2wav.loading import choose_backend, load_decoder
from engine.config import Code2WavConfig, EngineConfig
from engine.errors import CheckpointError, EngineFailed, SetupError
from tests.support.code2wav_decoders import CPU, PUBLISHED, SMALL, reference_decoder

GPU = torch.device("cuda")


@pytest.fixture
def triton(monkeypatch):
    """Triton is installed, or not after ``triton(False)``."""

    def install(installed):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: "triton" if installed else None)

    install(True)
    return install


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_a_cpu_runs_plain_torch_in_float32(dtype):
    backend = choose_backend(Code2WavConfig(dtype=dtype), 16, CPU, PUBLISHED)
    assert (backend.graphed, backend.dtype) == (False, torch.float32)


@pytest.mark.parametrize(("dtype", "expected"), [("auto", torch.float16), ("float32", torch.float32)])
def test_a_gpu_with_triton_runs_captured_batches(triton, dtype, expected):
    backend = choose_backend(Code2WavConfig(dtype=dtype, max_batch_frames=128), 64, GPU, PUBLISHED)
    assert (backend.graphed, backend.dtype) == (True, expected)
    assert (64, 2) in backend.sizes and (64, 3) not in backend.sizes and (96, 1) not in backend.sizes


def test_without_triton_or_with_narrow_heads_a_gpu_runs_plain_torch(triton):
    narrow = replace(SMALL, transformer=replace(SMALL.transformer, head_dim=16))
    assert choose_backend(Code2WavConfig(), 16, GPU, narrow).fallback_reason == (
        "the codec's heads have 16 channels, and the kernels need at least 32"
    )
    triton(False)
    backend = choose_backend(Code2WavConfig(), 16, GPU, PUBLISHED)
    assert (backend.fallback_reason, backend.dtype) == ("Triton is not installed", torch.float32)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nmore"),
        OSError("Read-only file system"),
        ImportError("no triton"),
    ],
)
def test_if_kernels_are_unavailable_a_gpu_runs_plain_torch_and_logs_the_reason(
    triton, checkpoints, monkeypatch, caplog, error
):
    caplog.set_level(logging.INFO)
    fail_graphed_decoder(monkeypatch, error)
    config = EngineConfig(model=str(checkpoints["0b6-custom_voice"]), code2wav=Code2WavConfig(dtype="auto"))
    assert load_decoder(config) == "plain torch"
    (line,) = (record.message for record in caplog.records if "Code2Wav" in record.message)
    assert line == f"Code2Wav runs in plain torch: {type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), CheckpointError("decoder.0 is missing")]
)
def test_errors_that_plain_torch_would_not_avoid_are_raised(triton, checkpoints, monkeypatch, error):
    fail_graphed_decoder(monkeypatch, error)
    with pytest.raises(type(error)) as raised:
        load_decoder(EngineConfig(model=str(checkpoints["0b6-custom_voice"])))
    assert raised.value is error


def test_a_lost_gpu_ends_the_engine_with_a_clear_error(triton, checkpoints, monkeypatch):
    def lost():
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    fail_graphed_decoder(monkeypatch, RuntimeError("Triton Error [CUDA]: unspecified launch failure"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(EngineFailed, match=r"restart the engine process: Triton Error"):
        load_decoder(EngineConfig(model=str(checkpoints["0b6-custom_voice"])))


def test_float16_needs_the_kernels(triton, checkpoints, monkeypatch):
    fail_graphed_decoder(monkeypatch, RuntimeError("Failed to find C compiler"))
    config = EngineConfig(model=str(checkpoints["0b6-custom_voice"]), code2wav=Code2WavConfig(dtype="float16"))
    with pytest.raises(SetupError, match=r"dtype is float16, .*Failed to find C compiler"):
        load_decoder(config)


def fail_graphed_decoder(monkeypatch, error):
    """Simulate a GPU on which creating the graphed decoder raises ``error``."""

    def fail(*_):
        raise error

    monkeypatch.setattr(loading, "choose_device", lambda config: GPU)
    monkeypatch.setattr(loading, "choose_backend", lambda config, *_: choose_backend(config, 16, GPU, PUBLISHED))
    monkeypatch.setattr(loading, "graphed_decoder", fail)
    monkeypatch.setattr(loading, "_load_plain", lambda *_: "plain torch")
    monkeypatch.setattr(loading, "_warmed_up", lambda decoder, _: decoder)


def test_unavailable_float16_is_an_error_with_the_reason(checkpoints):
    config = EngineConfig(
        model=str(checkpoints["0b6-custom_voice"]), device="cpu", code2wav=Code2WavConfig(dtype="float16")
    )
    with pytest.raises(SetupError, match=r"engine\.code2wav\.dtype is float16, .*there is no GPU"):
        load_decoder(config)


@pytest.mark.parametrize(("dtype", "batches"), [(torch.float32, 5), (torch.int16, 2)])
def test_the_warm_up_is_short_if_kernels_do_not_depend_on_the_shape(dtype, batches, monkeypatch):
    seconds = [0.0]
    decoded = []

    def decode(rows, codes):
        decoded.append(codes.shape[:2])
        seconds[0] += 0.3

    decoder = reference_decoder(SMALL, 2)
    monkeypatch.setattr(decoder._model, "dtype", dtype)
    monkeypatch.setattr(decoder, "decode", decode)
    monkeypatch.setattr(cpu, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    shapes = [(1 + frames % 2, frames) for frames in range(1, 9)]
    decoder.warm_up(shapes)
    assert decoded == shapes[:batches]
    assert decoder.free_rows == 2


def test_the_dtype_is_chosen_before_the_file_is_read(checkpoints, monkeypatch):
    events = []
    stream = loading.Checkpoint.codec_stream
    monkeypatch.setattr(loading, "choose_dtype", lambda *_: events.append("choose") or torch.float32)
    monkeypatch.setattr(
        loading.Checkpoint, "codec_stream", lambda self, prefix: events.append("read") or stream(self, prefix)
    )
    load_decoder(EngineConfig(model=str(checkpoints["0b6-custom_voice"]), device="cpu", threads=1))
    assert events == ["choose", "read"]
