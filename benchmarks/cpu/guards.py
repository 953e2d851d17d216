"""Measures the guards on real speech: ``python -m benchmarks.cpu.guards [--model FOLDER] [--keep FOLDER]``.

The engine synthesizes several hundred utterances: sentences, very short texts, paragraphs, texts as people type them
and clones, which should pass, and ones that are broken on purpose. Each is then checked as its stream would be, and
a row counts how many of each kind the guards would stop or try again, with the fault. "half removed", "text doubled",
"silenced" and "looped" are the good utterances with an artificial defect: each should be stopped. Those with half a
second removed or a second repeated should be tried again, where that concerns a whole word.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.cpu.guard_speech import Spoken, make_again, synthesize
from engine.checkpoint.checksums import Checksums
from engine.checkpoint.speech_profile import read_speech_profile
from engine.protocol.request import SAMPLE_RATE, FinishReason, SpeechRequest
from engine.protocol.speech_profile import SpeechProfile
from server.alignment.aligner import english_aligner
from server.alignment.worker import limit_blas_threads
from server.guards.activity import SpeechActivity
from server.guards.check import Fault, PieceCheck
from server.guards.expectation import paces_of
from server.guards.words import WordCheck

_LONG_ENOUGH = 40
"""Characters of texts that get an artificial defect of their duration."""


def fault_of(spoken: Spoken, profile: SpeechProfile) -> Fault | None:
    """Return what the guards find in an utterance."""
    own_limit = spoken.case.max_frames is not None
    check = PieceCheck(spoken.case.text, paces_of(profile.characters_per_second, None), own_limit=own_limit)
    for chunk in spoken.chunks():
        if (fault := check.add(chunk)) is not None:
            return fault
    fault = check.end(spoken.finish_reason)
    stopped = spoken.finish_reason is FinishReason.STOP
    if fault is None and stopped and WordCheck.applies(SpeechRequest(spoken.case.text), profile):
        return Fault.WORDS if english_aligner().fit(spoken.samples, spoken.case.text).faults else None
    return fault


def defects(spoken: Spoken) -> Iterator[Spoken]:
    """Yield ``spoken`` with artificial defects."""
    case, frames = spoken.case, len(spoken.codes)

    def changed(kind: str, frames_at: Iterable[int], text: str = case.text) -> Spoken:
        order = np.fromiter(frames_at, np.int64)
        samples = spoken.samples.reshape(-1, 1920)[order].reshape(-1)
        return Spoken(replace(case, kind=kind, text=text, faulty=True), samples, spoken.codes[order], FinishReason.STOP)

    if len(case.text) >= _LONG_ENOUGH:
        yield changed("two thirds removed", range(frames // 3))
        yield changed("half removed", range(frames // 2))
        yield changed("text doubled", range(frames), f"{case.text} {case.text}")
        yield changed("a third of the text", range(frames), case.text[: len(case.text) // 3])
        middle = frames // 2
        yield changed("looped", [*range(middle), *(middle + at % 10 for at in range(60))])
        yield changed("stuck", [*range(middle), *(middle for _ in range(60))])
        yield changed("half a second removed", [*range(middle - 3), *range(middle + 3, frames)])
        yield changed("a second repeated", [*range(middle + 12), *range(middle, frames)])
    silent = replace(spoken, case=replace(case, kind="silenced", faulty=True), samples=spoken.samples // 4096)
    yield silent


def report(utterances: list[Spoken], profile: SpeechProfile) -> None:
    """Print a row for each kind, then the good utterances that would be stopped."""
    found: dict[str, Counter[str]] = {}
    seconds: Counter[str] = Counter()
    alarms: list[str] = []
    began = time.thread_time()
    good = [spoken for spoken in utterances if not spoken.case.faulty]
    for spoken in [*utterances, *(each for whole in good for each in defects(whole))]:
        fault = fault_of(spoken, profile)
        found.setdefault(spoken.case.kind, Counter())[fault.value if fault else "passed"] += 1
        seconds[spoken.case.kind] += len(spoken.samples) // 24
        if fault is not None and not spoken.case.faulty:
            length = len(spoken.samples) / 24_000
            alarms.append(f"{fault.value}: {length:.1f} s, {spoken.case.speaker or 'clone'}, {spoken.case.text!r}")
    names = ["passed", *(fault.value for fault in Fault)]
    print(f"{'utterances':30}{'count':>7}{'s':>7}" + "".join(f"{name:>11}" for name in names))
    for kind, counts in found.items():
        row = "".join(f"{counts[name] or '-':>11}" for name in names)
        print(f"{kind:30}{counts.total():>7}{seconds[kind] / 1000:>7.0f}{row}")
    cost = 1e6 * (time.thread_time() - began) / seconds.total()
    print(f"\nfound in good utterances: {len(alarms)} of {len(good)}", *alarms, sep="\n")
    print(f"CPU time of the checks: {cost:.2f} ms for a second of speech")
    print(f"of the alignment: {alignment_cost(good, profile):.2f} ms for a second of good speech")


def alignment_cost(utterances: list[Spoken], profile: SpeechProfile) -> float:
    """Return the CPU time of the words' check, in milliseconds for a second of speech that it applies to."""
    checked = [spoken for spoken in utterances if WordCheck.applies(SpeechRequest(spoken.case.text), profile)]
    began = time.thread_time()
    for spoken in checked:
        english_aligner().fit(spoken.samples, spoken.case.text)
    return 1000 * (time.thread_time() - began) / (sum(len(spoken.samples) for spoken in checked) / SAMPLE_RATE)


def mean_pace(utterances: list[Spoken]) -> float:
    """Return the mean pace of the sentences, in characters per second: the value for sonant.json."""
    paces = []
    for spoken in utterances:
        activity = SpeechActivity()
        activity.add(spoken.samples)
        if spoken.case.kind == "sentences" and activity.speech_seconds:
            paces.append(len(spoken.case.text) / activity.speech_seconds)
    return statistics.fmean(paces)


def report_retries(model: Path, found: list[Spoken], profile: SpeechProfile) -> None:
    """Make the utterances with faults again, and print how many are sent, and sent without a fault, for each kind."""
    counts: dict[str, Counter[str]] = {}
    for spoken, record, sent in asyncio.run(make_again(model, found)):
        mended = sent is not None and fault_of(sent, profile) is None
        names = {"found": 1, "sent": sent is not None, "mended": mended, "retries": sum(record.retries.values())}
        counts.setdefault(spoken.case.kind, Counter()).update(names)
    print(f"\n{'made again':30}{'found':>7}{'sent':>7}{'mended':>9}{'retries':>9}")
    for kind, count in counts.items():
        print(f"{kind:30}{count['found']:>7}{count['sent']:>7}{count['mended']:>9}{count['retries']:>9}")


def main() -> None:
    """Synthesize what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument("--keep", type=Path, help="folder for the speech; later runs do not synthesize it again")
    parser.add_argument("--limit", type=int, help="number of utterances; default: all")
    args = parser.parse_args()
    profile = read_speech_profile(args.model, Checksums.load(args.model))
    limit_blas_threads()
    with tempfile.TemporaryDirectory() if args.keep is None else nullcontext(args.keep) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        utterances = asyncio.run(synthesize(args.model, Path(folder), args.limit))
    print(f"characters_per_second of the sentences: {mean_pace(utterances):.1f}\n")
    report(utterances, profile)
    report_retries(args.model, [spoken for spoken in utterances if fault_of(spoken, profile) is not None], profile)


if __name__ == "__main__":
    main()
