"""Web addresses, e-mail addresses, hashtags and mentions as words."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.acronym_words import CUSTOM, LETTERS
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_DOMAINS = (
    "com org net edu gov mil int info biz dev app xyz online shop store site tech blog cloud page wiki news live media "
    "io ai co tv uk us eu ca au nz ie de fr es it nl be ch at se no dk fi pl pt cz gr ru ua jp cn kr br mx ar cl za "
    "il tr id sg hk tw me ly fm gg sh so to cc ws la im in"
).split()
_WORD_DOMAINS = frozenset("at be so to no me it us in is la im".split())
"""Top-level domains that are also words, as in "Stop.it" with a missing space. They need ``www.`` or a path."""
_SPOKEN_DOMAINS = {"co": "co", "me": "me", "so": "so", "to": "to", "io": "I O", "mil": "mil", "int": "int"}
SYMBOLS = {
    ".": "dot",
    "/": "slash",
    "-": "dash",
    "_": "underscore",
    ":": "colon",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "#": "hash",
    "%": "percent",
    "+": "plus",
    "~": "tilde",
    "@": "at",
    "\\": "backslash",
    "!": "exclamation mark",
    ",": "comma",
    ";": "semicolon",
    "*": "star",
    "$": "dollar",
}
"""Names of the symbols in addresses, as they are spoken."""
_PIECES = lazy(r"[^\W\d_]+|\d+|[./\-_:?=&#%+~@\\!,;*$]")
_HUMPS = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")

_ENDS = "|".join(sorted(set(_DOMAINS) - _WORD_DOMAINS, key=len, reverse=True))
_ALL_ENDS = "|".join(sorted(_DOMAINS, key=len, reverse=True))
_PATH = r"(?:[/?\#][^\s<>\"'(){}\[\]|]{0,2000})?"
_URL = rf"""
    (?<![\w@.\-/])
    (?:
        (?:[a-z][a-z0-9+.\-]{{1,10}})://(?P<full>[^\s<>"'(){{}}\[\]|]{{1,2000}})
      | (?P<bare>
            www\.[\w\-]{{1,63}}(?:\.[\w\-]{{1,63}}){{1,4}} (?::\d{{1,5}})? {_PATH}
          | localhost:\d{{1,5}} {_PATH}
          | (?:[a-zA-Z0-9][a-zA-Z0-9\-]{{0,62}}\.){{1,4}}
            (?: (?:{_ENDS}) (?![\w\-]|\.\w) (?::\d{{1,5}})? {_PATH} | (?:{_ALL_ENDS}) (?=/) {_PATH} )
        )
    )
