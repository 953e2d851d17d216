"""Chooses on a CPU, by measurement, the weight format and the precision of Code2Wav. Each stage has half of the cores.

Measures layers of the model's shape, with weights of zero, before anything else is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from engine.checkpoint.architecture import DecoderArchitecture, ModelArchitecture
from engine.code2wav.precision import choose_dtype, code2wav_ms
from engine.config import EngineConfig
from engine.kernels.quantized_linear import int4_runs, int8_runs
from engine.protocol.request import FRAME_MS, WeightFormat
from engine.system.cores import stage_threads
from engine.talker.native.frame_cost import FrameShape, forget_layers, frame_ms
from engine.talker.native.weight_formats import configured_format

_REAL_TIME = 0.9
"""Maximum real-time factor with which a format holds real time. The rest is for the HTTP process."""
_CPU = torch.device("cpu")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """How the engine uses a CPU.

    weights: the talker's format. dtype: of Code2Wav's wide convolutions. threads: of each stage. measured: milliseconds
    per frame of the formats that were measured.
    """

    weights: WeightFormat
    dtype: torch.dtype
    threads: int
    measured: Mapping[WeightFormat, float] = field(default_factory=dict)

    def __str__(self) -> str:
        times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in self.measured.items())
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{times} per frame of {FRAME_MS:.0f} ms, with {threads} for each stage"

    def applied_to(self, config: EngineConfig) -> EngineConfig:
        """Return the configuration with the choices of the plan."""
        code2wav = config.code2wav
        if code2wav.dtype == "auto" and code2wav.gpu is None:
            precision = "bfloat16" if self.dtype == torch.bfloat16 else "float32"
            code2wav = code2wav.model_copy(update={"dtype": precision})
        return config.model_copy(
            update={
                "talker": config.talker.model_copy(update={"weights": self.weights}),
                "code2wav": code2wav,
            }
        )


def choose_plan(config: EngineConfig, model: ModelArchitecture, decoder: DecoderArchitecture) -> CpuPlan:
    """Return the plan for a checkpoint on a CPU, and log what was measured.

    Raises SetupError if the configuration asks for a format or a precision that does not run here.
    """
    packed = None if model.packing is None else model.packing.weights
    configured = configured_format(config, _CPU, packed)
    dtype = choose_dtype(config.code2wav, decoder, _CPU)
    threads = stage_threads(config.threads)
    if configured is not None:
        return CpuPlan(configured, dtype, threads)
    plan = measure(FrameShape.of(model.talker), decoder, dtype, runnable_formats(), threads)
    _log.info(
        "talker.weights: auto selects %s; %s. Set engine.talker.weights to exact, int8 or int4 to force one",
        plan.weights,
        plan,
    )
    return plan


def runnable_formats() -> list[WeightFormat]:
    """Return the formats that have kernels on this CPU, the most accurate one first."""
    runs: dict[WeightFormat, bool] = {"exact": True, "int8": int8_runs(), "int4": int4_runs()}
    return [name for name, available in runs.items() if available]


def measure(
    shape: FrameShape,
    decoder: DecoderArchitecture,
    dtype: torch.dtype,
    formats: list[WeightFormat],
    threads: int,
    *,
    every: bool = False,
) -> CpuPlan:
    """Measure formats until one holds real time, which is selected. If none does, it is the fastest.

    Args:
        shape: of the talker and the code predictor.
        decoder: Code2Wav.
        dtype: of Code2Wav's wide convolutions.
        formats: to measure, in this order.
        threads: of each stage.
        every: measure all formats.
    """
    code2wav = code2wav_ms(decoder, dtype, threads)
    measured: dict[WeightFormat, float] = {}
    for name in formats:
        measured[name] = max(frame_ms(shape, name, threads), code2wav)
        if not every and measured[name] <= _REAL_TIME * FRAME_MS:
            break
    forget_layers()
    in_real_time = [name for name, ms in measured.items() if ms <= _REAL_TIME * FRAME_MS]
    selected = in_real_time[0] if in_real_time else min(measured, key=lambda name: measured[name])
    return CpuPlan(selected, dtype, threads, measured)
