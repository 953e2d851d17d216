"""Reports what this machine can run: ``python -m engine.doctor CHECKPOINT``. Ignores cached times."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass, replace
from typing import get_args

import torch

from engine.checkpoint.architecture import DecoderArchitecture, Transformer
from engine.checkpoint.folder import open_checkpoint
from engine.code2wav.precision import choose_dtype
from engine.config import Code2WavConfig, EngineConfig
from engine.cpu.plan import measure, thread_counts
from engine.device.selection import prepare_torch
from engine.device.timing_cache import ignore_cached_times
from engine.errors import CheckpointError
from engine.kernels.compiled.integer_dots import cpu_features, int4_instructions
from engine.protocol.request import FRAME_MS, WeightFormat
from engine.system.cores import available_cores
from engine.system.process import exit_immediately
from engine.talker.native.frame_cost import FrameShape

_GIB = 1 << 30
_PREDICTOR = Transformer(
    hidden=1024, intermediate=3072, layers=5, heads=16, kv_heads=8, head_dim=128, rope_theta=1e6, eps=1e-6
)
_CODES = 2048
_DECODER = DecoderArchitecture(
    transformer=Transformer(
        hidden=512, intermediate=1024, layers=8, heads=16, kv_heads=16, head_dim=64, rope_theta=1e4, eps=1e-5
    ),
    latent=1024,
    codebook_dim=512,
    codebook_size=_CODES,
    quantizers=16,
    decoder_dim=1536,
    sliding_window=72,
    upsample_rates=(8, 5, 4, 3),
    upsampling_ratios=(2, 2),
)
"""Code2Wav of all published models (SPEC 10)."""


@dataclass(frozen=True)
class _Model:
    """A model to measure. memory_gib: memory of a server with a few streams, with exact weights."""

    name: str
    memory_gib: float
    shape: FrameShape
    decoder: DecoderArchitecture = _DECODER
    formats: tuple[WeightFormat, ...] = get_args(WeightFormat)


def _published(name: str, memory_gib: float, hidden: int, intermediate: int) -> _Model:
    """Return a published model (SPEC 10)."""
    talker = replace(_PREDICTOR, hidden=hidden, intermediate=intermediate, layers=28)
    return _Model(name, memory_gib, FrameShape(talker, _PREDICTOR, _CODES))


def _included(folder: str) -> list[_Model]:
    """Return the checkpoint that is part of the project, unless it is damaged. Its configuration has exact weights."""
    try:
        checkpoint = open_checkpoint(folder)
    except CheckpointError:
        return []
    shape = FrameShape.of(checkpoint.model.talker)
    return [_Model("pocket (included)", 1.0, shape, checkpoint.codec.decoder, ("exact",))]


def main() -> None:
    """Print the machine's hardware and software, and which models run in real time on the CPU."""
    [folder] = sys.argv[1:]
    models = (
        *_included(folder),
        _published("Qwen3-TTS 0.6B", 5.0, 1024, 3072),
        _published("Qwen3-TTS 1.7B", 9.0, 2048, 6144),
    )
    ignore_cached_times()
    prepare_torch(EngineConfig(model=""))
    for name, value in _machine().items():
        print(f"{name:<20}{value}")
    print("\non the CPU, one utterance at a time:")
    for model in models:
        print(f"  {model.name}: {_verdict(model)}")
    exit_immediately()


def _machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processor": f"{platform.machine()}, {available_cores()} cores for this process",
        "memory": f"{_memory_bytes() / _GIB:.1f} GiB",
        "packed linear": "FBGEMM" if "fbgemm" in torch.backends.quantized.supported_engines else "no: plain torch",
        "4-bit products": int4_instructions(cpu_features()),
        "packed convolution": "oneDNN" if torch.backends.mkldnn.is_available() else "no: plain torch",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "vllm": "installed" if importlib.util.find_spec("vllm") else "not installed",
        "ffplay": shutil.which("ffplay") or "not installed (scripts/tts-stream plays through it)",
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _verdict(model: _Model) -> str:
    if _memory_bytes() < model.memory_gib * _GIB:
        return f"needs about {model.memory_gib:.0f} GiB of memory"
    dtype = choose_dtype(Code2WavConfig(), model.decoder, torch.device("cpu"))
    threads = thread_counts(None, may_take_turns=True)
    plan = measure(model.shape, model.decoder, dtype, list(model.formats), threads, every=True)
    factor = plan.measured[plan.weights] / FRAME_MS
    pace = f"a real-time factor of {factor:.2f}, {'faster' if factor < 1 else 'slower'} than real time"
    if len(model.formats) == 1:
        return f"{plan}: {pace}"
    return (
        f"{plan}.\n    engine.talker.weights: auto selects {plan.weights}, with {pace}. "
        "Set it to exact, int8 or int4 to force one"
    )


if __name__ == "__main__":
    main()
