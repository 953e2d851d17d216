"""Chooses on a CPU, by measurement, the weight format, the precision of Code2Wav, and how the stages share the cores.

There are two ways to share them. Side by side, each stage has half of them, and the stages work at the same time, on
different frames. In turn, each has all of them, one after the other, in one ComputeThread. Which way is faster for one
utterance depends on the model, the format and the machine.

Measures layers of the model's shape, with weights of zero, before anything else is loaded. The times are kept on disk
(``engine.device.timing_cache``), so later starts of the model on the machine do not measure them again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, get_args

import torch

from engine.checkpoint.architecture import DecoderArchitecture, ModelArchitecture
from engine.code2wav.precision import choose_dtype, code2wav_ms, dtype_name
from engine.config import EngineConfig
from engine.device.timing_cache import cached_times_file
from engine.protocol.request import FRAME_MS, WeightFormat
from engine.system.cores import available_cores, stage_threads
from engine.talker.native.frame_cost import FrameShape, forget_layers, frame_ms
from engine.talker.native.weight_formats import configured_format

_REAL_TIME = 0.9
"""Maximum real-time factor with which a format holds real time. The rest is for the HTTP process."""
_AMPLE = 0.25
"""With this real-time factor side by side, taking turns is not measured: the stages serve several utterances."""
_CLEARLY_FASTER = 0.95
"""Maximum share of the time side by side with which taking turns is selected, so that noise does not select it."""
_CPU = torch.device("cpu")
_log = logging.getLogger(__name__)


class ThreadCounts(NamedTuple):
    """The threads of each stage side by side, and in turn: None if they must not take turns."""

    side_by_side: int
    in_turn: int | None


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """How the engine uses a CPU.

    weights: the talker's format. dtype: of Code2Wav's wide convolutions. threads: of each stage. in_turn: whether the
    stages take turns. measured: milliseconds per frame of the formats that were measured, with the faster way; side by
    side if taking turns cannot hold real time and another format follows.
    code2wav_ms: milliseconds per frame of Code2Wav, 0 if it was not measured.
    """

    weights: WeightFormat
    dtype: torch.dtype
    threads: int
    in_turn: bool
    measured: Mapping[WeightFormat, float] = field(default_factory=dict)
    code2wav_ms: float = 0.0

    def __str__(self) -> str:
        times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in self.measured.items())
        way = "in turn" if self.in_turn else "side by side"
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{times} per frame of {FRAME_MS:.0f} ms; with {self.weights} both stages run {way}, {threads} each"

    @property
    def compiled(self) -> bool:
        """Whether both stages compute almost everything in compiled kernels, which have their own threads."""
        return self.dtype == torch.int16

    def real_time_factor(self, talker: float) -> float:
        """Return the real-time factor of one utterance. talker: the same of the talker alone."""
        code2wav = self.code2wav_ms / FRAME_MS
        return talker + code2wav if self.in_turn else max(talker, code2wav)

    def applied_to(self, config: EngineConfig) -> EngineConfig:
        """Return the configuration with the choices of the plan."""
        code2wav = config.code2wav
        if code2wav.dtype == "auto" and code2wav.gpu is None:
            code2wav = code2wav.model_copy(update={"dtype": dtype_name(self.dtype)})
        return config.model_copy(
            update={
                # In turn, only the compute thread may have a team of threads.
                "threads": 1 if self.in_turn else self.threads,
                "talker": config.talker.model_copy(update={"weights": self.weights}),
                "code2wav": code2wav,
            }
        )


def choose_plan(config: EngineConfig, model: ModelArchitecture, decoder: DecoderArchitecture) -> CpuPlan:
    """Return the plan for a checkpoint on a CPU, and log what was measured.

    Raises SetupError if the configuration asks for a format or a precision that does not run here.
    """
    began = time.perf_counter()
    packed = None if model.packing is None else model.packing.weights
    configured = configured_format(config, _CPU, packed)
    dtype = choose_dtype(config.code2wav, decoder, _CPU)
    threads = thread_counts(config.threads, may_take_turns=config.code2wav.placement == "thread")
    if configured is not None and (threads.in_turn is None or config.dtype == "bfloat16"):
        return CpuPlan(configured, dtype, threads.side_by_side, in_turn=False)
    formats = list(get_args(WeightFormat)) if configured is None else [configured]
    plan = measure(FrameShape.of(model.talker), decoder, dtype, formats, threads)
    if configured is None:
        choice = f"auto selects {plan.weights}"
        options = "engine.talker.weights to exact, int8 or int4, or engine.threads,"
    else:
        choice, options = f"{plan.weights}, as configured", "engine.threads"
    file = cached_times_file()
    again = "" if file is None else f". Delete {file} to measure again"
    seconds = time.perf_counter() - began
    selected = f"{choice}; {plan}; measured in {seconds:.1f} s"
    _log.info("talker.weights: %s. Set %s to decide otherwise%s", selected, options, again)
    return plan


def measure(
    shape: FrameShape,
    decoder: DecoderArchitecture,
    dtype: torch.dtype,
    formats: list[WeightFormat],
    threads: ThreadCounts,
    *,
    every: bool = False,
) -> CpuPlan:
    """Measure formats until one holds real time, which is selected. If none does, it is the fastest measured one.

    Unless ``every``, taking turns is not measured for all formats (``_measure_format``).

    Args:
        shape: of the talker and the code predictor.
        decoder: Code2Wav.
        dtype: of Code2Wav's wide convolutions.
        formats: to measure, in this order.
        threads: of each stage.
        every: measure all formats.
    """
    plans: dict[WeightFormat, CpuPlan] = {}
    for name in formats:
        thorough = every or name == formats[-1]
        plans[name] = _measure_format(shape, decoder, dtype, name, threads, thorough=thorough)
        if not every and _factor(plans[name]) <= _REAL_TIME:
            break
    forget_layers()
    measured = {name: plan.measured[name] for name, plan in plans.items()}
    in_real_time = [name for name, plan in plans.items() if _factor(plan) <= _REAL_TIME]
    selected = in_real_time[0] if in_real_time else min(measured, key=lambda name: measured[name])
    return replace(plans[selected], measured=measured)


def _measure_format(
    shape: FrameShape,
    decoder: DecoderArchitecture,
    dtype: torch.dtype,
    name: WeightFormat,
    threads: ThreadCounts,
    *,
    thorough: bool,
) -> CpuPlan:
    """Measure a format. Unless ``thorough``, taking turns is measured only if it might hold real time."""
    code2wav, talker = code2wav_ms(decoder, dtype, threads.side_by_side), frame_ms(shape, name, threads.side_by_side)
    side_by_side = max(talker, code2wav)
    if threads.in_turn is not None and side_by_side > _AMPLE * FRAME_MS:
        code2wav_in_turn = code2wav_ms(decoder, dtype, threads.in_turn)
        fastest_in_turn = talker * threads.side_by_side / threads.in_turn + code2wav_in_turn
        if thorough or fastest_in_turn <= _REAL_TIME * FRAME_MS:
            in_turn = frame_ms(shape, name, threads.in_turn) + code2wav_in_turn
            if in_turn < _CLEARLY_FASTER * side_by_side:
                return CpuPlan(name, dtype, threads.in_turn, True, {name: in_turn}, code2wav_in_turn)
    return CpuPlan(name, dtype, threads.side_by_side, False, {name: side_by_side}, code2wav)


def _factor(plan: CpuPlan) -> float:
    return plan.measured[plan.weights] / FRAME_MS


def thread_counts(configured: int | None, *, may_take_turns: bool) -> ThreadCounts:
    """Return the threads of each stage. configured: threads of each stage side by side, which excludes turns."""
    side_by_side, cores = stage_threads(configured), available_cores()
    takes_turns = may_take_turns and configured is None and cores > side_by_side
    return ThreadCounts(side_by_side, cores if takes_turns else None)
