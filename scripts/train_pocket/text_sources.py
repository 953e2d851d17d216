"""Readers of the public texts. README.md lists their origins and licenses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from scripts.train_pocket.text_cleaning import clean

_MODERN = 1945
_PASSAGE = (160, 440)
"""Minimum and maximum characters of a passage."""
_PASSAGE_WORDS = 3
"""Minimum words of a sentence in a passage. Shorter ones are headings, mostly."""
_GUTENBERG = re.compile(r"\*\*\* ?START.*?\*\*\*(.*)\*\*\* ?END", re.S)
_CHAPTER = re.compile(
    r"^(chapter|adventure|book|act|part|volume|letter)\b|^[IVXLC]+\.?$|illustration|gutenberg|produced by", re.I
)
_LEMMAS = 2
"""Maximum lemmas of a meaning that are defined."""
_GLOSS_END = re.compile(r'; "| \(|;')
_SENTENCE_END = re.compile(
    r"(?<=[a-z0-9,][.!?])(?<!\bMr\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\bNo\.)(\"?) +(?=[\"A-Z])"
)


def lines(file: Path) -> list[str]:
    """Return the lines of a word list."""
    return file.read_text(encoding="utf-8").splitlines()


def common_voice(folder: Path) -> Iterator[str]:
    """Yield the sentences, one per line, except for the file of Harvard sentences."""
    for file in sorted(folder.glob("*.txt")):
        if file.name != "harvsents.txt":
            yield from file.read_text(encoding="utf-8").splitlines()


def wordnet(folder: Path) -> Iterator[str]:
    """Yield the quoted examples in WordNet's definitions that have three or more words."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
            gloss = line.partition("|")[2]
            yield from (example for example in re.findall(r'"([^"]+)"', gloss) if len(example.split()) >= 3)


def definitions(folder: Path, known: Iterable[str]) -> Iterator[str]:
    """Yield WordNet's definitions of the ``known`` words, as sentences: "An amphora is an ancient jar ..."."""
    words = set(known)
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
            fields, _, gloss = line.partition(" | ")
            if line[:1] == " " or not gloss:
                continue
            lemmas = fields.split()[4 : 4 + 2 * int(fields.split()[3], 16) : 2]
            meaning = _GLOSS_END.split(gloss.strip(), maxsplit=1)[0]
            if len(meaning.split()) > 1:
                chosen = [lemma for lemma in lemmas if lemma in words][:_LEMMAS]
                yield from (_definition(lemma, meaning, part) for lemma in chosen)


def _definition(word: str, meaning: str, part: str) -> str:
    if part == "verb":
        return f"To {word} is to {meaning}."
    if part != "noun":
        return f"{word.capitalize()} means {meaning}."
    if not re.match(r"an? ", meaning):
        return f"{word.capitalize()} is {meaning}."
    return f"{'An' if word[0] in 'aeiou' else 'A'} {word} is {meaning}."


def books(folder: Path) -> Iterator[str]:
    """Yield the sentences of Project Gutenberg's plain texts, without their header and footer."""
    for file in sorted(folder.glob("*.txt")):
        text = _decode(file).replace("\r\n", "\n")
        body = _GUTENBERG.search(text)
        for paragraph in (body.group(1) if body else text).split("\n\n"):
            yield from sentences(paragraph)


def speeches(folder: Path) -> Iterator[str]:
    """Yield the sentences of the addresses since 1945. Each is a file whose name starts with its year."""
    for file in sorted(folder.glob("[12]*.txt")):
        if int(file.name[:4]) < _MODERN:
            continue
        for paragraph in file.read_text(encoding="utf-8").split("\n\n"):
            yield from sentences(paragraph)


def sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph of prose; none from headings."""
    text = re.sub(r"\[[^\]]*\]|\*", "", " ".join(paragraph.split()))
    if not text or _CHAPTER.search(text[:80]) or text.upper() == text:
        return
    start = 0
    for end in _SENTENCE_END.finditer(text):
        yield text[start : end.end(1)]
        start = end.end()
    yield text[start:]


def passages(prose: Iterable[str], source: Random) -> Iterator[str]:
    """Yield consecutive readable sentences of ``prose``, joined to passages of random length."""
    passage, length = "", source.randint(*_PASSAGE)
    for line in prose:
        sentence = clean(line)
        if sentence is not None and len(sentence.split()) < _PASSAGE_WORDS:
            sentence = None
        is_full = sentence is None or len(passage) >= length or len(passage) + len(sentence) >= _PASSAGE[1]
        if is_full:
            if len(passage) >= _PASSAGE[0]:
                yield passage
            passage, length = "", source.randint(*_PASSAGE)
        if sentence is not None:
            passage = f"{passage} {sentence}".strip()


def _decode(file: Path) -> str:
    raw = file.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
