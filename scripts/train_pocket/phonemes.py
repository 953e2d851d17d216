"""Converts text to the teacher's phonemes, with the normalizer, lexicon and network of the package ``hibari-tts``.

The package reads single letters and some homographs wrongly. Here letters get their phonemes from the lexicon, and a
text may state which reading it means: ``They read<VBD> it.`` takes the lexicon's reading of that tag, and ``a
lead<led> pipe`` that of another word.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import yaml

from scripts.train_pocket.utterances import Accent
from scripts.train_pocket.word_phonemes import word_notations

MAX_SYMBOLS = 500
"""Maximum phonemes of an utterance. The teacher's style vectors support 510."""
_READING = re.compile(r"([\w'-]+)<(\w+)>")
_LETTER = re.compile(r"(?<![\w'’.-])([A-Z])('s)?(?![\w'’-])")
_SPELLED = re.compile(r"(?<![\w-])[A-Z](?:-[A-Z])+(?![\w-])")
_DIGITS = "zero|one|two|three|four|five|six|seven|eight|nine"
_LETTER_A = re.compile(rf"^(?: (?:plus|minus)\b|(?: (?:{_DIGITS}))+(?: [A-Z]\b|[.,;:!?]|$)|[.,;:!?]|$)")
"""What follows the letter A at the beginning of a sentence, as opposed to the article."""
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+|[\"(—]\s*)$")
_QUOTED_ARTICLE = re.compile(r"[\"(]A(?= [a-z])")
"""The package reads the article after a quotation mark as a letter."""


_NAMES: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("grammar").joinpath("pronunciations.yaml").read_text(encoding="utf-8")
)
_NAME = re.compile(r"\b(" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")('s)?(?!['-]?\w)")
_PLAIN_LETTERS = str.maketrans("øØłŁđĐıİ", "oOlLdDiI")
_TO_BRITISH = (
    ("T", "t"), ("ɜɹ", "ɜː"), ("ɔɹ", "ɔː"), ("ɑɹ", "ɑː"), ("ɛɹ", "ɛː"), ("əɹ", "ə"), ("O", "Q"), ("æ", "a"),
    ("ᵻ", "ɪ"), ("i", "iː"), ("u", "uː"), ("ɑ", "ɑː"), ("ɔ", "ɔː"), ("ːː", "ː"),
)  # fmt: skip
"""Replacements that turn American phonemes into British ones, nearly."""


def without_readings(text: str) -> str:
    """Return ``text`` without the stated readings."""
    return _READING.sub(r"\1", text)


def without_accents(text: str) -> str:
    """Return ``text`` with plain letters, which the package's lexicon has. The length stays the same."""
    plain = (unicodedata.normalize("NFD", character)[0] for character in text.translate(_PLAIN_LETTERS))
    return "".join(plain)


def letters(text: str) -> list[re.Match[str]]:
    """Return the letters in ``text`` that are read by name. Group 2 is a possessive or plural ``'s``."""
    found = list(_LETTER.finditer(text))
    return [each for index, each in enumerate(found) if _is_named(text, found, index)]


def _is_named(text: str, found: list[re.Match[str]], index: int) -> bool:
    """Return whether a letter is read by name, which "I" and "A" alone often are not."""
    each = found[index]
    before = index > 0 and text[found[index - 1].end() : each.start()] == " "
    after = index + 1 < len(found) and text[each.end() : found[index + 1].start()] == " "
    if each[1] not in "AI" or before or after:
        return True
    if each[1] == "I":
        return False
    return not _SENTENCE_START.search(text[: each.start()]) or bool(_LETTER_A.match(text[each.end() :]))


class Phonemizer:
    """Phonemizer for both accents. A sentence takes about a millisecond."""

    def __init__(self, vocabulary: Path) -> None:
        """vocabulary: the teacher's vocab.json."""
        from hibari.g2p import G2P  # only this module needs the package

        self._symbols = set(json.loads(vocabulary.read_text(encoding="utf-8")))
        self._convert = {"american": G2P(british=False), "british": G2P(british=True)}

    def __call__(self, text: str, accent: Accent) -> str | None:
        """Return the phonemes of ``text``; None if there are too many, or one is not in the teacher's vocabulary.

        Raises ValueError for a stated reading that the lexicon lacks.
        """
        entries: Mapping[str, str | Mapping[str, str]] = self._convert[accent].lexicon.golds.d
        linked = _with_links(text, entries, accent)
        symbols = " ".join(self._convert[accent](linked).split())
        known = symbols and set(symbols) <= self._symbols
        return symbols if known and len(symbols) <= MAX_SYMBOLS else None

    def words(self, text: str) -> str:
        """Return the American pronunciation of the words of ``text``: see ``word_notations``."""
        convert = self._convert["american"]
        tokens = convert.phonemize_tokens(convert.tokenize(_with_links(text, convert.lexicon.golds.d, "american")))
        return word_notations(
            without_accents(without_readings(text)), [(each.text, each.phonemes or "") for each in tokens]
        )


def _with_links(text: str, entries: Mapping[str, str | Mapping[str, str]], accent: Accent) -> str:
    """Replace stated readings, letters and some names by the package's links: ``[word](/phonemes/)``.

    Quotation marks are removed: the package does not find a word after one in its lexicon, and reads "I'll as "ill".
    """
    plain, links = "", list[tuple[int, int, str]]()
    end = 0
    for match in _READING.finditer(text):
        plain += text[end : match.start()] + match[1]
        links.append((len(plain) - len(match[1]), len(plain), _reading(match[1], match[2], entries)))
        end = match.end()
    plain += text[end:]
    plain = _SPELLED.sub(lambda match: match[0].replace("-", " "), plain)
    links += [(each.start(), each.end(), _letter(each, entries)) for each in letters(plain)]
    links += [(each.end() - 1, each.end(), "ɐ") for each in _QUOTED_ARTICLE.finditer(plain)]
    plain = without_accents(plain)
    taken = {position for start, stop, _ in links for position in range(start, stop)}
    for each in _NAME.finditer(plain):
        if each.start() not in taken:
            name = _NAMES[each[1]] + (_plural(_NAMES[each[1]]) if each[2] else "")
            links.append((each.start(), each.end(), _in_accent(name, accent)))
    for start, stop, phonemes in sorted(links, reverse=True):
        plain = f"{plain[:start]}[{plain[start:stop]}](/{phonemes}/){plain[stop:]}"
    return plain.replace('"', "")


def _reading(word: str, reading: str, entries: Mapping[str, str | Mapping[str, str]]) -> str:
    """Return the phonemes of ``word`` with a tag of the lexicon, or as another word is read."""
    entry = entries.get(word.lower() if reading.isupper() else reading)
    if isinstance(entry, Mapping):
        entry = entry.get(reading) or entry.get("DEFAULT")
    if entry is None:
        raise ValueError(f"the lexicon has no reading {reading!r} of {word!r}")
    return entry


def _in_accent(phonemes: str, accent: Accent) -> str:
    if accent == "british":
        for american, british in _TO_BRITISH:
            phonemes = phonemes.replace(american, british)
    return phonemes


def _letter(match: re.Match[str], entries: Mapping[str, str | Mapping[str, str]]) -> str:
    name = entries[match[1]]
    assert isinstance(name, str)
    return name + _plural(name) if match[2] else name


def _plural(phonemes: str) -> str:
    """Return the sound of ``'s`` after a word."""
    if phonemes[-1] in "szʃʒʧʤ":
        return "ᵻz"
    return "s" if phonemes[-1] in "ptkfθT" else "z"
