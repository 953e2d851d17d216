"""Codes of two talkers are the same, but for draws that rounding decides.

vLLM's layers sum in another order than the native ones, so logits differ by 1e-5. A number drawn closer than that to
the edge between two codes may fall on either side, and all that follows is another utterance.
"""

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.checkpoint.folder import Checkpoint
from engine.prompt.builder import Prompt
from engine.talker.base import Sampling
from engine.talker.native.talker import NativeTalker
from engine.talker.sampling import Sampler
from tests.support.talkers import DEVICE, Generated, native_talker, speak

ROUNDING = 3e-6 if DEVICE.type == "cpu" else 1e-4
"""Of a probability, or of a logit where the likeliest code is taken."""


def assert_agree(
    heard: Sequence[Generated],
    expected: Sequence[Generated],
    utterances: Sequence[tuple[Prompt, Sampling]],
    checkpoint: Checkpoint,
    except_for: Collection[int] = (),
) -> None:
    """What was heard of each utterance is what the native talker says; of those ``except_for``, its beginning."""
    for number, (one, other) in enumerate(zip(heard, expected, strict=True)):
        wanted = other.codes[: len(one.codes)] if number in except_for else other.codes
        alike = assert_codes_agree(one.codes, wanted, utterances[number], checkpoint)
        assert one.finish is other.finish or number in except_for or not alike, number


def assert_codes_agree(
    codes: np.ndarray, wanted: np.ndarray, utterance: tuple[Prompt, Sampling], checkpoint: Checkpoint
) -> bool:
    """Codes [n, 16] are the wanted ones, or (False) part from them where rounding decides."""
    if np.array_equal(codes, wanted):
        return True
    draw = first_difference(codes, wanted)
    assert margin(native_talker(checkpoint), utterance, draw) < ROUNDING, divmod(draw, 16)
    return False


def first_difference(codes: np.ndarray, wanted: np.ndarray) -> int:
    """The number of the draw, sixteen a frame, at which they part."""
    shared = min(len(codes), len(wanted))
    different = np.flatnonzero(codes[:shared].ravel() != wanted[:shared].ravel())
    return int(different[0]) if len(different) else 16 * shared


def margin(talker: NativeTalker, utterance: tuple[Prompt, Sampling], draw: int) -> float:
    """How far from another code a draw of an utterance is."""
    margins: list[float] = []
    plain = Sampler.__call__

    def measured(self: Sampler, logits: Tensor, uniform: Tensor) -> Tensor:
        edges = self.probabilities(logits).cumsum(-1, dtype=torch.float64)
        drawn = (edges - uniform[:, None] * edges[:, -1:]).abs().min()
        best = logits.topk(2).values
        greedy = bool(self._greedy[0])
        margins.append(float(best[0, 0] - best[0, 1]) if greedy else float(drawn))
        return plain(self, logits, uniform)

    Sampler.__call__ = measured
    try:
        speak(talker, [utterance])
    finally:
        Sampler.__call__ = plain
    return margins[draw]
