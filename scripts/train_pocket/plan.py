"""Who says what: writes plan.jsonl.gz, speakers.json and, for the voices that training never hears, unseen.jsonl."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.train_pocket.config import Voices, load
from scripts.train_pocket.phonemes import Phonemizer
from scripts.train_pocket.speakers import Speaker, write_speakers
from scripts.train_pocket.texts import HERE, held_out, read_sentences
from scripts.train_pocket.utterances import Accent, Utterance, write_plan
from scripts.train_pocket.voices import speakers

Phonemize = Callable[[str, Accent], str | None]
FIRST_UNSEEN = 10_000_000
UNSEEN_SENTENCES = 4
"""Of each unseen speaker: one to clone the voice from, then three to judge."""
_NAMED_SPEED = (0.95, 1.05)


def cast(voices: Voices, everyone: dict[str, Speaker], count: int, source: random.Random) -> list[str]:
    """``count`` speakers' names, shuffled: named ones by their share, the rest spread evenly over the mixed ones."""
    names = [name for name, voice in voices.named.items() for _ in range(round(voice.share * count))]
    mixed = [name for name, speaker in everyone.items() if speaker.kind == "mixed"]
    names += [mixed[index % len(mixed)] for index in range(count - len(names))]
    source.shuffle(names)
    return names


def plan(
    texts: list[str], voices: Voices, everyone: dict[str, Speaker], phonemize: Phonemize, source: random.Random
) -> Iterator[Utterance]:
    """An utterance for each of ``texts`` that the teacher can read."""
    number = 0
    for text, name in zip(texts, cast(voices, everyone, len(texts), source), strict=True):
        speaker = everyone[name]
        speed = round(source.uniform(*(_NAMED_SPEED if speaker.kind == "named" else voices.speed)), 3)
        phonemes = phonemize(text, speaker.accent)
        if phonemes is not None:
            yield Utterance(number, text, phonemes, name, speed, speaker.accent)
            number += 1


def unseen(sentences: list[str], everyone: dict[str, Speaker], phonemize: Phonemize) -> Iterator[Utterance]:
    """``UNSEEN_SENTENCES`` of each unseen speaker, the reference first. Raises ValueError on an unreadable one."""
    names = [name for name, speaker in everyone.items() if speaker.kind == "unseen"]
    for index in range(len(names) * UNSEEN_SENTENCES):
        name, text = names[index // UNSEEN_SENTENCES], sentences[index % len(sentences)]
        phonemes = phonemize(text, everyone[name].accent)
        if phonemes is None:
            raise ValueError(f"the teacher cannot read {text!r}")
        yield Utterance(FIRST_UNSEEN + index, text, phonemes, name, 1.0, everyone[name].accent)


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=Path, required=True, help="the teacher's vocab.json")
    parser.add_argument("--out", type=Path, default=Path(".pocket"), help="where texts.jsonl is")
    options = parser.parse_args()
    pocket = load()
    source = random.Random(f"plan {pocket.seed}")
    everyone, phonemize = speakers(pocket.voices, pocket.seed), Phonemizer(options.vocabulary)
    texts = [sentence.text for sentence in read_sentences(options.out / "texts.jsonl")]
    utterances = list(plan(texts, pocket.voices, everyone, phonemize, source))
    write_plan(options.out / "plan.jsonl.gz", utterances)
    write_plan(options.out / "unseen.jsonl", unseen(held_out(HERE / "unseen.txt"), everyone, phonemize))
    write_speakers(options.out / "speakers.json", everyone)
    symbols = sum(len(utterance.phonemes) for utterance in utterances)
    print(f"{len(utterances)} utterances ({len(texts) - len(utterances)} unreadable), {symbols} symbols")
    counts = Counter(utterance.speaker for utterance in utterances)
    print(", ".join(f"{name} {counts[name]}" for name in pocket.voices.named))


if __name__ == "__main__":
    main()
