"""Attacks in rounds. After each the server must hold what it held, and speak the bytes that it spoke."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from benchmarks.lib.resources import Held
from tests.fuzz import http_attacks, socket_attacks
from tests.fuzz.answers import Found
from tests.fuzz.belongings import check, settled
from tests.fuzz.target import Target
from tests.server.serving import SPEECH, speech

ATTACKS = {**http_attacks.ATTACKS, **socket_attacks.ATTACKS}
_AT_ONCE = 6
_ROUND = 200


@dataclass
class Report:
    """How many attacks of each kind there were, and what the server held after each round."""

    attacks: Counter[str] = field(default_factory=Counter)
    held: list[Held] = field(default_factory=list)


def attack(target: Target, seed: int, number: int) -> str:
    """Attack number ``number`` of the seed; its kind. Raises Found, saying how to repeat it."""
    random = Random(f"{seed} {number}")
    kind = random.choice(list(ATTACKS))
    try:
        ATTACKS[kind](random, target)
    except Exception as error:
        raise Found(f"{kind}: {error!r}; again: python -m tests.fuzz --seed {seed} --only {number}") from error
    return kind


def campaign(target: Target, seed: int, go_on: Callable[[int], bool], tell: Callable[[str], None]) -> Report:
    """Rounds of attacks while ``go_on``, which is asked after each with the number of attacks. Raises Found."""
    report = Report()
    spoken = _spoken(target)
    _start_decoders(target)
    attack_all(target, seed, range(-_ROUND, 0), report)
    held = settled(target)
    done = 0
    while True:
        began = time.monotonic()
        attack_all(target, seed, range(done, done + _ROUND), report)
        done += _ROUND
        if _spoken(target) != spoken:
            raise Found(f"the server speaks otherwise than before, after attack {done} of seed {seed}")
        report.held.append(check(target, held))
        tell(_line(done, time.monotonic() - began, report.held[-1]))
        if not go_on(done):
            return report


def attack_all(target: Target, seed: int, numbers: Iterable[int], report: Report) -> None:
    """Several at a time. Raises Found."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for kind in threads.map(lambda number: attack(target, seed, number), numbers):
            report.attacks[kind] += 1


def _spoken(target: Target) -> list[bytes]:
    """What some requests that are in order give: samples, a packed file, and a clone."""
    recording = base64.b64encode(target.files["WAV/PCM_16"]).decode()
    asked = (
        speech(),
        speech(response_format="mp3", speed=1.25),
        speech(ref_audio=f"data:audio/wav;base64,{recording}", ref_text="One two three."),
    )
    with target.serving.client() as client:
        return [client.post(SPEECH, json=body).raise_for_status().content for body in asked]


def _start_decoders(target: Target) -> None:
    """Bring different recordings at once, so that every worker of the decoder is started."""
    files = [target.files[name] for name in ("WAV/PCM_16", "WAV/PCM_24", "WAV/FLOAT", "WAV/DOUBLE", "AU/PCM_16")]
    with target.serving.client() as client, ThreadPoolExecutor(len(files)) as threads:

        def clone(data: bytes) -> None:
            url = "data:audio/wav;base64," + base64.b64encode(data).decode()
            client.post(SPEECH, json=speech(ref_audio=url)).raise_for_status()

        list(threads.map(clone, files))


def _line(done: int, seconds: float, held: Held) -> str:
    memory = " + ".join(f"{size:.0f}" for size in held.resident)
    return (
        f"{done:8} attacks, {_ROUND / seconds:5.0f} a second; {held.files} files, {held.threads} threads, {memory} MiB"
    )
