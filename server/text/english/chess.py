"""Moves of chess as words: 1. e4 e5 2. Nf3 Nc6, Qxd5+, O-O-O, e8=Q."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.english import numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_PIECES = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
_CASTLES = {"O-O": "castles kingside", "O-O-O": "castles queenside"}
_PIECE_MOVE = r"[KQRBN][a-h]?[1-8]?x?[a-h][1-8]"
_PAWN_MOVE = r"[a-h](?:x[a-h])?[1-8](?:=[QRBN])?"
_CASTLE = r"(?:O-O-O|O-O|0-0-0|0-0)"
_ANY = rf"(?:{_PIECE_MOVE}|{_PAWN_MOVE}|{_CASTLE})[+\#]?"
NEXT_MOVE = lazy(rf"(?:{_PIECE_MOVE}|{_CASTLE})(?![^\W\d])|[KQRBNO][\w\-]{{0,4}}$")
"""A move that begins with a capital, or what can become one, after the number of a move."""
_MOVE = rf"""
    (?:(?<![\w.])(?P<number>\d{{1,3}})(?P<dots>\.(?:\.\.)?)[ ]?)?
    (?<![\w\-/=]) (?: (?P<piece>[KQRBN])(?P<from>[a-h]?[1-8]?)(?P<takes>x)?(?P<to>[a-h][1-8])
      | (?P<pawn>[a-h])(?:x(?P<taken>[a-h]))?(?P<rank>[1-8])(?:=(?P<promoted>[QRBN]))? | (?P<castles>{_CASTLE}) )
    (?P<check>[+\#])?(?P<mark>[!?]{{1,2}})? (?![\w=\-/]) (?P<next>[ ](?=\d{{1,3}}\.|{_ANY}(?!\w)))?
"""
_GAME = lazy(
    rf"""
    (?<![\w.])\d{{1,3}}\.(?:\.\.)?[ ]?{_ANY}[!?]{{0,2}}[ ](?:\d{{1,3}}\.|{_ANY}[\s.,;!?])       # 1. e4 e5
  | (?<!\w){_PIECE_MOVE}[+\#]?[!?]{{0,2}},?[ ](?:(?:and|or|then|with)[ ])?{_PIECE_MOVE}          # Nf3 Nc6
  | (?<!\w)(?:[KQRBN][a-h]?[1-8]?x[a-h][1-8][+\#]?|[KQRBN][a-h][1-8]\#)(?=[\s.,;!?)]|$)             # Nxe4, Qh7#
  | \b(?:[Cc]hess|[Cc]heckmates?|[Cc]astl(?:es?|ed|ing)
      |[Pp]awns?|[Kk]nights?|[Bb]ishops?|[Rr]ooks?|[Gg]ambit|Sicilian)\b
    """,
    re.VERBOSE,
)
"""What shows that a text is about a game. In other texts, "b4" and "Ra1" are not moves."""
_CASTLED_BEFORE = lazy(r"[Cc]astl\w{1,3} $")
_MOVE_BEFORE = lazy(rf"(?<!\w)(?:{_PIECE_MOVE}|{_PAWN_MOVE})[+\#]?,? $")


@lru_cache(8)
def _is_about_game(text: str) -> bool:
    return bool(_GAME.search(text))


def _move(match: re.Match[str]) -> str:
    """Return a move in words. In a text about no game, or about a score of 0-0, it is unchanged."""
    if not _is_about_game(match.string):
        return match[0]
    if match["castles"]:
        before = match.string[max(0, match.start() - 9) : match.start()]
        castled = _CASTLED_BEFORE.search(before)
        beside_moves = match["number"] or match["next"] or _MOVE_BEFORE.search(before)
        if match["castles"][0] == "0" and not (castled or beside_moves):
            return match[0]
        words = _CASTLES[match["castles"].replace("0", "O")]
        if castled:
            words = words.removeprefix("castles ")
    elif match["piece"]:
        start = f" {_square(match['from'])}" if match["from"] else ""
        words = f"{_PIECES[match['piece']]}{start}{' takes' if match['takes'] else ''} {_square(match['to'])}"
    else:
        taken = f"takes {match['taken'].upper()} " if match["taken"] else ""
        words = f"{match['pawn'].upper()} {taken}{numbers.digits(match['rank'])}"
        words += f" promotes to {_PIECES[match['promoted']]}" if match["promoted"] else ""
    if match["check"]:
        words += " check" if match["check"] == "+" else " checkmate"
    number = f"{numbers.cardinal(int(match['number']))}, " if match["number"] else ""
    return f"{number}{words}{', ' if match['next'] else match['mark'] or ''}"


def _square(text: str) -> str:
    return " ".join(numbers.digits(each) if each.isdecimal() else each.upper() for each in text)


RULES: tuple[Rule, ...] = (rule(_MOVE, _move, ("letter digit", "O-O", "0-0")),)
"""Run before code, scores and lists."""
