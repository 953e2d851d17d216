"""The tokens of a formula in LaTeX, and the groups that they form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from server.text.patterns import lazy

_TOKEN = lazy(
    r"\\(?:[A-Za-z]+\*?|.)|\d+(?:,\d{3})*(?:\.\d+)?|\.\d+|\.{3}|:=|[=!<>]=|->|=>|[A-Za-z]+|[^\W\d]|[^\w\s]|_",
    re.DOTALL,
)
SIZES = lazy(r"\\(?:left|right|[bB]igg?[lrm]?|middle|displaystyle|textstyle|limits|nolimits|nonumber|q?quad|[,;:! ])")
"""Commands for the size of brackets and for spaces. They are not spoken."""
_LONGEST_CALL = 40
"""Maximum tokens of the arguments that are looked at to decide whether a letter is a function."""
_BARS = {"\\vert": "|", "\\lvert": "|", "\\rvert": "|", "\\Vert": "\\|", "\\lVert": "\\|", "\\rVert": "\\|"}
_CLOSING = {"{": "}", "(": ")", "[": "]", "\\{": "\\}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_THOUSANDS = lazy(r"(?<=\d)(?:\{,\}|\\,)(?=\d{3}(?!\d))")
_SCRIPTS = lazy(r"(?P<above>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+)|(?P<below>[₀-₉₊₋]+)|(?P<fraction>[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])")
_SIGNS = str.maketrans({"∑": "\\sum ", "∏": "\\prod ", "∫": "\\int "})


def tokens_of(formula: str) -> list[str]:
    """Return the tokens of ``formula``: commands, numbers, runs of letters, and signs."""
    plain = _THOUSANDS.sub(",", formula).translate(_SIGNS)
    return [_BARS.get(token, token) for token in _TOKEN.findall(_SCRIPTS.sub(_script, plain))]


def _script(match: re.Match[str]) -> str:
    """Return a superscript, a subscript or a fraction that is one character as LaTeX."""
    text = unicodedata.normalize("NFKC", match[0]).replace("−", "-")
    if match["fraction"]:
        top, _, bottom = text.partition("⁄")
        return rf"\frac{{{top}}}{{{bottom}}}"
    return f"{'^' if match['above'] else '_'}{{{text}}}"


class Tokens:
    """Tokens that are read from left to right."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = list(tokens)
        self._at = 0

    def next(self) -> str:
        """Read a token. Raises IndexError at the end."""
        self._at += 1
        return self._tokens[self._at - 1]

    def peek(self) -> str:
        """Return the next token, or "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def before(self) -> str:
        """Return the token before the one that was read last, or ""."""
        return self._tokens[self._at - 2] if self._at > 1 else ""

    def ahead(self, count: int) -> list[str]:
        """Return up to ``count`` tokens that are left, without reading them."""
        return self._tokens[self._at : self._at + count]

    def argument_of_call(self) -> list[str]:
        """Return the parenthesis that follows, from its bracket on, after primes and sizes; without reading it."""
        at = self._at
        while at < len(self._tokens) and (self._tokens[at] == "'" or SIZES.fullmatch(self._tokens[at])):
            at += 1
        end = at
        while end < len(self._tokens) and end - at < _LONGEST_CALL and self._tokens[end] not in (")", "]"):
            end += 1
        return self._tokens[at:end] if self._tokens[at : at + 1] in (["("], ["["]) else []

    def rest(self) -> list[str]:
        """Return the tokens that are left, without reading them."""
        return self._tokens[self._at :]

    def take(self, count: int) -> list[str]:
        """Read up to ``count`` tokens."""
        taken = self._tokens[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def skip(self, token: str) -> bool:
        """Read the next token if it is ``token``, and return whether it is."""
        if self.peek() != token:
            return False
        self._at += 1
        return True

    def skip_spaces(self) -> None:
        """Read spaces and sizes."""
        while self.peek() == "~" or SIZES.fullmatch(self.peek()):
            self._at += 1

    def group(self, opening: str) -> list[str]:
        """Read up to the bracket that closes ``opening``, which was read. Return the tokens between them."""
        closing, depth, start = _CLOSING[opening], 1, self._at
        while self.peek():
            token = self.next()
            depth += (token == opening) - (token == closing)
            if not depth:
                return self._tokens[start : self._at - 1]
        return self._tokens[start:]

    def argument(self) -> list[str]:
        """Read the argument of a command or an exponent: a group, or one token with its own groups."""
        self.skip_spaces()
        if not self.peek():
            return []
        token = self.next()
        if token in ("{", "("):
            return self.group(token)
        tokens = [token]
        while token in "+-−" and self.peek():
            token = self.next()
            tokens.append(token)
        while token[0] == "\\" and self.skip("{"):
            tokens += ["{", *self.group("{"), "}"]
        return tokens
