"""Measures every named voice: ``python -m scripts.judge.voices``. Needs the environment of ``make judge``.

Each voice of the checkpoint says the same sentences: everyday ones, or those of another class of ``data/classes``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from engine.checkpoint.folder import open_checkpoint
from scripts.judge.class_items import read_items
from scripts.judge.figures import corpus_wer, mean
from scripts.judge.fingerprint import fingerprint
from scripts.judge.paths import CACHE, ROOT
from scripts.judge.recordings import Recording, Row, run_judges
from scripts.judge.synthesis import ExamUtterance, synthesize


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--sentences", type=int, default=8, help="sentences that each voice says")
    parser.add_argument("--class", dest="texts", choices=sorted(read_items()), default="everyday")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--voices", help="only these, separated by commas")
    args = parser.parse_args()
    torch.set_num_threads(1)
    known = list(open_checkpoint(str(args.checkpoint)).model.talker.speakers)
    voices = args.voices.split(",") if args.voices else known
    if unknown := set(voices) - set(known):
        parser.error(f"--voices must be among {', '.join(known)}, got {', '.join(sorted(unknown))}")
    print(render(judge_voices(args.checkpoint, voices, args.sentences, args.seed, args.texts)))


def judge_voices(
    checkpoint: Path, voices: Sequence[str], sentences: int, seed: int = 1, texts_of: str = "everyday"
) -> dict[str, list[Row]]:
    """Return the scores of each voice's sentences. texts_of: the class of the sentences."""
    texts = [item.spoken for item in read_items()[texts_of][:sentences]]
    utterances = [ExamUtterance(text, seed=seed, speaker=voice) for voice in voices for text in texts]
    spoken = synthesize(checkpoint, utterances, CACHE / "spoken" / "voices" / fingerprint(checkpoint))
    rows = run_judges([Recording(each.wav, each.utterance.text) for each in spoken], "moonshine,mos")
    return {voice: rows[index * len(texts) : (index + 1) * len(texts)] for index, voice in enumerate(voices)}


def render(judged: Mapping[str, Sequence[Row]]) -> str:
    """Return the table: one row for each voice."""
    lines = [f"{'voice':12}{'sentences':>10}{'WER, Moonshine':>16}{'MOS':>6}{'lowest':>8}"]
    for voice, rows in judged.items():
        rate, lowest = 100 * (corpus_wer(rows, "moonshine") or 0), min(row["mos"] for row in rows)
        lines.append(f"{voice:12}{len(rows):10}{rate:14.1f} %{mean(rows, 'mos') or 0:6.2f}{lowest:8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
