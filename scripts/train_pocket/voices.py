"""The speakers: configured named ones, random mixtures of the teacher's voices, and varied ones with other bodies."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

from scripts.train_pocket.config import Voices
from scripts.train_pocket.speakers import Kind, Speaker
from scripts.train_pocket.utterances import Accent
from scripts.train_pocket.voice_change import BANDS

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
_ALL = [*_ENGLISH, *_FOREIGN]
_EXPANSION = (1.0, 1.5)
_TRACT = (-0.17, 0.17)
"""Natural logarithm of the factor of the formants."""
_PITCH = 0.14
"""Standard deviation of the natural logarithm of the pitch, beside that of the vocal tract."""
_PITCH_RANGE = (0.7, 1.3)
_EQUALIZER_DB = 2.5
_MIN_DISTANCE = 0.2
"""Minimum ``distance`` between an unseen mixture and all others."""

Mix = dict[str, float]


def named_speakers(voices: Voices) -> dict[str, Speaker]:
    """Return the named voices."""
    return {name: Speaker(voice.mix, voice.accent, "named") for name, voice in voices.named.items()}


def speakers(voices: Voices, seed: int) -> dict[str, Speaker]:
    """Return all speakers by name. They are a function of the seed."""
    named = named_speakers(voices)
    mixed = _random_speakers(voices.mixed, "mixed", random.Random(f"mixed {seed}"), [])
    existing = [speaker.mix for speaker in [*named.values(), *mixed.values()]]
    unseen = _random_speakers(voices.unseen, "unseen", random.Random(f"unseen {seed}"), existing)
    source = random.Random(f"varied {seed}")
    varied = {f"varied{index:04d}": varied_speaker(source) for index in range(voices.varied)}
    return named | mixed | varied | unseen


def varied_speaker(source: random.Random) -> Speaker:
    """Return a random speaker that no mixture of the teacher's voices sounds like.

    Timbre and rhythm are of different mixtures. Pitch follows the length of the vocal tract, with deviations.
    """
    names = source.sample(_ALL, source.choice((1, 2, 2, 3)))
    tract = math.exp(source.uniform(*_TRACT))
    pitch = tract * math.exp(min(max(source.gauss(0, _PITCH), -2 * _PITCH), 2 * _PITCH))
    rhythm = _random_mix(source)
    accent = _accent(max(rhythm, key=lambda voice: rhythm[voice]))
    return Speaker(
        _weights(names, source),
        accent,
        "varied",
        prosody=rhythm,
        expansion=round(source.uniform(*_EXPANSION), 3),
        tract=round(tract, 3),
        pitch=round(pitch, 3),
        pitch_range=round(source.uniform(*_PITCH_RANGE), 3),
        equalizer=tuple(round(source.gauss(0, _EQUALIZER_DB), 1) for _ in BANDS),
    )


def _weights(names: list[str], source: random.Random) -> Mix:
    """Return random weights of the voices, with a sum of 1."""
    parts = [source.gammavariate(1.5, 1.0) for _ in names]
    mix = {name: round(part / sum(parts), 4) for name, part in zip(names[1:], parts[1:], strict=True)}
    return {names[0]: round(1 - sum(mix.values()), 4)} | mix


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
