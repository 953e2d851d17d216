"""Speaks long texts through a server, and counts wrong words, lost sentences and inserted words.

``python -m scripts.judge.long_texts [--characters 100 300 1000 3000 20000]``. It needs the environment of ``make
judge``. The texts are made of the sentences in ``data``: prose in paragraphs, replies of a chat assistant in Markdown,
dialogue, and scenes from stories, which have names. Each is one streamed request. Moonshine and Whisper hear the
recording in pieces between its pauses. Only what both of them miss or add is counted as lost or inserted.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import numpy as np
import soundfile

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.class_items import read_items
from scripts.judge.exam import MAIN_VOICES
from scripts.judge.figures import RECOGNIZERS
from scripts.judge.paths import CACHE, JUDGE_PYTHON, ROOT
from scripts.judge.pieces import split_at_pauses
from scripts.judge.recordings import Recording, run_judges
from scripts.judge.serving import ServedCheckpoint
from scripts.judge.sound import Samples
from server.text.frontend import spoken

_CHARACTERS = (100, 300, 1000, 3000, 20000)
_PARAGRAPH = 4
"""Sentences."""


@dataclass(frozen=True)
class LongText:
    """A text as it is typed, and its sentences."""

    kind: str
    typed: str
    sentences: list[str]


def main() -> None:
    """Print one line for each text, and what was lost or inserted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--characters", type=int, nargs="+", default=_CHARACTERS, help="lengths of the texts")
    args = parser.parse_args()
    texts = [make(kind, characters) for kind in KINDS for characters in args.characters]
    folder = CACHE / "spoken" / "long"
    folder.mkdir(parents=True, exist_ok=True)
    heads = "".join(f"{name:>11}" for name in RECOGNIZERS)
    print(f"{'kind':9}{'characters':>11}{'sentences':>10}{'seconds':>9}{heads}{'lost':>6}{'inserted':>9}")
    with ServedCheckpoint(args.checkpoint, folder / "server.log") as server:
        for number, text in enumerate(texts):
            samples = speak(server, text.typed, MAIN_VOICES[number % len(MAIN_VOICES)], number)
            found = {name: compare(text.sentences, heard) for name, heard in hear(samples).items()}
            print(line(text, samples, found), flush=True)


def make(kind: str, characters: int) -> LongText:
    """Return a text of about ``characters`` characters. The same arguments make the same text."""
    if kind == _SCENES:
        chosen = list(_fitting(KINDS[kind], characters))
        return LongText(kind, "\n\n".join(chosen), chosen)
    chosen = _chosen(random.Random(f"{kind} {characters}"), KINDS[kind], characters)
    paragraphs = [chosen[start : start + _PARAGRAPH] for start in range(0, len(chosen), _PARAGRAPH)]
    if kind == "chat":
        typed = "\n\n".join(_chat(paragraph, number) for number, paragraph in enumerate(paragraphs))
    else:
        typed = "\n\n".join(" ".join(paragraph) for paragraph in paragraphs)
    return LongText(kind, typed, chosen)


def _everyday() -> list[str]:
    items = read_items()
    return [item.typed for name in ("everyday", "elsewhere") for item in items[name]]


def _dialogue() -> list[str]:
    return [item.typed for item in read_items()["quotes"]]


_SCENES = "scenes"
_SCENES_FILE = ROOT / "scripts" / "judge" / "data" / "scenes.txt"
"""Fifteen scenes, one paragraph a line. Their writers did not know what the text is for."""
KINDS = {
    "prose": _everyday(),
    "chat": _everyday(),
    "dialogue": _dialogue(),
    _SCENES: _SCENES_FILE.read_text().splitlines(),
}
"""The sentences of each kind of text, or its paragraphs."""


def _fitting(paragraphs: Sequence[str], characters: int) -> Iterator[str]:
    """Yield paragraphs in order, each if it still fits."""
    for paragraph in paragraphs:
        size = len(paragraph) + 2
        if size <= characters:
            characters -= size
            yield paragraph


def _chosen(order: random.Random, sentences: Sequence[str], characters: int) -> list[str]:
    """Return sentences in random order. All are used before one is used again."""
    chosen: list[str] = []
    while True:
        for sentence in order.sample(sentences, len(sentences)):
            if chosen and sum(len(each) + 1 for each in chosen) + len(sentence) > characters:
                return chosen
            chosen.append(sentence)


def _chat(sentences: Sequence[str], number: int) -> str:
    """Return a part of a reply: a paragraph with emphasis, a list, or a quotation. The marks are not spoken."""
    match number % 3:
        case 0:
            first, *rest = sentences
            return " ".join([f"**{first}**", *rest]) + " 🎉"
        case 1:
            return "\n".join(f"- {each}" for each in sentences)
        case _:
            return "\n".join(f"> {each}" for each in sentences)


def speak(server: ServedCheckpoint, text: str, voice: str, seed: int) -> Samples:
    """Return the samples of one streamed request. Raises RuntimeError when it fails."""
    status, content = server.speech({"input": text, "voice": voice, "seed": seed, "response_format": "pcm"})
    if status != HTTPStatus.OK:
        raise RuntimeError(content.decode("utf-8", "replace"))
    return np.asarray(np.frombuffer(content, "<i2") / 2**15, np.float32)


def hear(samples: Samples) -> dict[str, str]:
    """Return what each recognizer hears."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, piece in enumerate(split_at_pauses(samples, SAMPLE_RATE)):
            files.append(Path(folder, f"{number}.wav"))
            soundfile.write(files[-1], piece, SAMPLE_RATE)
        rows = run_judges([Recording(file, "") for file in files], ",".join(RECOGNIZERS))
    return {name: " ".join(row[name]["heard"].strip() for row in rows) for name in RECOGNIZERS}


@dataclass(frozen=True)
class Comparison:
    """errors, words: word errors, and words of the text. lost: sentences of which less than half was heard.

    inserted: groups of four or more words that were heard and are not in the text.
    """

    errors: int
    words: int
    lost: list[str]
    inserted: list[str]


def compare(sentences: Sequence[str], heard: str) -> Comparison:
    """Compare what was heard with what the front end makes of the sentences, in the judges' environment."""
    expected = [spoken(sentence, "english").text for sentence in sentences]
    command = [str(JUDGE_PYTHON), "-m", "scripts.judge.align"]
    request = json.dumps({"sentences": expected, "heard": heard})
    output = subprocess.run(command, cwd=ROOT, check=True, input=request, stdout=subprocess.PIPE, text=True).stdout
    return Comparison(**json.loads(output))


def line(text: LongText, samples: Samples, found: Mapping[str, Comparison]) -> str:
    """Return the line of a text, and one for each lost sentence and inserted group. found: by recognizer."""
    wrong = "".join(f"{f'{100 * each.errors / each.words:.1f} %':>11}" for each in found.values())
    first, *others = found.values()
    lost = [each for each in first.lost if all(each in other.lost for other in others)]
    inserted = first.inserted if all(each.inserted for each in others) else []
    figures = f"{len(text.sentences):10}{len(samples) / SAMPLE_RATE:9.1f}{wrong}"
    return "\n".join(
        [
            f"{text.kind:9}{len(text.typed):11}{figures}{len(lost):6}{len(inserted):9}",
            *_listed("lost", lost),
            *_listed("inserted", inserted),
        ]
    )


def _listed(name: str, texts: Sequence[str]) -> Iterator[str]:
    return (f"  {name}: {each!r}" for each in texts)


if __name__ == "__main__":
    main()
