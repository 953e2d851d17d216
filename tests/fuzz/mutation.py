"""Spoils bytes and JSON values. What comes out depends on nothing but the generator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.fuzz.dissection import dissect

_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_TEXTS = (
    "",
    " ",
    "a",
    "\0",
    "\n\r\t",
    "../../etc/passwd",
    "%00",
    "%2e%2e%2f",
    "\ud800",
    "\U0010ffff",
    "e\u0301" * 20,
    "\u202e\u200b\ufeff",
    "<|im_end|>",
    "A" * 5000,
    "你好。" * 30,
    "null",
    "{}",
    "'; --",
)
_VALUES = (None, True, False, -1, 0, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e-320, 1e308, [], {}, [[]], [None])


class Mutator:
    """Makes spoiled copies."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def bytes(self, data: bytes, tokens: tuple[bytes, ...] = (), head: int = 64) -> bytes:
        """``data`` with one to eight faults, half of them in its first ``head`` bytes; ``tokens`` may be put in."""
        spoiled = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 3, 8))):
            self._spoil(spoiled, tokens, head)
        return bytes(spoiled)

    def recording(self, data: bytes, others: Sequence[bytes] = ()) -> bytes:
        """A valid file with faults in it; most are in payloads whose sizes and checksums are correct again.

        others: files of which payloads may be put in.
        """
        if self.random.random() < 0.2:
            return self.bytes(data)
        dissected = dissect(data)
        parts = list(dissected.parts)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            place = self._place(parts)
            match self.random.randrange(12):
                case 0:
                    parts[place] = parts[self._place(parts)]
                case 1:
                    parts[place] = b""
                case 2 if others:
                    foreign = dissect(self.random.choice(others)).parts
                    parts[place] = foreign[self._place(foreign)]
                case _:
                    parts[place] = self.bytes(parts[place])
        return dissected.join(parts)

    def _place(self, parts: Sequence[bytes]) -> int:
        """The index of a payload; half of the time of one of the first, which are headers."""
        return self.random.randrange(len(parts) if self.random.random() < 0.5 else min(8, len(parts)))

    def text(self, text: str = "") -> str:
        """``text`` with something in it that it should not hold, or another."""
        strange = self.random.choice(_TEXTS)
        place = self.random.randint(0, len(text))
        return self.random.choice((strange, text[:place] + strange + text[place:], text[:place], text * 3))

    def value(self, value: Any) -> Any:
        """A JSON value with one to three faults anywhere in it."""
        spoiled = json.loads(json.dumps(value))
        for _ in range(self.random.choice((1, 1, 2, 3))):
            spoiled = self._spoil_value(spoiled)
        return spoiled

    def json(self, value: Any) -> bytes:
        """The text of a spoiled value; of three, one is no JSON any more, or repeats a name."""
        text = json.dumps(self.value(value)).encode()
        how = self.random.randrange(6)
        if how == 0:
            return self.bytes(
                text, (b"NaN", b"1e999", b"\xff", b"\\ud800", b"\0", b"[" * 300, b'"a":1,'), head=len(text)
            )
        return text.replace(b"{", b'{"input": 1, "input": "a", ', 1) if how == 1 else text

    def _spoil(self, data: bytearray, tokens: tuple[bytes, ...], head: int) -> None:
        end = len(data) if self.random.random() < 0.5 else min(head, len(data))
        place = self.random.randint(0, end)
        match self.random.randrange(8 if tokens else 7):
            case 0:
                data[place : place + 1] = bytes([self.random.randrange(256)])
            case 1:
                del data[place : place + self.random.choice((1, 2, 4, 100))]
            case 2:
                data[place:place] = self.random.randbytes(self.random.choice((1, 4, 40)))
            case 3:
                number = self.random.choice(_NUMBERS)
                order = self.random.choice(("little", "big"))
                data[place : place + 4] = number.to_bytes(4, order)
            case 4:
                del data[place:]
            case 5:
                again = data[place : place + self.random.choice((4, 64, 4096))]
                data[place:place] = again
            case 6:
                if data:
                    data[min(place, len(data) - 1)] ^= 1 << self.random.randrange(8)
            case 7:
                data[place:place] = self.random.choice(tokens)

    def _spoil_value(self, value: Any) -> Any:
        if isinstance(value, dict) and value and self.random.random() < 0.9:
            return self._spoil_fields(value)
        if isinstance(value, list) and value and self.random.random() < 0.8:
            place = self.random.randrange(len(value))
            return [*value[:place], self._spoil_value(value[place]), *value[place + 1 :]]
        if isinstance(value, str) and self.random.random() < 0.6:
            return self.text(value)
        return self.random.choice((*_VALUES, self.text(), [value] * 70, {"a": value}))

    def _spoil_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        name = self.random.choice(list(fields))
        match self.random.randrange(8):
            case 0:
                return {each: value for each, value in fields.items() if each != name}
            case 1:
                return {**fields, self.text(name): fields[name]}
        return {**fields, name: self._spoil_value(fields[name])}
