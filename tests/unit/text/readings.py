"""The items of the text front end: what is typed, what should be said, and how the two are compared.

``python -m tests.unit.text.readings`` prints the share of right items for each class, with ``--failures`` what went
wrong. Every third item is held out: rules were written without looking at it. ``--held-out`` takes these instead. The
classes "assorted" and "ordinary" have texts that were read wrongly once; rules were written for all of them.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

from server.text.frontend import spoken

FOLDER = Path(__file__).parent / "items"
CLASSES = sorted(path.stem for path in FOLDER.glob("*.tsv"))
SAME = "="
"""Stands for: the words as they are typed."""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "u2028": "\u2028", "\\": "\\"}
LENIENT = {"acronyms": 0.90, "urls": 0.90}
LEAST = 0.95


class Item(NamedTuple):
    typed: str
    readings: tuple[str, ...]
    held_out: bool

    def is_right(self, said: str) -> bool:
        return words(said) in {words(reading) for reading in self.readings}


def items(name: str) -> list[Item]:
    """The items of a class. ``\\n``, ``\\r``, ``\\t``, ``\\u2028`` and ``\\\\`` are escapes in the file."""
    found = []
    for index, line in enumerate((FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()):
        typed, said = line.split("\t")
        typed = re.sub(r"\\(n|r|t|u2028|\\)", lambda match: _ESCAPES[match[1]], typed)
        found.append(Item(typed, tuple(typed if each == SAME else each for each in said.split(" | ")), index % 3 == 2))
    return found


def words(text: str) -> str:
    """Lower case, no punctuation; hyphens and dashes separate words, apostrophes and full stops do not."""
    text = re.sub(r"[-—–\s]+", " ", unicodedata.normalize("NFC", text).lower())
    return " ".join(re.sub(r"[^\w\s]", "", text).split())


def least_share(name: str) -> float:
    return LENIENT.get(name, LEAST)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("classes", nargs="*", default=CLASSES)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--failures", action="store_true")
    asked = parser.parse_args()
    right = total = 0
    for name in asked.classes:
        part = [item for item in items(name) if item.held_out == asked.held_out]
        said = {item: spoken(item.typed, "english").text for item in part}
        wrong = [item for item in part if not item.is_right(said[item])]
        right, total = right + len(part) - len(wrong), total + len(part)
        share = 1 - len(wrong) / len(part)
        mark = "" if share >= least_share(name) else "<"
        print(f"{name:14} {len(part) - len(wrong):3} of {len(part):3}  {share:6.1%} {mark}")
        for item in wrong if asked.failures else ():
            print(f"    {item.typed!r}\n      said {words(said[item])!r}\n      not  {words(item.readings[0])!r}")
    print(f"{'all':14} {right:3} of {total:3}  {right / total:6.1%}")


if __name__ == "__main__":
    main()
