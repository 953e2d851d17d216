"""The speakers: configured named ones, and random mixtures of the teacher's voices."""

from __future__ import annotations

import random
from collections.abc import Iterable

from scripts.train_pocket.config import Voices
from scripts.train_pocket.speakers import Kind, Speaker
from scripts.train_pocket.utterances import Accent

_MAIN = """
    af_heart af_bella af_sarah af_aoede af_kore af_nova af_alloy af_sky af_jessica af_river
    am_michael am_fenrir am_adam am_echo am_eric am_liam am_onyx
    bf_emma bf_isabella bf_alice bf_lily
    bm_george bm_fable bm_lewis bm_daniel
""".split()
"""Clear English voices."""
_ENGLISH = [*_MAIN, "af_nicole", "am_puck", "am_santa"]
_FOREIGN = """
    ef_dora em_alex em_santa ff_siwis hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola
    jf_alpha jf_gongitsune jf_nezumi jf_tebukuro jm_kumo pf_dora pm_alex pm_santa
    zf_xiaobei zf_xiaoni zf_xiaoxiao zf_xiaoyi zm_yunjian zm_yunxi zm_yunxia zm_yunyang
""".split()
"""Voices of other languages. With a small weight they change the timbre but not the accent."""
_FOREIGN_CHANCE = 0.35
_MAX_FOREIGN = 0.35
_MAIN_WEIGHT = (0.4, 0.85)
_MIN_DISTANCE = 0.2
"""Minimum ``distance`` between an unseen mixture and all others."""

Mix = dict[str, float]


def speakers(voices: Voices, seed: int) -> dict[str, Speaker]:
    """Return all speakers by name. They are a function of the seed."""
    named = {name: Speaker(voice.mix, voice.accent, "named") for name, voice in voices.named.items()}
    mixed = _random_speakers(voices.mixed, "mixed", random.Random(f"mixed {seed}"), [])
    existing = [speaker.mix for speaker in [*named.values(), *mixed.values()]]
    return named | mixed | _random_speakers(voices.unseen, "unseen", random.Random(f"unseen {seed}"), existing)


def distance(one: Mix, other: Mix) -> float:
    """Return half the L1 distance of the weights: 0 for equal mixtures, 1 for mixtures without a common voice."""
    return sum(abs(one.get(voice, 0.0) - other.get(voice, 0.0)) for voice in one.keys() | other.keys()) / 2


def _random_speakers(count: int, kind: Kind, source: random.Random, existing: Iterable[Mix]) -> dict[str, Speaker]:
    others = list(existing)
    made: dict[str, Speaker] = {}
    while len(made) < count:
        mix = _random_mix(source)
        if all(distance(mix, other) >= _MIN_DISTANCE for other in others):
            main = max(mix, key=lambda voice: mix[voice])
            made[f"{kind}{len(made):04d}"] = Speaker(mix, _accent(main), kind)
    return made


def _random_mix(source: random.Random) -> Mix:
    main = source.choice(_MAIN)
    sides = _side_voices(main, source)
    weight = source.uniform(*_MAIN_WEIGHT)
    shares = [source.gammavariate(1.0, 1.0) for _ in sides]
    mix = {main: weight} | {side: (1 - weight) * part / sum(shares) for side, part in zip(sides, shares, strict=True)}
    heaviest = max(mix, key=lambda voice: mix[voice])
    foreign = sum(part for voice, part in mix.items() if voice in _FOREIGN)
    if heaviest != main or foreign > _MAX_FOREIGN:
        return _random_mix(source)
    rounded = {voice: round(part, 4) for voice, part in mix.items()}
    return rounded | {main: round(1 - sum(part for voice, part in rounded.items() if voice != main), 4)}


def _side_voices(main: str, source: random.Random) -> list[str]:
    count = source.choice((1, 2))
    sides: list[str] = []
    while len(sides) < count:
        side = source.choice(_FOREIGN if source.random() < _FOREIGN_CHANCE else _ENGLISH)
        if side not in (main, *sides):
            sides.append(side)
    return sides


def _accent(voice: str) -> Accent:
    return "british" if voice.startswith("b") else "american"
