"""Agreement of codes between two talkers, except for draws decided by rounding.

The layers of vLLM sum in another order than the native ones, so logits differ by 1e-5. A random number closer than that
to the boundary between two codes may give either of them, and all later codes then differ.
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
"""Tolerance of a probability, or of a logit for greedy sampling."""


def assert_agree(
    outputs: Sequence[Generated],
    expected: Sequence[Generated],
    utterances: Sequence[tuple[Prompt, Sampling]],
    checkpoint: Checkpoint,
    except_for: Collection[int] = (),
) -> None:
    """Each output agrees with the native talker's; for those in ``except_for``, only the beginning is compared."""
    for number, (one, other) in enumerate(zip(outputs, expected, strict=True)):
        expected_codes = other.codes[: len(one.codes)] if number in except_for else other.codes
        agree = assert_codes_agree(one.codes, expected_codes, utterances[number], checkpoint)
        assert one.finish is other.finish or number in except_for or not agree, number


def assert_codes_agree(
    codes: np.ndarray, expected: np.ndarray, utterance: tuple[Prompt, Sampling], checkpoint: Checkpoint
) -> bool:
    """Whether codes [n, 16] are the expected ones; asserts that a difference is decided by rounding."""
    if np.array_equal(codes, expected):
        return True
    draw = first_difference(codes, expected)
    assert margin(native_talker(checkpoint), utterance, draw) < ROUNDING, divmod(draw, 16)
    return False


def first_difference(codes: np.ndarray, expected: np.ndarray) -> int:
    """The index of the first different draw; a frame has sixteen."""
    shared = min(len(codes), len(expected))
    different = np.flatnonzero(codes[:shared].ravel() != expected[:shared].ravel())
    return int(different[0]) if len(different) else 16 * shared


def margin(talker: NativeTalker, utterance: tuple[Prompt, Sampling], draw: int) -> float:
    """The distance of a draw from the nearest other code."""
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
