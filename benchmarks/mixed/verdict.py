"""Decides whether the responses under load are correct."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isnan
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.mixed.clients import Response
from benchmarks.mixed.lines import Line
from benchmarks.mixed.teacher import Teacher

_BATCH = 48
_WRONG_CODES_PER_FRAME = 4
"""A frame is wrong if at least this many of its sixteen codes have a slip above the tolerance."""

_MOST_DESCRIBED = 20

Codes = NDArray[np.int16]
Variants = dict[int, list[tuple[Codes, int]]]
"""Line -> the responses whose codes differ from those without load, each with the index of its first different code."""


@dataclass
class Verdict:
    """The verdict over all responses.

    responses: number of responses.
    without_frames: cancelled before the first frame.
    equal: same codes as without load, up to the end or the cancellation.
    diverged: with a different code at some point; all later codes may differ, too.
    wrong_length: read to the end, but with a different length than without load.
    samples_compared: started with the same codes as without load, so that samples could be compared.
    min_snr_db: the smallest level of their difference, in dB below the line. below: descriptions of the responses below
        the limit.
    checked: number of diverged responses that were checked code by code.
    codes: their number of codes. exact_codes: those without any slip.
    first_slip: largest slip at the first different code. max_slip: largest slip of any code. alone_max_slip: the same
        for the responses without load.
    swapped: number of responses checked as if they belonged to another line, as a test of the check itself.
    swapped_detected: number of these that were found wrong, which should be all.
    wrong: descriptions of responses with a wrong frame.
    """

    responses: int = 0
    without_frames: int = 0
    equal: int = 0
    diverged: int = 0
    wrong_length: int = 0
    samples_compared: int = 0
    min_snr_db: float = inf
    below: list[str] = field(default_factory=list)
    checked: int = 0
    codes: int = 0
    exact_codes: int = 0
    first_slip: float = 0.0
    max_slip: float = 0.0
    alone_max_slip: float = 0.0
    swapped: int = 0
    swapped_detected: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong, everything was checked, and the check found all swapped responses."""
        failures = self.wrong or self.wrong_length or self.below or self.unchecked
        return not failures and self.swapped_detected == self.swapped

    @property
    def unchecked(self) -> int:
        """Number of diverged responses that were not checked for lack of time."""
        return self.diverged - self.checked

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"unchecked": self.unchecked, "good": self.good}

    def comparison_summary(self) -> str:
        """Return a summary of the comparison with the responses without load."""
        with_frames = self.responses - self.without_frames
        share = self.equal / with_frames if with_frames else 0.0
        summary = (
            f"{with_frames} responses: {self.equal} equal ({share:.1%}), {self.diverged} diverged, "
            f"{self.wrong_length} of another length; {self.without_frames} cancelled before the first frame; "
            f"samples of {self.samples_compared} compared: difference {self.min_snr_db:.1f} dB below the line or less, "
            f"{len(self.below)} DIFFERENT"
        )
        return "\n".join((summary, *self.below[:_MOST_DESCRIBED]))

    def check_summary(self) -> str:
        """Return a summary of the check of the diverged responses, code by code."""
        share = self.exact_codes / self.codes if self.codes else 1.0
        return "\n".join(
            (
                f"{self.checked} diverged responses checked, {self.unchecked} NOT: {share:.2%} of {self.codes} codes "
                f"without a slip, largest slip {self.max_slip:.4f} (without load {self.alone_max_slip:.4f}), "
                f"at the first different code {self.first_slip:.4f}",
                f"{len(self.wrong)} WRONG; {self.swapped_detected} of {self.swapped} swapped responses detected",
                *self.wrong[:_MOST_DESCRIBED],
            )
        )


