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

from benchmarks.mixed.clients import Heard
from benchmarks.mixed.lines import Line
from benchmarks.mixed.teacher import Teacher

_TOGETHER = 48
_ROWS_AT_FAULT = 4
"""A frame is wrong if at least this many of its sixteen codes have a slip above the tolerance."""

Codes = NDArray[np.int16]
Variants = dict[int, list[tuple[Codes, int]]]
"""Line -> the responses that differ from the line heard alone, each with the index of its first different code."""


@dataclass
class Verdict:
    """The verdict over all responses.

    heard: number of responses.
    unheard: cancelled before the first frame.
    equal: same codes as alone, up to the end or the cancellation.
    parted: with a different code at some point; all later codes may differ, too.
    short: read to the end, but with a different length than alone.
    sounded: started with the same codes as alone, so that samples could be compared.
    likeness: the smallest level of their difference, in dB below the line. unlike: number of responses below the limit.
    judged: number of parted responses that were checked code by code.
    codes: their number of codes. within: those without any slip.
    parting: largest slip at the first different code. slip: largest slip of any code. alone_slip: the same for the
        lines heard alone.
    swapped: number of lines checked as if they were the response to another line, as a test of the check itself.
    confused: number of these that were found wrong, which should be all.
    wrong: descriptions of responses with a wrong frame.
    """

    heard: int = 0
    unheard: int = 0
    equal: int = 0
    parted: int = 0
    short: int = 0
    judged: int = 0
    sounded: int = 0
    likeness: float = inf
    unlike: int = 0
    codes: int = 0
    within: int = 0
    parting: float = 0.0
    slip: float = 0.0
    alone_slip: float = 0.0
    confused: int = 0
    swapped: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong, everything was checked, and the check found all swapped lines."""
        amiss = self.wrong or self.short or self.unlike or self.unjudged
        return not amiss and self.confused == self.swapped

    @property
    def unjudged(self) -> int:
        """Number of parted responses that were not checked for lack of time."""
        return self.parted - self.judged

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"unjudged": self.unjudged, "good": self.good}

    def compared(self) -> str:
        """Return a summary of the comparison with the lines heard alone."""
        begun = self.heard - self.unheard
        share = self.equal / begun if begun else 0.0
        return (
            f"{begun} lines heard: {self.equal} as alone ({share:.1%}), {self.parted} parted, {self.short} short; "
            f"{self.unheard} given up before they began; samples of {self.sounded} compared, the difference "
            f"{self.likeness:.1f} dB below the line or more, {self.unlike} UNLIKE"
        )

    def judgement(self) -> str:
        """Return a summary of the check of the parted responses, code by code."""
        kept = self.within / self.codes if self.codes else 1.0
        return "\n".join(
            (
                f"{self.judged} of the parted judged, {self.unjudged} NOT: {kept:.2%} of {self.codes} codes within "
                f"their share, largest slip {self.slip:.4f} (alone {self.alone_slip:.4f}), where they part "
                f"{self.parting:.4f}",
                f"{len(self.wrong)} WRONG; of {self.swapped} lines judged as another one {self.confused} are found",
                *self.wrong[:10],
            )
        )


def compare(alone: Sequence[Heard], heard: Sequence[Heard], *, decibels: float) -> tuple[Verdict, Variants]:
    """Compare the responses under load with the lines heard alone. Return the verdict and the responses that differ.

    decibels: minimum level of the difference, in dB below the line, for samples decoded from the same codes.
    """
    verdict = Verdict(heard=len(heard))
    compared = [each.likeness for each in heard if not isnan(each.likeness)]
    verdict.sounded, verdict.likeness = len(compared), min(compared, default=inf)
    verdict.unlike = sum(likeness < decibels for likeness in compared)
    variants: Variants = defaultdict(list)
    for each in heard:
        wanted = alone[each.line].codes
        verdict.short += each.whole and len(each.codes) != len(wanted)
        parting = first_difference(each.codes, wanted)
        if not each.whole and not len(each.codes):
            verdict.unheard += 1
        elif parting is None:
            verdict.equal += 1
        else:
            verdict.parted += 1
            variants[each.line].append((each.codes, parting))
    return verdict, variants


def judge(
    verdict: Verdict,
    variants: Variants,
    lines: Sequence[Line],
    alone: Sequence[Heard],
    teacher: Teacher,
    *,
    tolerance: float,
    seconds: float,
) -> None:
    """Check the lines heard alone, then the parted responses in random order, for up to ``seconds`` seconds.

    tolerance: maximum slip that rounding explains.
    """
    _judge_alone(verdict, lines, alone, teacher, tolerance)
    ends = time.monotonic() + seconds
    for line, group in _shuffled(variants):
        if time.monotonic() > ends:
            break
        slips = teacher.slips(lines[line].request, [codes for codes, _ in group])
        for each, (_, parting) in zip(slips, group, strict=True):
            verdict.judged += 1
            verdict.codes += each.size
            verdict.within += int((each == 0).sum())
            verdict.slip = max(verdict.slip, float(each.max()))
            verdict.parting = max(verdict.parting, float(each.flat[parting]))
            if (frame := frame_at_fault(each, tolerance)) is not None:
                verdict.wrong.append(f"line {line} ({lines[line].kind}) from frame {frame} on")


def first_difference(codes: Codes, wanted: Codes) -> int | None:
    """Return the index of the first different code (sixteen per frame); None if ``codes`` is a prefix of ``wanted``."""
    shared = min(len(codes), len(wanted))
    different = np.flatnonzero(codes[:shared].ravel() != wanted[:shared].ravel())
    if len(different):
        return int(different[0])
    return None if len(codes) <= len(wanted) else shared * codes.shape[1]


def frame_at_fault(slips: NDArray[np.float64], tolerance: float) -> int | None:
    """Return the first frame in which more codes slip than rounding explains, or None."""
    found = np.flatnonzero((slips > tolerance).sum(1) >= _ROWS_AT_FAULT)
    return int(found[0]) if len(found) else None


def _judge_alone(
    verdict: Verdict, lines: Sequence[Line], alone: Sequence[Heard], teacher: Teacher, tolerance: float
) -> None:
    """Check that lines heard alone are right, and that they are found wrong as responses to another line."""
    for number, line in enumerate(lines):
        codes, others = alone[number].codes, alone[(number + 1) % len(lines)].codes
        if not len(codes):
            verdict.wrong.append(f"line {number} ({line.kind}), heard alone, has no frames")
        else:
            [own] = teacher.slips(line.request, [codes])
            verdict.alone_slip = max(verdict.alone_slip, float(own.max()))
            if frame_at_fault(own, tolerance) is not None:
                verdict.wrong.append(f"line {number} ({line.kind}), heard alone")
        if not len(others):
            continue
        [foreign] = teacher.slips(line.request, [others])
        verdict.swapped += 1
        verdict.confused += frame_at_fault(foreign, tolerance) is not None


def _shuffled(variants: Variants) -> list[tuple[int, list[tuple[Codes, int]]]]:
    """Return the parted responses in random order, in groups of the same line that are checked in one batch."""
    groups = []
    for line, several in variants.items():
        several.sort(key=lambda variant: len(variant[0]))
        groups += [(line, several[begin : begin + _TOGETHER]) for begin in range(0, len(several), _TOGETHER)]
    Random(1).shuffle(groups)
    return groups
