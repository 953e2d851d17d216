"""Whether what was heard under load is what each line should have been."""

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
"""Codes of a frame, of sixteen, that may not slip by more than what is tolerated."""

Codes = NDArray[np.int16]
Variants = dict[int, list[tuple[Codes, int]]]
"""Line -> the answers that parted from it, and the number of the code at which they did."""


@dataclass
class Verdict:
    """Over everything that was heard.

    unheard: given up before the first frame. equal: as alone, up to where it was broken off. parted: with another code
    at some point, after which all else must differ. sounded: begun with the codes of alone, so that samples could be
    compared; likeness: by how many decibels their difference lies below the line, at the least; unlike: for how many by
    too few. short: heard to the end, but not as long as alone. wrong: lines of
    which some frame is not what it should have been. judged: how many of the parted were judged code by code; within:
    their codes that do not slip at all. parting: the largest slip of a code where a line parts; slip: the largest of
    any code. confused: of so many lines judged as if another had been asked for, how many were found wrong, which
    should be all.
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
        """Whether nothing is wrong, nothing was left unjudged, and the check would have found it."""
        amiss = self.wrong or self.short or self.unlike or self.unjudged
        return not amiss and self.confused == self.swapped

    @property
    def unjudged(self) -> int:
        """How many of the parted there was no time for."""
        return self.parted - self.judged

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"unjudged": self.unjudged, "good": self.good}

    def compared(self) -> str:
        """What comparing alone has shown."""
        begun = self.heard - self.unheard
        share = self.equal / begun if begun else 0.0
        return (
            f"{begun} lines heard: {self.equal} as alone ({share:.1%}), {self.parted} parted, {self.short} short; "
            f"{self.unheard} given up before they began; samples of {self.sounded} compared, the difference "
            f"{self.likeness:.1f} dB below the line or more, {self.unlike} UNLIKE"
        )

    def judgement(self) -> str:
        """What reading the others code by code has shown."""
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
    """Of each line what it was alone, and the answers that parted from that.

    decibels: by which the difference must lie below the line where samples are made of the same codes.
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
    """Judge the lines alone, then those that parted, in a random order, for so many seconds.

    tolerance: the slip that rounding may make.
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
    """The number of the first code, sixteen a frame, that is another; None for what is all or the beginning of it."""
    shared = min(len(codes), len(wanted))
    different = np.flatnonzero(codes[:shared].ravel() != wanted[:shared].ravel())
    if len(different):
        return int(different[0])
    return None if len(codes) <= len(wanted) else shared * codes.shape[1]


def frame_at_fault(slips: NDArray[np.float64], tolerance: float) -> int | None:
    """The first frame with more codes that slip than rounding explains."""
    found = np.flatnonzero((slips > tolerance).sum(1) >= _ROWS_AT_FAULT)
    return int(found[0]) if len(found) else None


def _judge_alone(
    verdict: Verdict, lines: Sequence[Line], alone: Sequence[Heard], teacher: Teacher, tolerance: float
) -> None:
    """What was heard alone must be right itself, and must be found wrong as an answer to the next line."""
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
    """In groups of one line, which are judged together."""
    groups = []
    for line, several in variants.items():
        several.sort(key=lambda variant: len(variant[0]))
        groups += [(line, several[begin : begin + _TOGETHER]) for begin in range(0, len(several), _TOGETHER)]
    Random(1).shuffle(groups)
    return groups