def compare(alone: Sequence[Response], responses: Sequence[Response], *, min_snr_db: float) -> tuple[Verdict, Variants]:
    """Compare the responses under load with those without load. Return the verdict and the responses that differ.

    min_snr_db: minimum level of the difference, in dB below the line, for samples decoded from the same codes.
    """
    verdict = Verdict(responses=len(responses))
    levels = [each.snr_db for each in responses if not isnan(each.snr_db)]
    verdict.samples_compared, verdict.min_snr_db = len(levels), min(levels, default=inf)
    verdict.below = [
        f"line {each.line}, {each.behavior}: frames {each.worst_frames.start} to {each.worst_frames.stop - 1}, "
        f"difference {each.snr_db:.1f} dB below the line"
        for each in responses
        if each.snr_db < min_snr_db
    ]
    variants: Variants = defaultdict(list)
    for each in responses:
        expected = alone[each.line].codes
        verdict.wrong_length += each.complete and len(each.codes) != len(expected)
        different = first_difference(each.codes, expected)
        if not each.complete and not len(each.codes):
            verdict.without_frames += 1
        elif different is None:
            verdict.equal += 1
        else:
            verdict.diverged += 1
            variants[each.line].append((each.codes, different))
    return verdict, variants


def check_diverged(
    verdict: Verdict,
    variants: Variants,
    lines: Sequence[Line],
    alone: Sequence[Response],
    teacher: Teacher,
    *,
    tolerance: float,
    seconds: float,
) -> None:
    """Check the responses without load, then the diverged ones in random order, for up to ``seconds`` seconds.

    tolerance: maximum slip that rounding explains.
    """
    _check_alone(verdict, lines, alone, teacher, tolerance)
    deadline = time.monotonic() + seconds
    for line, group in _shuffled_groups(variants):
        if time.monotonic() > deadline:
            break
        slips = teacher.slips(lines[line].request, [codes for codes, _ in group])
        for each, (_, different) in zip(slips, group, strict=True):
            verdict.checked += 1
            verdict.codes += each.size
            verdict.exact_codes += int((each == 0).sum())
            verdict.max_slip = max(verdict.max_slip, float(each.max()))
            verdict.first_slip = max(verdict.first_slip, float(each.flat[different]))
            if (frame := first_wrong_frame(each, tolerance)) is not None:
                verdict.wrong.append(f"line {line} ({lines[line].kind}) from frame {frame} on")


def first_difference(codes: Codes, expected: Codes) -> int | None:
    """Return the index of the first different code (16 per frame), or None if ``codes`` is a prefix of ``expected``."""
    shared = min(len(codes), len(expected))
    different = np.flatnonzero(codes[:shared].ravel() != expected[:shared].ravel())
    if len(different):
        return int(different[0])
    return None if len(codes) <= len(expected) else shared * codes.shape[1]


def first_wrong_frame(slips: NDArray[np.float64], tolerance: float) -> int | None:
    """Return the first frame in which more codes slip than rounding explains, or None."""
    wrong_frames = np.flatnonzero((slips > tolerance).sum(1) >= _WRONG_CODES_PER_FRAME)
    return int(wrong_frames[0]) if len(wrong_frames) else None


def _check_alone(
    verdict: Verdict, lines: Sequence[Line], alone: Sequence[Response], teacher: Teacher, tolerance: float
) -> None:
    """Check that the responses without load are right, and that they are found wrong as responses to another line."""
    for number, line in enumerate(lines):
        codes, others = alone[number].codes, alone[(number + 1) % len(lines)].codes
        if not len(codes):
            verdict.wrong.append(f"line {number} ({line.kind}) without load has no frames")
        else:
            [own] = teacher.slips(line.request, [codes])
            verdict.alone_max_slip = max(verdict.alone_max_slip, float(own.max()))
            if first_wrong_frame(own, tolerance) is not None:
                verdict.wrong.append(f"line {number} ({line.kind}) without load")
        if not len(others):
            continue
        [foreign] = teacher.slips(line.request, [others])
        verdict.swapped += 1
        verdict.swapped_detected += first_wrong_frame(foreign, tolerance) is not None


def _shuffled_groups(variants: Variants) -> list[tuple[int, list[tuple[Codes, int]]]]:
    """Return the diverged responses in random order, in groups of the same line that are checked in one batch."""
    groups = []
    for line, line_variants in variants.items():
        line_variants.sort(key=lambda variant: len(variant[0]))
        groups += [(line, line_variants[begin : begin + _BATCH]) for begin in range(0, len(line_variants), _BATCH)]
    Random(1).shuffle(groups)
    return groups
