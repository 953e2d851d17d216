"""Reports what this machine can run: ``python -m engine.doctor``."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import time
from dataclasses import dataclass

import torch

from engine.config import EngineConfig
from engine.device.selection import prepare_torch
from engine.kernels.linear import Linear
from engine.system.cores import available_cores

_GIB = 1 << 30
_FRAME_MS = 80.0


@dataclass(frozen=True)
class _Release:
    """A published model.

    weights_gb: GB of weights read for one frame, at 2 bytes per weight (SPEC 10).
    memory_gib: memory of a server with a few streams.
    """

    name: str
    weights_gb: float
    memory_gib: float


_RELEASES = (_Release("Qwen3-TTS 0.6B", 3.31, 5.0), _Release("Qwen3-TTS 1.7B", 5.32, 9.0))


def main() -> None:
    """Print the machine's hardware and software, its measured memory bandwidth, and which models run in real time."""
    prepare_torch(EngineConfig(model=""))
    for name, value in _machine().items():
        print(f"{name:<20}{value}")
    speed = _weight_bandwidth()
    print(f"{'weights read':<20}{speed:.1f} GB/s with {torch.get_num_threads()} threads")
    print("\non the CPU, one utterance at a time:")
    for release in _RELEASES:
        print(f"  {release.name}: {_verdict(release, speed)}")


def _machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processor": f"{platform.machine()}, {available_cores()} cores for this process",
        "memory": f"{_memory_bytes() / _GIB:.1f} GiB",
        "packed linear": "FBGEMM" if "fbgemm" in torch.backends.quantized.supported_engines else "no: plain torch",
        "packed convolution": "oneDNN" if torch.backends.mkldnn.is_available() else "no: plain torch",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "vllm": "installed" if importlib.util.find_spec("vllm") else "not installed",
        "ffplay": shutil.which("ffplay") or "not installed (scripts/tts-stream plays through it)",
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@torch.inference_mode()
def _weight_bandwidth() -> float:
    """Return the rate at which linear layers read their weights, in GB/s, as the best of three runs.

    The layers together are too large for the CPU cache.
    """
    layers = [Linear(torch.randn(3072, 1024).bfloat16().float()) for _ in range(48)]
    x = torch.randn(1, 1024)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        for layer in layers:
            layer(x)
        best = min(best, time.perf_counter() - started)
    return len(layers) * 3072 * 1024 * 2 / best / 1e9


def _verdict(release: _Release, speed: float) -> str:
    if _memory_bytes() < release.memory_gib * _GIB:
        return f"needs about {release.memory_gib:.0f} GiB of memory"
    milliseconds = release.weights_gb / speed * 1000
    pace = "faster" if milliseconds < _FRAME_MS else "slower"
    return f"about {milliseconds:.0f} ms for a frame of 80 ms of audio: {pace} than real time"


if __name__ == "__main__":
    main()
