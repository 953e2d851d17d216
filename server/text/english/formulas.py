r"""Formulas as words: LaTeX such as $\frac{a}{b}$, and typed expressions such as sqrt(x^2 + 1)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from server.text.english import fractions, letters, numbers
from server.text.english.formula_tokens import SIZES, Tokens, tokens_of
from server.text.english.formula_words import (
    ACCENTS,
    DROPPED,
    FUNCTIONS,
    GREEK,
    GREEK_LETTERS,
    LARGE,
    OPERATORS,
    RELATIONS,
    SETS,
    STYLES,
    TEXT,
    VALUES,
    negated,
)
from server.text.english.unit_words import UNITS
from server.text.marks import FORMULA_END, FORMULA_START
from server.text.patterns import lazy

_MARKED = lazy(f"{FORMULA_START}([^{FORMULA_END}]*){FORMULA_END}")
_CALLED = frozenset("fghFGHO")
"""Letters that are functions before any parenthesis. Other letters are factors of a sum or a difference."""
_WORD = lazy(r"[a-z]{4,}|[A-Z][a-z]{2,}")
"""Letters that are a word, and not a product of variables."""
_DIFFERENTIAL = lazy(r"(?:d|\\partial)(?:\^\d)?[a-zA-Z]?(?:\^\d)?")
_SILENT = lazy(r"\\(?:[A-Za-z]+\*?|[\\{}_^&|,;:! ])|[{}_^&|\\]")
"""Tokens that are not spoken within prose."""
_UNIT = lazy(r"\\(?:text|mathrm)")
_ORNAMENTS = {"\\prime": "prime", "'": "prime", "*": "star", "\\ast": "star", "T": "transpose", "\\top": "transpose"}
"""Exponents that are marks of a variable."""
_SCRIPTS = ("_", "^", "'", "′", "!")
_BRACKETS = {"lfloor": "the floor of", "lceil": "the ceiling of"}
_VECTORS = frozenset(("\\vec", "\\overrightarrow", "\\mathbf"))
_DEEPEST = 20
_TYPED_LARGE = frozenset(("sum", "prod", "lim", "max", "min", "sup", "inf"))
_EQUALITIES = frozenset(("=", "≈", "≡", "\\approx", "\\equiv"))
_LONG_SIDE = 3
"""Minimum words of a side of an equation that is followed by a comma. Without it "A sub N equals" is hard to hear."""
_LONG_NUMERATOR = 4
"""Minimum words of a numerator that is followed by a comma, so that its end can be heard."""


def marked_in_words(text: str) -> str:
    """Return ``text`` with its marked formulas in words."""
    return _MARKED.sub(lambda match: speak_formula(match[1]), text) if FORMULA_START in text else text


def speak_formula(formula: str) -> str:
    """Return ``formula``, without the marks that enclose it, in words. Unknown commands are left out."""
    words = " ".join(" ".join(_Reader(tokens_of(formula)).words()).split())
    return re.sub(r"([,;])(?: ?[,;])+", r"\1", re.sub(r" (?=[,.;:?!])", "", words)).strip(",;: ")


def _words_since_pause(words: list[str]) -> int:
    return len(" ".join(words).rpartition(",")[2].split())


class _Reader:
    """Reads tokens from left to right.

    _before: the kind of what was read last: "value", "function", or nothing after an operator. _called: the tokens are
    the arguments of a function, where a bar is "given". _has_columns: "&" separates the columns of a matrix.
    """

    def __init__(self, tokens: Sequence[str], depth: int = 0, *, called: bool = False) -> None:
        self._tokens, self._depth, self._called = Tokens(tokens), depth, called
        self._before = ""
        self._has_columns = False

    def words(self) -> list[str]:
        """Return the words of all tokens."""
        words: list[str] = []
        while self._tokens.peek() and self._depth < _DEEPEST:
            token = self._tokens.next()
            if token in _EQUALITIES and not self._depth and _words_since_pause(words) >= _LONG_SIDE:
                words.append(",")
            words += self._term(token)
        return words

    def _inner(self, tokens: list[str], *, called: bool = False) -> list[str]:
        return _Reader(tokens, self._depth + 1, called=called).words()

    def _term(self, token: str) -> list[str]:
        """Return the words of an operator, of punctuation, or of a value with its scripts."""
        name = token[1:].rstrip("*") if token[0] == "\\" else token
        if SIZES.fullmatch(token):
            if name in ("left", "right"):
                self._tokens.skip(".")
            return []
        if token == "\\mid":
            return self._operator("given" if self._called else "such that")
        if token in ("|", "\\|"):
            return self._bar(token)
        if name in ("cdot", "times") and self._tokens.peek() in _VECTORS:
            return self._operator("dot" if name == "cdot" else "cross")
        if token == "\\not" and self._tokens.peek():
            return [negated(" ".join(self._term(self._tokens.next())))]
        is_sign = name != token or not token.isalpha() or token == "mod"  # letters are variables
        if is_sign and (name in RELATIONS or name in OPERATORS):
            return self._operator(RELATIONS.get(name) or OPERATORS[name])
        if token == "/":
            around = self._tokens.before(), self._tokens.peek()
            return self._operator("" if all(map(_DIFFERENTIAL.fullmatch, around)) else "over")
        if token in ("&", "\\\\"):
            return self._operator("," if token == "&" and self._has_columns else ";" if token == "\\\\" else "")
        if token in (",", ";", ":", ".", "?") or (token == "!" and self._before != "value"):
            return self._operator(token)
        if token in ("(", "["):
            return self._scripts(self._parenthesis(token))
        is_factor = token.isalpha() and self._tokens.before() == ")" and self._before == "value" and not self._called
        joint = "times" if is_factor else ""
        return [joint, *self._scripts(self._value(token, name))]

    def _operator(self, words: str) -> list[str]:
        self._before = ""
        return [words]

    def _bar(self, token: str) -> list[str]:
        if self._called:
            return self._operator("given")
        inside = self._tokens.rest()
        if self._before == "value" and inside.count(token) % 2 == 0:
            return self._operator("such that")
        inside = self._tokens.take(inside.index(token) if token in inside else len(inside))
        self._tokens.skip(token)
        joint, self._before = "times" if self._before == "value" else "", "value"
        size = "magnitude" if inside[:1] and inside[0] in _VECTORS else "absolute value"
        return [joint, "the norm of" if token == "\\|" else f"the {size} of", *self._inner(inside)]

    def _parenthesis(self, token: str) -> list[str]:
        before, self._before = self._before, "value"
        joint = "of" if before == "function" else "times" if before == "value" and token == "(" else ""
        tokens = self._tokens.group(token)
        is_interval = token == "[" and before != "function" and tokens.count(",") == 1 and self._tokens.peek() != "_"
        if is_interval:
            comma = tokens.index(",")
            return [joint, *self._inner(tokens[:comma]), "to", *self._inner(tokens[comma + 1 :])]
        inside = self._inner(tokens, called=before == "function")
        if token == "[" and self._tokens.skip("_"):  # an antiderivative between its limits
            below, _ = self._inner(self._tokens.argument()), self._tokens.skip("^")
            return [joint, *inside, ", from", *below, "to", *self._inner(self._tokens.argument())]
        return [joint, *inside, "," if self._tokens.peek() == "^" and len(inside) > 1 else ""]

    def _is_called(self, letter: str) -> bool:
        """Return whether the parenthesis that follows has the arguments of ``letter``."""
        opening, *inside = self._tokens.argument_of_call() or [""]
        if opening != "(":
            return letter == "E" and opening == "["
        is_sum = any(each in "+-−" for each in inside)
        return letter in _CALLED or (not is_sum and any(each[-1].isalpha() for each in inside))

    def _scripts(self, words: list[str]) -> list[str]:
        """Return ``words`` followed by the subscript, exponent, primes and exclamation mark of the value."""
        while (token := self._tokens.peek()) in _SCRIPTS:
            if token == "!" and self._before != "value":
                break
            self._tokens.next()
            if token == "_":
                below = self._tokens.argument()
                words += [*([] if below and below[0][0].isdecimal() else ["sub"]), *self._subscript(below)]
            elif token == "^":
                words += self._power(self._tokens.argument())
            elif token == "'" and self._tokens.skip("'"):
                words.append("double prime")
            else:
                words.append("factorial" if token == "!" else "prime")
        return words

    def _subscript(self, below: list[str]) -> list[str]:
        """Return the words of a subscript. Its letters are a word if they may be one: x_{max}."""
        if len(below) == 1 and (name := below[0].removeprefix("\\")).isalpha() and (len(name) > 2 or name == "in"):
            return [name]
        return self._inner(below)

    def _power(self, exponent: list[str]) -> list[str]:
        typed = "".join(exponent)
        if typed in ("2", "3"):
            return ["squared" if typed == "2" else "cubed"]
        if typed in ("\\circ", "\\degree"):
            return ["degrees"]
        if typed in _ORNAMENTS:
            return [_ORNAMENTS[typed]]
        return ["to the power of", *self._inner(exponent)]

    def _value(self, token: str, name: str) -> list[str]:
        """Return the words of a value, a function or a large operator, with its arguments."""
        command = name != token
        before, self._before = self._before, "value"
        if token in ("{", "\\{", "\\lfloor", "\\lceil"):
            return [_BRACKETS.get(name, "the set") if command else "", *self._inner(self._tokens.group(token))]
        if name in FUNCTIONS and (command or len(name) > 2 or self._tokens.peek() in ("(", "^", "_")):
            return self._function(name)
        if name in LARGE and (command or (name in _TYPED_LARGE and self._tokens.peek() in ("(", "_"))):
            return self._large(name, "times" if before == "value" else "")
        if name == "sqrt" or token == "√":
            return self._root()
        return self._command(name) if command else self._plain(token)

    def _function(self, name: str) -> list[str]:
        words = [FUNCTIONS[name]]
        if name == "ln" and self._tokens.peek() not in ("(", "\\left", "^"):
            words.append("of")
        for _ in range(2):
            if self._tokens.skip("_"):
                words += ["base", *self._inner(self._tokens.argument())]
            elif self._tokens.skip("^"):
                words += self._power(self._tokens.argument())
        self._before = "function"
        return words

    def _large(self, name: str, joint: str) -> list[str]:
        below: list[str] = []
        above: list[str] = []
        while self._tokens.peek() in ("_", "^", "\\limits"):
            script = self._tokens.next()
            if script == "_":
                below = self._inner(self._tokens.argument())
            elif script == "^":
                above = self._inner(self._tokens.argument())
        if name.startswith("lim"):
            scope = ["as", *("approaches" if word == "goes to" else word for word in below)] if below else []
        elif above:
            scope = ["from", *below, "to", *above]
        else:
            scope = ["over", *below] if below else []
        self._before = ""
        return [joint, LARGE[name], *scope, "of"]

    def _root(self) -> list[str]:
        degree = self._tokens.group("[") if self._tokens.skip("[") else ["2"]
        name = {"2": "square", "3": "cube", "4": "fourth", "n": "nth"}.get("".join(degree))
        words = [f"the {name} root of"] if name else ["the root of degree", *self._inner(degree), "of"]
        return [*words, *self._inner(self._tokens.argument())]

    def _fraction(self) -> list[str]:
        if self._tokens.peek().isdecimal() and len(self._tokens.peek()) == 2:  # \frac12
            top, bottom = map(list, self._tokens.next())
        else:
            top, bottom = self._tokens.argument(), self._tokens.argument()
        if bottom != ["1"] and all(
            len(each) == 1 and each[0].isdecimal() and len(each[0]) < 3 for each in (top, bottom)
        ):
            return [fractions.mixed(f"{top[0]}/{bottom[0]}")]
        above, below = self._inner(top), self._inner(bottom)
        if _DIFFERENTIAL.fullmatch("".join(top)) and _DIFFERENTIAL.fullmatch("".join(bottom)):
            self._before = "function" if top[-1] in ("d", "\\partial") else "value"
            return [*above, *below]
        return [*above, "," if len(" ".join(above).split()) >= _LONG_NUMERATOR else "", "over", *below]

    def _command(self, name: str) -> list[str]:
        greek = name.lower().removeprefix("var")
        if greek in GREEK:
            self._before = "function" if self._is_called(greek) else "value"
            return ["ayta" if greek == "eta" else greek]
        if name in VALUES:
            return [VALUES[name]]
        if name in ("frac", "dfrac", "tfrac", "cfrac"):
            return self._fraction()
        if name in ("binom", "dbinom", "tbinom"):
            return [*self._inner(self._tokens.argument()), "choose", *self._inner(self._tokens.argument())]
        if name in TEXT:
            return self._text()
        if name in ACCENTS:
            return [*self._inner(self._tokens.argument()), ACCENTS[name]]
        if name in ("vec", "overrightarrow"):
            return ["vector", *self._inner(self._tokens.argument())]
        if name == "mathbb":
            letter = self._tokens.argument()
            return [SETS.get("".join(letter)) or " ".join(self._inner(letter))]
        if name in STYLES:
            words = self._inner(self._tokens.argument())
            self._before = "function" if name == "mathcal" and self._tokens.peek() in ("(", "\\left") else "value"
            return words
        if name == "pmod":
            return [", mod", *self._inner(self._tokens.argument())]
        if name == "$" and self._tokens.peek()[:1].isdecimal():
            return [f"${self._tokens.next()}"]  # the rules for money read it
        self._before = ""
        if name in DROPPED:
            inside = "".join(self._tokens.argument()).rstrip("*")
            if name == "begin" and inside == "array":
                self._tokens.argument()
            if name == "begin" and (inside.endswith(("matrix", "cases")) or inside == "array"):
                self._has_columns = True
                return [] if inside == "cases" else ["the matrix"]
        return []

    def _text(self) -> list[str]:
        """Return the words of a command in ``TEXT``: prose, a formula of chemistry, a function or a unit."""
        tokens = self._tokens.argument()
        if "_" in tokens:
            return self._inner([each for each in tokens if each not in "{}"])
        text = _prose(tokens)
        if text in FUNCTIONS:
            return self._function(text)
        if text.isalpha() and self._tokens.peek() == "(":
            self._before = "function"
            return [text]
        if self._tokens.ahead(5) == ["^", "{", "-", "1", "}"]:
            self._tokens.take(5)
            return ["per", UNITS.get(text, (text,))[0]]
        return [text]

    def _plain(self, token: str) -> list[str]:
        if token in GREEK_LETTERS:
            self._before = "function" if self._is_called(token) else "value"
            return [GREEK_LETTERS[token]]
        if token in VALUES and not token.isalpha():
            return [VALUES[token]]
        if token[-1].isdecimal():
            return self._number(token)
        if not token[0].isalpha():
            return [] if token in "{}()[]^_&\\#~`" else [token]  # the rules for other signs read it
        if len(token) == 1 and self._is_called(token):
            self._before = "function"
            return ["big O" if token == "O" else token.upper()]
        if _WORD.fullmatch(token) or token in ("if", "and", "or", "for", "pi") or (token in GREEK and len(token) > 3):
            return [token]
        return [letters.spell(token)]

    def _number(self, token: str) -> list[str]:
        slash, bottom, after = (*self._tokens.ahead(3), "", "", "")[:3]
        if slash == "/" and token.isdecimal() and bottom.isdecimal() and after != "^":
            self._tokens.take(2)
            return [fractions.mixed(f"{token}/{bottom}")]
        self._tokens.skip_spaces()
        if _UNIT.fullmatch(self._tokens.peek()) and "_" not in self._tokens.ahead(6):
            self._tokens.next()
            unit = _prose(self._tokens.argument())
            while self._tokens.skip("^"):
                exponent = "".join(each for each in self._tokens.argument() if not _SILENT.fullmatch(each))
                unit += exponent.replace("2", "²").replace("3", "³")
            return [token, unit]  # the rules for units read both
        return [numbers.number(token)]


def _prose(tokens: list[str]) -> str:
    """Return the argument of a command in ``TEXT``. Its spaces are lost, so words are separated by one."""
    text = " ".join(each.removeprefix("\\") for each in tokens if not _SILENT.fullmatch(each))
    return re.sub(r" ?([/%^°]) ?| (?=[,.;:!?])", r"\1", text).strip()
