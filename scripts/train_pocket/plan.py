"""Assigns texts to speakers. Writes plan.jsonl.gz, speakers.json and, for speakers not in training, unseen.jsonl."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

from scripts.train_pocket.config import Voices, load
from scripts.train_pocket.phonemes import Phonemizer, without_readings
from scripts.train_pocket.speakers import Speaker, write_speakers
from scripts.train_pocket.texts import HERE, held_out, read_sentences
from scripts.train_pocket.utterances import Accent, PlannedUtterance, write_plan
from scripts.train_pocket.voices import speakers

Phonemize = Callable[[str, Accent], str | None]
"""Returns the teacher's symbols for a text, or None."""
Words = Callable[[str], str]
"""Returns the phonemes of a text's words (``Phonemizer.words``)."""
FIRST_UNSEEN = 10_000_000
UNSEEN_SENTENCES = 4
"""For each unseen speaker: one sentence as reference of the clone, then three for the judge."""
_CHUNK = 200
"""Texts that a process looks up at once."""
_NAMED_SPEED = (0.95, 1.05)


def assign_speakers(voices: Voices, all_speakers: dict[str, Speaker], count: int, source: random.Random) -> list[str]:
    """Return ``count`` speaker names in random order: named ones by share, the others evenly by kind and speaker."""
    names = [name for name, voice in voices.named.items() for _ in range(round(voice.share * count))]
    rest = count - len(names)
    varied = [name for name, speaker in all_speakers.items() if speaker.kind == "varied"]
    mixed = [name for name, speaker in all_speakers.items() if speaker.kind == "mixed"]
    varied_count = round(voices.varied_share * rest) if varied else 0
    names += [varied[index % len(varied)] for index in range(varied_count)]
    names += [mixed[index % len(mixed)] for index in range(rest - varied_count)]
    source.shuffle(names)
    return names


def plan(
    texts: list[str],
    voices: Voices,
    all_speakers: dict[str, Speaker],
    phonemize: Phonemize,
    source: random.Random,
    words: Words = lambda text: "",
    *,
    apply: Callable[..., Iterable[str | None]] = map,
) -> Iterator[PlannedUtterance]:
    """Yield an utterance for each text that the teacher can read.

    words: by default no word has phonemes. apply: ``map``, or that of an executor.
    """
    names = assign_speakers(voices, all_speakers, len(texts), source)
    spoken = apply(phonemize, texts, [all_speakers[name].accent for name in names])
    number = 0
    for text, name, phonemes, notations in zip(texts, names, spoken, apply(words, texts), strict=True):
        speaker = all_speakers[name]
        speed = round(source.uniform(*(_NAMED_SPEED if speaker.kind == "named" else voices.speed)), 3)
        if phonemes is not None:
            yield PlannedUtterance(
                number, without_readings(text), phonemes, name, speed, speaker.accent, notations or ""
            )
            number += 1


def unseen(sentences: list[str], all_speakers: dict[str, Speaker], phonemize: Phonemize) -> Iterator[PlannedUtterance]:
    """Yield ``UNSEEN_SENTENCES`` per unseen speaker, first the reference. Raises ValueError if one is unreadable."""
    names = [name for name, speaker in all_speakers.items() if speaker.kind == "unseen"]
    for index in range(len(names) * UNSEEN_SENTENCES):
        name, text = names[index // UNSEEN_SENTENCES], sentences[index % len(sentences)]
        phonemes = phonemize(text, all_speakers[name].accent)
        if phonemes is None:
            raise ValueError(f"the teacher has no phonemes for {text!r}")
        yield PlannedUtterance(FIRST_UNSEEN + index, text, phonemes, name, 1.0, all_speakers[name].accent)


@cache
def _phonemizer(vocabulary: Path) -> Phonemizer:
    return Phonemizer(vocabulary)


def _phonemize(vocabulary: Path, text: str, accent: Accent) -> str | None:
    return _phonemizer(vocabulary)(text, accent)


def _words(vocabulary: Path, text: str) -> str:
    return _phonemizer(vocabulary).words(text)


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=Path, required=True, help="the teacher's vocab.json")
    parser.add_argument("--out", type=Path, default=Path(".pocket"), help="folder with texts.jsonl")
    parser.add_argument("--processes", type=int, default=2, help="processes that look up phonemes")
    parser.add_argument("--seed", type=int, help="default: that of pocket.yaml; another one creates other speakers")
    parser.add_argument("--times", type=int, default=1, help="how often each text is spoken, by random speakers")
    options = parser.parse_args()
    pocket = load()
    seed = pocket.seed if options.seed is None else options.seed
    source = random.Random(f"plan {seed}")
    all_speakers, phonemize = speakers(pocket.voices, seed), partial(_phonemize, options.vocabulary)
    texts = [sentence.text for sentence in read_sentences(options.out / "texts.jsonl")] * options.times
    with ProcessPoolExecutor(options.processes) as executor:
        apply = partial(executor.map, chunksize=_CHUNK)
        words = partial(_words, options.vocabulary)
        utterances = list(plan(texts, pocket.voices, all_speakers, phonemize, source, words, apply=apply))
    write_plan(options.out / "plan.jsonl.gz", utterances)
    write_plan(options.out / "unseen.jsonl", unseen(held_out(HERE / "unseen.txt"), all_speakers, phonemize))
    write_speakers(options.out / "speakers.json", all_speakers)
    symbols = sum(len(utterance.phonemes) for utterance in utterances)
    print(f"{len(utterances)} utterances ({len(texts) - len(utterances)} unreadable), {symbols} symbols")
    counts = Counter(utterance.speaker for utterance in utterances)
    print(", ".join(f"{name} {counts[name]}" for name in pocket.voices.named))


if __name__ == "__main__":
    main()
