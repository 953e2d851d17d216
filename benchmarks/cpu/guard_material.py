"""The utterances of ``benchmarks.cpu.guards``: ones that should pass the guards, and ones that should not."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from scripts.judge.clips import Clip, read_clips
from server.text.frontend import spoken
from tests.unit.text.readings import CLASSES, items

_ROOT = Path(__file__).parents[2]
_SHORT = (
    "OK.",
    "Yes.",
    "No.",
    "Ten.",
    "Hi!",
    "Oh.",
    "Why?",
    "Stop!",
    "Thanks.",
    "Good morning.",
    "Never mind.",
    "I see.",
)
_FOREIGN = ("こんにちは、今日はいい天気ですね。", "我们明天早上九点在车站见面。", "Привет, как твои дела сегодня?")
_RAW = (
    "Hello there, **this** is a *test*.",
    "¥3,000 or $19.95 at https://example.com/a/b?c=d#e",
    "for (int i = 0; i < n; ++i) { a[i] = b[i] * 2; }",
    "| name | size |\n|---|---|\n| a | 12 |\n| b | 7 |",
)


@dataclass(frozen=True)
class Case:
    """An utterance to synthesize.

    kind: what it is, a row of the table. faulty: whether its speech is expected to be wrong, so that guards may
    complain. reference: a recording to clone instead of ``speaker``. transcript: of the reference, for in-context
    cloning. temperature, max_frames: None selects the checkpoint's.
    """

    kind: str
    text: str
    seed: int
    faulty: bool = False
    speaker: str | None = None
    reference: Clip | None = None
    transcript: str | None = None
    temperature: float | None = None
    max_frames: int | None = None


def cases(speakers: Sequence[str]) -> Iterator[Case]:
    """Yield all utterances, the most informative first."""
    voices = cycle(speakers)
    plain = [*_lines("held_out.txt"), *_lines("unseen.txt")]
    for seed, text in enumerate(plain):
        yield Case("sentences", text, seed, speaker=next(voices))
    for seed, text in enumerate(_SHORT * 3):
        yield Case("very short", text, 1000 + seed, speaker=next(voices))
    yield from _broken(plain, speakers[0])
    for seed, length in enumerate((120, 160, 200) * 10):
        yield Case("paragraphs", _joined(plain, length, seed), 2000 + seed, speaker=next(voices))
    for name in CLASSES:
        for seed, item in enumerate(items(name)[:5]):
            text = spoken(item.typed, "english").text
            if text.strip():
                yield Case("as typed", text, 3000 + seed, speaker=next(voices))
    clips = read_clips().all()
    for seed, clip in enumerate(clips[::2]):
        yield Case("clones, x-vector", plain[seed], 4000 + seed, reference=clip)
        yield Case("clones, in context", plain[seed + 1], 4100 + seed, reference=clip, transcript=clip.text)
    for seed, clip in enumerate(clips[::2]):
        half = " ".join(clip.text.split()[: len(clip.text.split()) // 2])
        yield Case("half a transcript", plain[seed + 2], 4200 + seed, faulty=True, reference=clip, transcript=half)
        bare = clip.text.rstrip(".?!")
        yield Case("transcript without full stop", plain[seed + 3], 4300 + seed, True, reference=clip, transcript=bare)
    for seed, length in enumerate((600, 900) * 4):
        yield Case(
            "long text in one piece", _joined(plain, length, seed), 5000 + seed, True, speakers[0], max_frames=800
        )


def _broken(plain: Sequence[str], speaker: str) -> Iterator[Case]:
    """Yield utterances that a checkpoint of sentences cannot speak."""
    for seed in range(24):
        yield Case("temperature 2", plain[seed], 5100 + seed, True, speaker, temperature=2.0, max_frames=200)
    letters = random.Random(1)
    for seed in range(16):
        words = ["".join(letters.choices("bcdfghjklmnpqrstvwxz", k=letters.randint(3, 12))) for _ in range(12)]
        yield Case("random letters", " ".join(words) + ".", 5200 + seed, True, speaker)
    for seed, text in enumerate((*_FOREIGN, *_RAW) * 2):
        yield Case("unreadable text", text, 5300 + seed, True, speaker)


def _lines(name: str) -> list[str]:
    return (_ROOT / "scripts" / "train_pocket" / name).read_text().splitlines()


def _joined(sentences: Sequence[str], length: int, start: int) -> str:
    """Return consecutive sentences of at least ``length`` characters, less the last one."""
    at, text = 7 * start, ""
    while len(text) < length:
        text = f"{text} {sentences[at % len(sentences)]}".strip()
        at += 1
    return text
