"""Key combinations as words: Ctrl+C, Cmd-Shift-4, ⌘⇧P."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule

_MODIFIERS = {
    "ctrl": "control",
    "cmd": "command",
    "alt": "alt",
    "shift": "shift",
    "win": "windows",
    "windows": "windows",
    "fn": "F N",
    "option": "option",
    "control": "control",
    "command": "command",
}
_LAST = {"del": "delete", "esc": "escape", "ins": "insert", "pgup": "page up", "pgdn": "page down", "bksp": "backspace"}
_SIGNS = {"⌘": "command", "⌥": "option", "⌃": "control", "⇧": "shift", "⌫": "delete", "⌦": "delete", "⎋": "escape"}
_SIGNS |= {"⏎": "return", "↩": "return", "⇥": "tab", "⇪": "caps lock", "␣": "space", "⏏": "eject"}
_ANY_KEY = "|".join(_MODIFIERS)
_CHARACTER = "[a-z]|zero|one|two|three|four|five|six|seven|eight|nine"
_LAST_KEY = (
    rf"{_CHARACTER}|alt|backspace|bksp|break|click|delete|del|down|drag|end|enter|escape|esc|home|insert|ins|left|option"
    r"|pause|pgdn|pgup|plus|prtsc|return|right|scroll|shift|space|spacebar|tab|up"
)
"""Keys that end a combination. Digits are words already. "Birth control + pill" is none."""
_HYPHENATED = (
    rf"(?:(?:ctrl|cmd|alt|shift|fn)-){{1,3}}(?:{_CHARACTER}|backspace|delete|del|end|enter|escape|esc|home|space|tab)"
)
"""Combinations with hyphens: ctrl-alt-del. "Alt-right" and "option-a" are none."""
_KEY = rf"(?<!\w) (?: (?:(?:{_ANY_KEY})[ ]?\+[ ]?){{1,3}}(?:{_LAST_KEY}) | {_HYPHENATED} ) (?![\w'’])"
_SIGNED = rf"""
    (?P<signs>(?:[{"".join(_SIGNS)}][ ]?\+?[ ]?){{1,5}})
    (?P<key>[A-Za-z\d](?!\w)|(?<=\+)[A-Za-z]{{2,9}}(?!\w)|(?<![ ])[/=+\-](?=[\s,.;)]|$))?
"""
"""The signs of an Apple keyboard: ⌘C."""
_NAMES = {"/": "slash", "=": "equals", "+": "plus", "-": "minus"}


def _key(match: re.Match[str]) -> str:
    names = re.split(r"[ ]?[+\-][ ]?", match[0])
    return " ".join(
        (_MODIFIERS | _LAST).get(name.lower(), letters.spell(name) if len(name) == 1 else name) for name in names
    )


def _signed(match: re.Match[str]) -> str:
    words = [_SIGNS[sign] for sign in match["signs"] if sign in _SIGNS]
    key = match["key"]
    if key:
        words.append(
            _NAMES.get(key) or (numbers.digits(key) if key.isdecimal() else key if len(key) > 1 else key.upper())
        )
    return f" {' '.join(words)}{' ' if match['signs'].endswith(' ') and not key else ''}"


FIRST: tuple[Rule, ...] = (rule(_SIGNED, _signed, tuple(_SIGNS)),)

RULES: tuple[Rule, ...] = (rule(_KEY, _key, frozenset(_MODIFIERS), ignore_case=True),)
"""Run after numbers are put into words."""
