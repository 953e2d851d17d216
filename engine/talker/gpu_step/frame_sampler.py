"""Samples a frame's sixteen codes on the device, from the talker's hidden states."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from engine.kernels.linear import Linear
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.protocol.request import CODEBOOKS
from engine.talker.gpu_step.slots import Slots
from engine.talker.sampling import Sampler, uniforms
from engine.talker.sampling_params import SamplingTensors


class RngKey(NamedTuple):
    """Key of the counter-based random numbers: seeds int64 [rows], frame numbers int64 [rows]."""

    seeds: Tensor
    frames: Tensor

    def uniforms(self) -> Tensor:
        """Return random numbers, float64 [rows, 16] in [0, 1); column b is for codebook b."""
        return uniforms(self.seeds, self.frames, CODEBOOKS)


class FirstCodes(NamedTuple):
    """Codes of codebook 0, int64 [rows], and the sampling parameters and RNG key of the residual codes."""

    codes: Tensor
    residual_params: SamplingTensors
    rng: RngKey


class FirstCodeSampler(Protocol):
    """Samples codebook 0. It is captured in a CUDA graph: no shape and no branch may depend on a tensor's value."""

    def __call__(self, logits: Tensor, slot_ids: Tensor) -> FirstCodes:
        """Sample from logits [rows, vocab] of slots ``slot_ids``, int64 [rows].

        Marks the codes as seen in their slots, and adds one to the slots' frame counters.
        """


class PlainFirstCodes:
    """Reference implementation of ``FirstCodeSampler`` in plain torch; others must give the same results."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def __call__(self, logits: Tensor, slot_ids: Tensor) -> FirstCodes:
        """Sample codebook 0 and update the slots, as ``FirstCodeSampler`` requires."""
        slots = self._slots
        rng = RngKey(slots.seeds[slot_ids], slots.frames_made[slot_ids])
        params = slots.codebook0_params.gather(slot_ids)
        penalty = params.column("repetition_penalty")[:, None]
        allowed = slots.codebook0_rules.apply(logits.float(), slot_ids, penalty, rng.frames)
        codes = Sampler(params)(allowed, rng.uniforms()[:, 0])
        slots.codebook0_rules.remember(slot_ids, codes)
        slots.frames_made.index_copy_(0, slot_ids, rng.frames + 1)
        return FirstCodes(codes, slots.residual_params.gather(slot_ids), rng)


class ResidualCodes(Protocol):
    """Samples the residual codes, of codebooks 1 to 15. Captured in a CUDA graph like ``FirstCodeSampler``."""

    def __call__(self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey) -> tuple[Tensor, Tensor]:
        """Sample from talker states [rows, hidden] and codes of codebook 0, int64 [rows].

        Returns the frames' codes int64 [rows, 16] and the sum of their embeddings [rows, hidden].
        """


class PlainResidualCodes:
    """Reference implementation of ``ResidualCodes`` in plain torch."""

    def __init__(self, predictor: CodePredictor, codec: CodecSide) -> None:
        self._predictor, self._codec = predictor, codec

    def __call__(self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey) -> tuple[Tensor, Tensor]:
        """Sample codebooks 1 to 15 as ``ResidualCodes`` requires."""
        sample, uniform = Sampler(params), rng.uniforms()
        codes = self._predictor(hidden, first, lambda codebook, logits: sample(logits, uniform[:, codebook]))
        return codes, self._codec.frame_rows(codes)


class FrameSampler:
    """Samples codebook 0, then the residual codes, and updates the slots. Runs on the device without host access."""

    def __init__(
        self, head: Linear, slots: Slots, residual: ResidualCodes, first: FirstCodeSampler | None = None
    ) -> None:
        self._head, self._slots, self._residual = head, slots, residual
        self._first = first or PlainFirstCodes(slots)

    def __call__(self, hidden: Tensor, slot_ids: Tensor) -> Tensor:
        """Sample codes int64 [n, 16] from hidden states [n, hidden] of slots ``slot_ids``, int64 [n]."""
        first = self._first(self._head(hidden), slot_ids)
        codes, embedding = self._residual(hidden, first.codes, first.residual_params, first.rng)
        self._slots.embedding.index_copy_(0, slot_ids, embedding)
        return codes
