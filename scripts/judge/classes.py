"""Measures how each class of text is spoken: ``python -m scripts.judge.classes``.

It needs the environment of ``make judge``. The main voices speak the texts in turn. As in the server, the front end
rewrites each text first, and faulty speech is made again. Word errors are counted against what the front end makes of
the text. For heteronyms the table has the number of words whose right pronunciation is heard.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from scripts.judge.class_items import Item, read_items
from scripts.judge.exam import MAIN_VOICES
from scripts.judge.expected import faults
from scripts.judge.figures import RECOGNIZERS, corpus_wer, mean
from scripts.judge.fingerprint import fingerprint
from scripts.judge.paths import CACHE, ROOT
from scripts.judge.recordings import Recording, Row, run_judges, run_preferences
from scripts.judge.synthesis import ExamUtterance, SpokenUtterance, synthesize

_HETERONYMS = "heteronyms"


@dataclass(frozen=True)
class JudgedItem:
    """An item as it was spoken, and its scores. preferred: the log-likelihood ratio of the right reading, or None."""

    item: Item
    spoken: SpokenUtterance
    row: Row
    preferred: float | None


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--classes", help="only these, separated by commas")
    parser.add_argument("--seeds", type=int, default=1, help="number of times that each text is spoken")
    parser.add_argument("--judges", default="moonshine,whisper,mos", help="only these, separated by commas")
    parser.add_argument("--json", type=Path, help="also write every utterance to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    items = read_items()
    chosen = args.classes.split(",") if args.classes else list(items)
    if unknown := set(chosen) - set(items):
        parser.error(f"--classes must be among {', '.join(items)}, got {', '.join(sorted(unknown))}")
    judged = judge_classes(args.checkpoint, {name: items[name] for name in chosen}, args.seeds, args.judges)
    print(render(judged))
    if args.json:
        details = [_details(name, each) for name, group in judged.items() for each in group]
        args.json.write_text(json.dumps(details, indent=1, ensure_ascii=False), encoding="utf-8")


def judge_classes(
    checkpoint: Path, items: Mapping[str, Sequence[Item]], seeds: int, judges: str
) -> dict[str, list[JudgedItem]]:
    """Speak and judge all items."""
    listed = [(name, item, seed) for name, group in items.items() for seed in range(1, seeds + 1) for item in group]
    utterances = [
        ExamUtterance(item.spoken, seed=seed, speaker=MAIN_VOICES[(index + seed) % len(MAIN_VOICES)])
        for index, (_, item, seed) in enumerate(listed)
    ]
    out = CACHE / "spoken" / "classes" / fingerprint(checkpoint)
    spoken = synthesize(checkpoint, utterances, out, guards=True)
    recordings = [Recording(each.wav, item.spoken) for each, (_, item, _) in zip(spoken, listed, strict=True)]
    rows = run_judges(recordings, judges)
    choices = [
        (index, item.right, item.wrong) for index, (_, item, _) in enumerate(listed) if item.right and item.wrong
    ]
    ratios = run_preferences([(spoken[index].wav, right, wrong) for index, right, wrong in choices])
    preferred = {index: ratio for (index, _, _), ratio in zip(choices, ratios, strict=True)}
    judged: dict[str, list[JudgedItem]] = {name: [] for name in items}
    for index, (name, item, _) in enumerate(listed):
        judged[name].append(JudgedItem(item, spoken[index], rows[index], preferred.get(index)))
    return judged


def render(judged: Mapping[str, Sequence[JudgedItem]]) -> str:
    """Return the table: one row for each class."""
    lines = [f"{'class':14}{'items':>6}{'WER, Moonshine':>16}{'Whisper':>10}{'MOS':>6}{'faulty':>8}{'right':>9}"]
    for name, group in judged.items():
        rows = [each.row for each in group]
        moonshine, whisper = (corpus_wer(rows, recognizer) for recognizer in RECOGNIZERS)
        faulty = sum(bool(faults(each.row, stopped=each.spoken.stopped)) for each in group)
        ratios = [each.preferred for each in group if each.preferred is not None]
        right = f"{sum(ratio > 0 for ratio in ratios)} of {len(ratios)}" if ratios else ""
        rates = f"{_percent(moonshine):>16}{_percent(whisper):>10}"
        lines.append(f"{name:14}{len(group):6}{rates}{mean(rows, 'mos') or 0:6.2f}{faulty:8}{right:>9}")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _details(name: str, each: JudgedItem) -> dict[str, object]:
    item = each.item
    return {"class": name, "typed": item.typed, "spoken": item.spoken, "preferred": each.preferred, **each.row}


if __name__ == "__main__":
    main()
