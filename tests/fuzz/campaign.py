"""Runs attacks in rounds. After each, resource usage and responses must be the same as before the first round."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from benchmarks.lib.resources import ResourceUsage
from tests.fuzz import http_attacks, socket_attacks
from tests.fuzz.leaks import check, idle_usage
from tests.fuzz.replies import Finding
from tests.fuzz.target import Target
from tests.server.serving import SPEECH, speech

ATTACKS = {**http_attacks.ATTACKS, **socket_attacks.ATTACKS}
_CONCURRENCY = 6
_ROUND = 200


@dataclass
class Report:
    """Number of attacks by kind, and the resource usage after each round."""

    attacks: Counter[str] = field(default_factory=Counter)
    usage: list[ResourceUsage] = field(default_factory=list)


def run_attack(target: Target, seed: int, number: int) -> str:
    """Run one attack of the seed and return its kind. Raises Finding, which says how to repeat it."""
    random = Random(f"{seed} {number}")
    kind = random.choice(list(ATTACKS))
    try:
        ATTACKS[kind](random, target)
    except Exception as error:
        raise Finding(f"{kind}: {error!r}; to repeat: python -m tests.fuzz --seed {seed} --only {number}") from error
    return kind


def campaign(target: Target, seed: int, keep_going: Callable[[int], bool], log: Callable[[str], None]) -> Report:
    """Run rounds of attacks until ``keep_going``, called with the number of attacks, returns false. Raises Finding."""
    report = Report()
    expected = _reference_responses(target)
    _start_decoders(target)
    run_attacks(target, seed, range(-_ROUND, 0), report)
    usage = idle_usage(target)
    done = 0
    while True:
        began = time.monotonic()
        run_attacks(target, seed, range(done, done + _ROUND), report)
        done += _ROUND
        if _reference_responses(target) != expected:
            raise Finding(f"responses differ from those before the first round, after attack {done} of seed {seed}")
        report.usage.append(check(target, usage))
        log(_progress_line(done, time.monotonic() - began, report.usage[-1]))
        if not keep_going(done):
            return report


def run_attacks(target: Target, seed: int, numbers: Iterable[int], report: Report) -> None:
    """Run attacks concurrently. Raises Finding."""
    with ThreadPoolExecutor(_CONCURRENCY) as threads:
        for kind in threads.map(lambda number: run_attack(target, seed, number), numbers):
            report.attacks[kind] += 1


def _reference_responses(target: Target) -> list[bytes]:
    """Return the responses to some valid requests: samples, a compressed file, and a clone."""
    recording = base64.b64encode(target.files["WAV/PCM_16"]).decode()
    requests = (
        speech(),
        speech(response_format="mp3", speed=1.25),
        speech(ref_audio=f"data:audio/wav;base64,{recording}", ref_text="One two three."),
    )
    with target.serving.client() as client:
        return [client.post(SPEECH, json=body).raise_for_status().content for body in requests]


def _start_decoders(target: Target) -> None:
    """Send different recordings concurrently, which starts all workers of the decoder."""
    files = [target.files[name] for name in ("WAV/PCM_16", "WAV/PCM_24", "WAV/FLOAT", "WAV/DOUBLE", "AU/PCM_16")]
    with target.serving.client() as client, ThreadPoolExecutor(len(files)) as threads:

        def clone(data: bytes) -> None:
            url = "data:audio/wav;base64," + base64.b64encode(data).decode()
            client.post(SPEECH, json=speech(ref_audio=url)).raise_for_status()

        list(threads.map(clone, files))


def _progress_line(done: int, seconds: float, usage: ResourceUsage) -> str:
    memory = " + ".join(f"{size:.0f}" for size in usage.resident_mib)
    rate = _ROUND / seconds
    return f"{done:8} attacks, {rate:5.0f} per second; {usage.files} files, {usage.threads} threads, {memory} MiB"
