"""Program code as words: fragments that the markup quotes, and identifiers and operators within prose."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, paths, web
from server.text.english.acronym_words import CUSTOM, LETTERS
from server.text.english.rules import Rule, alternatives, rule
from server.text.marks import CODE_END, CODE_START
from server.text.patterns import lazy

OPERATORS: dict[str, str] = {
    "===": "triple equals",
    "!==": "not double equals",
    "==": "equals equals",
    "!=": "is not equal to",
    "<=": "is less than or equal to",
    ">=": "is greater than or equal to",
    ":=": "is set to",
    "=>": "arrow",
    "->": "arrow",
    "<-": "arrow",
    "&&": "and",
    "||": "or",
    "++": "plus plus",
    "+=": "plus equals",
    "-=": "minus equals",
    "*=": "times equals",
    "/=": "divided by equals",
    "**": "to the power of",
    "//": "slash slash",
    "<<": "shift left",
    ">>": "shift right",
    "::": "colon colon",
    "...": "dot dot dot",
    "=": "equals",
    "+": "plus",
    "-": "minus",
    "*": "star",
    "/": "slash",
    "%": "percent",
    "<": "less than",
    ">": "greater than",
    "!": "not",
    "&": "and",
    "|": "pipe",
    "@": "at",
    "#": "hash",
    "$": "dollar",
    "~": "tilde",
    "^": "caret",
    "\\": "backslash",
    ".": "dot",
    "?": "question mark",
}
_SILENT = "()[]{}\"'`;"
_TOKEN = lazy(
    rf"""
    (?P<flag>(?<![\w\-])-{{1,2}}[A-Za-z][\w\-]*)      # -f, --dry-run
  | (?P<url>https?://[^\s"'()<>]+)
  | (?P<string>"[^"\n]{{0,200}}"|'[^'\n]{{0,200}}')
  | (?P<path>(?<![\w.])(?:~|\.{{0,2}})(?:/[\w.+@\-]+)+/?)
  | (?P<file>(?<![\w.])[A-Za-z0-9_][\w\-]*\.(?:py|js|ts|md|txt|json|ya?ml|toml|html|css|sh|csv|c|h|cpp|rs|pdf)(?![\w(]))
  | (?P<cells>(?<!\w)[A-Z]{{1,3}}\d{{1,7}}:[A-Z]{{1,3}}\d{{1,7}}(?!\w))
  | (?P<number>\d+(?:,\d{{3}})*(?:\.\d+)*)
  | (?P<name>[^\W\d]\w*)
  | (?P<stop>[,:]|(?<!\.)[.!?](?=\s|$))
  | (?P<operator>{alternatives(OPERATORS)})
  | (?P<other>\S)
    """,
    re.VERBOSE,
)
_HUMPS = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_COMMENT = lazy(r"(?:^|[ \t]{2})[ \t]*(?:#+|//+)[ ]+")
"""The beginning of a comment."""
_SHORT_FLAG = 3
_KEYS = lazy(r"(?:ctrl|cmd|alt|shift|win|fn|option|control|command)(?:\s?[+-]\s?\w{1,10}){1,3}", re.IGNORECASE)
"""A key combination. ``keys`` has the rule for it."""


_FORMULA = lazy(r"(?!.*\b(?:const|let|var|return|print)\b)(?=.*[⁰¹²³⁴-⁹ⁿ])[^_\"';#\n\[\]{}]{1,80}")
"""`E = mc²`."""


def speak_code(code: str) -> str:
    """Return a fragment of code in words. Its lines end with full stops; comments are prose."""
    if _KEYS.fullmatch(code) or _FORMULA.fullmatch(code):
        return code
    if "\n" not in code:
        return _line(code)
    lines = [line for line in map(_line, code.split("\n")) if line]
    return " ".join(line if line[-1] in ".!?" else f"{line}." for line in lines)


_HYPHENS = lazy(
    r"(?<=[A-Za-z]\w)-(?=[A-Za-z]\w)|(?<=\bX)-(?=[A-Z][a-z])|(?<=[A-Z]\w)-(?=\d+[A-Za-z.])|(?<=\d[A-Z])-(?=[A-Z][a-z])"
)
"""Hyphens of names: apt-get, my-app, X-Request-Id, Qwen3-TTS-12Hz."""


def _line(line: str) -> str:
    statement, comment = line, ""
    if match := _COMMENT.search(line):
        statement, comment = line[: match.start()], line[match.end() :].strip()
    words: list[str] = []
    for token in _TOKEN.finditer(_HYPHENS.sub(" ", statement)):
        spoken = _token(token)
        if token.lastgroup != "stop":
            words.append(spoken)
        elif words and words[-1][-1:] not in ",.!?":
            words[-1] += spoken
    said = " ".join(filter(None, words)).rstrip(",")
    return f"{said}, {comment}" if said and comment else said or comment


_QUOTED = lazy(f"{CODE_START}([^{CODE_END}]*){CODE_END}")


def quoted_in_words(text: str) -> str:
    """Return ``text`` with its marked code fragments in words."""
    return _QUOTED.sub(lambda match: speak_code(match[1]), text) if CODE_START in text else text


def _token(token: re.Match[str]) -> str:
    kind, text = token.lastgroup, token[0]
    if kind == "string":
        return text[1:-1].strip()
    if kind == "stop":
        return "," if text in ",:" else text
    if kind == "cells":
        return text.replace(":", " to ")
    if kind == "flag":
        return _flag(text)
    if kind == "url":
        return web.speak_address(text.partition("://")[2])
    if kind in ("path", "file"):
        return paths.speak_path(text)
    if kind == "number":
        return " point ".join(map(numbers.number, text.split("."))) if text.count(".") > 1 else numbers.number(text)
    if kind == "name":
        return identifier(text)
    if kind == "operator":
        return OPERATORS[text]
    return "" if text in _SILENT else text


def _flag(text: str) -> str:
    name = text.lstrip("-")
    dashes = "dash " * (len(text) - len(name))
    return dashes + (letters.spell(name) if len(name) <= _SHORT_FLAG and dashes == "dash " else identifier(name))


def _dashed(match: re.Match[str]) -> str:
    """Return an option of a command in words. Two hyphens before the rest of a sentence are a dash."""
    if match[0].lstrip("-").lower() in _PROSE and not _TOOL.search(match.string):
        return match[0]
    return _flag(match[0])


def identifier(name: str) -> str:
    """Return an identifier in words: "getUserName" is "get user name", "MAX_RETRIES" "max retries"."""
    words = []
    for piece in re.split(r"[_\-]+", name):
        if piece.upper() in LETTERS or piece in CUSTOM or "_" not in name:
            words += _camel(piece)
        else:
            words += _camel(piece.lower() if piece.isupper() else piece)
    return " ".join(words) or ("underscore" if name.strip("-") else "")


def _camel(piece: str) -> list[str]:
    humps = re.findall(r"\d+|\D+", piece) if piece.islower() or piece.isupper() else _HUMPS.findall(piece)
    alone = len(humps) == 1
    return [_word(hump, alone) for hump in humps]


def _word(hump: str, alone: bool) -> str:
    if hump.isdecimal():
        return numbers.grouped(hump) if len(hump) < 3 else numbers.number(hump)
    spoken = letters.part(hump)
    return spoken if alone or len(hump) == 1 or " " in spoken else spoken.lower()


_BRANDS = frozenset("iPhone iPad iPod iMac iCloud iTunes iMessage eBay eBook eBooks iPhones iPads eSports xAI".split())
_NAMESPACES = (
    "np pd plt os sys self this obj console document window math json df torch tf nn re io app req res ctx cls logger "
    "logging module object array string super foo bar request response user data config model client server"
)
_NAME = r"[A-Za-z_]\w{0,60}"
_SNAKE = r"(?<![\w@#/.\-])_{0,2}[A-Za-z][A-Za-z0-9]{0,60}(?:_{1,2}[A-Za-z0-9]{1,60}){1,12}_{0,2}(?![\w@]|\.\w)"
_CAMEL = r"(?<![\w@#])(?!mmHg\b|inHg\b)[a-z]{2,40}(?:[A-Z][a-z0-9]{1,40}){1,10}(?!\w)"
_PASCAL = r"(?<![\w@#])(?:[A-Z][a-z0-9]{1,40}){3,10}(?!\w)"
_CALL = rf"(?<![\w.]){_NAME}(?:\.{_NAME}){{0,5}}\((?P<arguments>[^()\n]{{0,80}})\)"
_DOTTED = rf"(?<![\w.])(?:{_NAMESPACES.replace(' ', '|')})(?:\.[a-z_]\w{{0,60}}){{1,5}}(?!\w)"
_JOINED = r"(?<![\w.@/\-])[A-Za-z_]\w{1,40}(?:\.[A-Za-z_]\w{1,40}){1,6}(?![\w@/\-]|\.\w)"
_INDEXED = r"(?<![\w.])[a-z_]\w{0,60}\[[\w.:'\"\-]{1,40}\]"
_PLURAL = lazy(r"\w+\((?:s|es)\)")
_FUNCTION = lazy(r"[fghFGH]\([a-z0-9](?:, ?[a-z0-9]){0,3}\)|P\([A-Z]\)")
_PROSE = frozenset(
    "and but or nor so yet for if as the a an i it he she they we you that this these those which who whom what when "
    "where why how then there in on at of to with by from his her my your our their its oh ah well not no yes is was "
    "were are".split()
)
"""Words that begin the rest of a sentence after a dash that is typed as two hyphens."""
_TOOL = lazy(
    r"\b(?:git|grep|sed|awk|pip|uvx?|docker|np[mx]|curl|ls|cargo|flags?|sudo|bash)\b"
    r"|\b(?:run|pass|use|make|options?|commands?)[ ]--"
)
"""Words beside which these are options of a command: "run --with rich"."""
_DASHED = r"""
    (?: (?<![^\s(\[`=|/]) | (?<=[\s(\[,=/]["']) | (?<=^["']) ) --[a-zA-Z][\w\-]{0,40} (?![\w\-]|'\w)
  | (?<=[^\s.?!\]][ ]) -(?:[a-zA-Z]{1,2}|(?:[a-z]|O)\d{1,2}) (?![\w\-])
  | (?:(?<=\btar[ ])|(?<=\brsync[ ])) -[a-zA-Z]{3,5} (?![\w\-])
"""
_CALL_LESS = rf"""
    (?P<call>(?<![\w.]){_NAME}\((?!e?s\))[\w.,\[\]]{{0,40}}\)) [ ]-[ ] (?=\d|[a-z_][\w.]{{0,40}}[ ]?[(\[)\]+*/])
"""
"""len(rows) - 1. After "foo() - Returns 1" follows what it does."""
_MODE = (
    r"(?<!\w)(?P<command>chmod[ ](?:-R[ ])?|umask[ ]|mode[ ](?=0|[4-7][0-7]{2}(?!\w)))(?P<mode>[0-7]{3,4})(?!\w|[.,]\d)"
)
"""chmod 755. "Game mode 2000" has an ordinary number."""
_COMMANDS = (
    "awk|base64|bash|bc|cat|column|curl|cut|diff|egrep|env|fold|fzf|grep|gunzip|gzip|head|jq|kubectl|less|md5sum|more|nc|patch"
    "|perl|pbcopy|python3?|rev|rg|sed|sh|sha256sum|shuf|sort|sudo|tac|tail|tar|tee|tr|uniq|wc|xargs|xclip|yq|zcat"
)
_COMMAND = r"(?<![\w./@-])(?:rm|cp|mv|ls|df|ps|wc|gcc)(?=[ ](?:-[a-zA-Z]|[~.]{0,2}/))"
"""rm -rf."""
_ERROR_NAME = (
    r"(?<![\w@#])[A-Z][a-z]{2,20}(?:Error|Exception|Warning|Handler|Controller|Factory|Provider|Manager)(?!\w)"
)
"""IndexError."""
_PIPED = rf"(?<=[\w\"')\]}}/.])[ ]\|[ ](?=(?:{_COMMANDS})(?![\w'-]|[ ][|]))"
"""ls | wc -l."""
_TYPES = "str|int|float|bool|bytes|None|list|dict|set|tuple|object|Any|string|number|boolean|null|undefined|Path|Tensor"
_UNION = rf"(?<=\w|\])[ ]\|[ ](?=(?:{_TYPES})\b)|(?:(?<=\bstr)|(?<=\bint)|(?<=\bNone))[ ]\|[ ](?=\w)"
"""str | None."""
_LOGIC = ("===", "!==", "==", "!=", "<=", ">=", ":=", "=>", "->", "&&", "||", "+=", "-=", "*=", "/=")
_CODE_LIKE = lazy(r"[_\d.=\"']|^\w*[a-z][A-Z]")


def _call(match: re.Match[str]) -> str:
    text = match[0]
    if _PLURAL.fullmatch(text):
        return text.replace("(", "").replace(")", "")
    if _FUNCTION.fullmatch(text):
        return f"{text[0]} of {text[2:-1]}"
    if text.startswith("O("):
        return f"big O of {text[2:-1]}"
    arguments = match["arguments"]
    name = text[: text.index("(")]
    if arguments and not _CODE_LIKE.search(name) and not _CODE_LIKE.search(arguments) and not arguments.islower():
        return text
    return speak_code(text)


def _prime(match: re.Match[str]) -> str:
    return f"{match['name']} {'double ' if len(match['primes']) > 1 else ''}prime of {match['of']}"


def _joined(match: re.Match[str]) -> str:
    """Return dotted names as code. A capital after a single dot begins a sentence: a space is missing."""
    text = match[0]
    parts = text.split(".")
    if len(parts) == 2 and parts[1][0].isupper():
        return f"{parts[0]}. {parts[1]}"
    return speak_code(text)


def _camel_case(match: re.Match[str]) -> str:
    return match[0] if match[0] in _BRANDS else identifier(match[0])


RULES: tuple[Rule, ...] = (
    rule(r"(?<!\w)(?P<name>[fghFGH])(?P<primes>'{1,2})\((?P<of>[a-z]|\d{1,3})\)", _prime, ("'(",)),
    rule(r"\#(?=(?:include|define|ifn?def|endif|pragma|undef)\b)", "hash ", "#"),
    rule(r"<(?P<file>[\w/]{1,40}(?:\.h(?:pp)?)?)>(?=\s|$)", lambda match: f" {paths.speak_path(match['file'])}", "<"),
    rule(r"(?<!\w)\$\{?(?P<name>[A-Za-z_]\w{1,60})\}?", lambda match: f"dollar {identifier(match['name'])}", "$"),
    rule(r"(?<=count|Count|COUNT)\(\*\)", " star", "(*"),
    rule(_MODE, lambda match: match["command"] + numbers.digits(match["mode"]), ("chmod", "umask", "mode")),
    rule(r"(?<=[A-Za-z\d^])~(?=\d{0,3}(?:[\s.,;:)]|$))", " tilde ", "~"),
    rule(r"(?<=\bHEAD)\^", " caret ", "HEAD^"),
    rule(r"(?<=\W[a-z])--(?=[;)])|(?<=^[a-z])--(?=[;)])|(?<=[;][ ][a-z])--(?=\s*$)", " minus minus", "--"),
    rule(_COMMAND, lambda match: letters.spell(match[0]).lower(), ("rm", "cp", "mv", "ls", "df", "ps", "wc", "gcc")),
    rule(_ERROR_NAME, lambda match: identifier(match[0]), "hump"),
    rule(r"(?<![\w)\]])-(?=[a-z][ ]?[<>=≤≥]{1,2}[ ]?-?\d)", "minus ", (" -", "(-")),
    rule(
        r"(?<=[a-z]):(?=\d{1,2}\.\d)|(?<=[a-z]):(?=latest\b)",
        " colon ",
        (":latest", *(f":{digit}" for digit in range(10))),
    ),
    rule(r":(?<=[a-z]{2}:)(?=[a-z]{2})", ": ", ":"),
    rule(r"(?<=\bnpm[ ])ci(?!\w|\.\w)", "C I", ("npm",)),
    rule(_PIPED, " pipe ", " | "),
    rule(_UNION, " or ", " | "),
    rule(_CALL_LESS, r"\g<call> minus ", "call"),
    rule(_CALL, _call, "call"),
    rule(_INDEXED, lambda match: speak_code(match[0]), "call"),
    rule(_SNAKE, lambda match: identifier(match[0]), "_"),
    rule(_DOTTED, lambda match: speak_code(match[0]), [f"{name}." for name in _NAMESPACES.split()]),
    rule(_JOINED, _joined, "dotted words"),
    rule(_CAMEL, _camel_case, "hump"),
    rule(_PASCAL, lambda match: identifier(match[0]), "hump"),
    rule(
        _DASHED,
        _dashed,
        (" -", "--"),
    ),
    rule(
        rf"[ ]?(?P<operator>{alternatives(_LOGIC)})(?=\s?[\w\"'(\-!])[ ]?",
        lambda match: f" {OPERATORS[match['operator']]} ",
        _LOGIC,
    ),
    rule(
        r"\b(?P<before>to|of|at|be|is|are|was|with|requires?|needs?|use)[ ]+is[ ](?=(?:less|greater)[ ]than)",
        r"\g<before> ",
        ("<=", ">="),
    ),
    rule(r"!(?:(?<=[ ]and[ ]!)|(?<=[ ]or[ ]!)|(?<=\(!))(?=[A-Za-z_(])", "not ", "!"),
    rule(r"(?<=[A-Za-z])\+\+(?!\w)", " plus plus", "++"),
    rule(r"(?<![\w+])\+\+(?=[a-z](?!\w))", "plus plus ", "++"),
    rule(r"(?<=[a-z\d])::(?=\w)", " colon colon ", "::"),
)
"""Run before numbers are read."""
