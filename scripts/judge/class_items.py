"""The sentences of ``data/classes``: one file for each class of text, written for the judge.

A line is a text as people type it. In heteronyms.tsv a second column has the same text with two spellings of one word,
the right pronunciation first: ``I {red|reed} the report``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scripts.judge.paths import DATA
from server.text.frontend import spoken

CLASSES = DATA / "classes"
_CHOICE = re.compile(r"\{(.+?)\|(.+?)\}")


@dataclass(frozen=True, slots=True)
class Item:
    """A text. spoken: what the front end makes of it.

    right, wrong: for heteronyms, spelled as it should be heard, and as it should not.
    """

    typed: str
    spoken: str
    right: str | None = None
    wrong: str | None = None


def read_items(folder: Path = CLASSES) -> dict[str, list[Item]]:
    """Return the items by class."""
    return {file.stem: [_item(line) for line in _lines(file)] for file in sorted(folder.glob("*.tsv"))}


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _item(line: str) -> Item:
    typed, _, choice = line.partition("\t")
    words = spoken(typed, "english").text
    if not choice:
        return Item(typed, words)
    return Item(typed, words, _CHOICE.sub(r"\1", choice), _CHOICE.sub(r"\2", choice))