"""
_MAIL = r"(?<![\w.+\-@])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,4}(?![\w@])"
_HASHTAG = r"""
    (?<![\w&\#]) \# (?!(?:include|define|ifn?def|endif|pragma|undef)\b)
    (?P<tag> [^\W\d_]\w{1,99} | \d{1,4}(?:[A-Z]\w|[a-z]\w\w)\w{0,99} )
"""
_CODE = r"(?<![\w&#])\#(?P<code>(?=[A-Z\d]*\d[A-Z])(?![\dA-F]{6}(?!\w))[A-Z\d]{4,12})(?!\w)"
"""A code of capitals and digits: #QX81T."""
_DASHED_CODE = r"""
    (?<![\w&#])\# (?: (?P<letters>[A-Z]{2,5})-(?P<digits>\d{2,8}(?:-\d{1,8}){0,2})
      | (?P<letter>[A-Z]\d?)-?(?P<number>\d{4,8}) ) (?![\w\-])
"""
"""#CS-20931, #A-20993, #C20993. A word is a hashtag: #COVID-19."""
_MENTION = r"(?<![\w@.])@(?P<name>[A-Za-z][\w]{0,49}(?:[.\-]\w{1,49}){0,3})"
_PROMPT = (
    r"(?<![\w.+\-@])(?P<user>[a-z_][\w\-]{0,31})@(?P<host>[\w.\-]{1,63}):(?P<folder>[~/][\w/.\-~]{0,99})[$\#](?=[ ])"
)
"""The prompt of a shell: user@host:~/docs$."""
_TRAILING = ".,;:!?"


def _url(match: re.Match[str]) -> str:
    address = match["full"] or match["bare"]
    kept = address.rstrip(_TRAILING)
    spoken = speak_address(kept.rstrip("/"))
    return spoken + address[len(kept) :]


def _mail(match: re.Match[str]) -> str:
    address = match[0]
    kept = address.rstrip(".-")
    name, _, host = kept.rpartition("@")
    return f"{speak_pieces(name)} at {_host(host)}{address[len(kept) :]}"


def _prompt(match: re.Match[str]) -> str:
    folder = speak_pieces(match["folder"])
    return f"{speak_pieces(match['user'])} at {_host(match['host'])}, {folder},"


def speak_address(address: str) -> str:
    """Return a web address without its scheme in words: "example dot com slash docs"."""
    end = re.search(r"[/?#]", address)
    host, path = (address[: end.start()], address[end.start() :]) if end else (address, "")
    return " ".join(filter(None, (_host(host), speak_pieces(path))))


def _host(host: str) -> str:
    name, colon, port = host.partition(":")
    labels = name.split(".")
    words = [speak_pieces(label) for label in labels[:-1]]
    last = labels[-1]
    known = len(labels) > 1 and len(last) == 2
    words.append(_SPOKEN_DOMAINS.get(last, letters.spell(last) if known else speak_pieces(last)))
    spoken = " dot ".join(words)
    return f"{spoken} colon {numbers.digits(port)}" if colon and port else spoken


def speak_pieces(text: str) -> str:
    """Return a part of an address in words, with every symbol named."""
    words = []
    for piece in _PIECES.findall(text):
        if piece in SYMBOLS:
            words.append(SYMBOLS[piece])
        elif piece.isdecimal():
            words.append(_digits(piece))
        else:
            words.append(speak_words(piece))
    return " ".join(words)


def speak_words(text: str) -> str:
    """Return joined words ("ThrowbackThursday", "userId", "NYC2024") with spaces, acronyms as letters."""
    if text in CUSTOM or text in LETTERS:
        return letters.part(text)
    return " ".join(_digits(each) if each.isdecimal() else letters.part(each) for each in _HUMPS.findall(text))


def _digits(text: str) -> str:
    if len(text) == 4 and text[:2] in ("19", "20"):
        return numbers.year(int(text))
    return numbers.cardinal(int(text)) if len(text) <= 2 and text[0] != "0" else numbers.digits(text)


def _hashtag(match: re.Match[str]) -> str:
    tag = re.sub(r"^\d{3,4}(?=[A-Za-z])", lambda number: f"{numbers.cardinal(int(number[0]))}_", match["tag"])
    tag = re.sub(r"(?<!\d)[6-9]0s(?=_|[A-Z]|$)", lambda decade: f"{numbers.decade(int(decade[0][:2]))}_", tag)
    words = " ".join(filter(None, map(speak_words, re.split(r"[_ \-]", tag))))
    return f"hashtag {words.lower() if not any(map(str.isupper, match['tag'][1:])) else _lowered(words)}"


def _dashed_code(match: re.Match[str]) -> str:
    if match["letter"]:
        return f"number {letters.spell(' '.join(match['letter']))} {numbers.digits(match['number'])}"
    if letters.is_word(match["letters"]) and len(match["digits"]) <= len("19"):
        return f"hashtag {match['letters'].lower()} {numbers.cardinal(int(match['digits']))}"
    return f"number {letters.spell(match['letters'])} {numbers.digits(match['digits'])}"


def _lowered(words: str) -> str:
    """Return ``words`` in lower case, except single letters."""
    return " ".join(word if len(word) == 1 else word.lower() for word in words.split())


def _forum(match: re.Match[str]) -> str:
    """Return a name on Reddit: u/spez, r/AskReddit."""
    name = match["name"]
    return f"{match['kind'].upper()} slash {speak_words(name) if re.search('[a-z][A-Z]', name) else name}"


RULES: tuple[Rule, ...] = (
    rule(_CODE, lambda match: f"number {letters.spell(' '.join(match['code']))}", "#"),
    rule(_DASHED_CODE, _dashed_code, "#"),
    rule(_PROMPT, _prompt, "@"),
    rule(_MAIL, _mail, "@"),
    rule(_URL, _url, ("://", "localhost:", "www.", *(f".{domain}" for domain in _DOMAINS))),
    rule(_HASHTAG, _hashtag, "#"),
    rule(r"(?<![\w/.\-])(?P<kind>[ur])/(?P<name>[A-Za-z]\w{2,20})(?![\w/])", _forum, ("u/", "r/")),
    rule(_MENTION, lambda match: f"at {speak_pieces(match['name'])}", "@"),
)
