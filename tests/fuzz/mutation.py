"""Mutates bytes and JSON values. The result depends only on the random number generator."""

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
    """Makes mutated copies."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def bytes(self, data: bytes, tokens: tuple[bytes, ...] = (), head: int = 64) -> bytes:
        """Return ``data`` with one to eight faults, half of them in its first ``head`` bytes. May insert ``tokens``."""
        mutated = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 3, 8))):
            self._mutate(mutated, tokens, head)
        return bytes(mutated)

    def recording(self, data: bytes, others: Sequence[bytes] = ()) -> bytes:
        """Return a valid file with faults. Most are in payloads, whose sizes and checksums are then corrected.

        others: files whose payloads may be inserted.
        """
        if self.random.random() < 0.2:
            return self.bytes(data)
        dissected = dissect(data)
        parts = list(dissected.parts)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            index = self._index_of_part(parts)
            match self.random.randrange(12):
                case 0:
                    parts[index] = parts[self._index_of_part(parts)]
                case 1:
                    parts[index] = b""
                case 2 if others:
                    foreign = dissect(self.random.choice(others)).parts
                    parts[index] = foreign[self._index_of_part(foreign)]
                case _:
                    parts[index] = self.bytes(parts[index])
        return dissected.join(parts)

    def _index_of_part(self, parts: Sequence[bytes]) -> int:
        """Return the index of a payload; half of the time one of the first, which are headers."""
        return self.random.randrange(len(parts) if self.random.random() < 0.5 else min(8, len(parts)))

    def text(self, text: str = "") -> str:
        """Return ``text`` with an unusual insertion, or another text."""
        unusual = self.random.choice(_TEXTS)
        index = self.random.randint(0, len(text))
        return self.random.choice((unusual, text[:index] + unusual + text[index:], text[:index], text * 3))

    def value(self, value: Any) -> Any:
        """Return a JSON value with one to three faults."""
        mutated = json.loads(json.dumps(value))
        for _ in range(self.random.choice((1, 1, 2, 3))):
            mutated = self._mutate_value(mutated)
        return mutated

    def json(self, value: Any) -> bytes:
        """Return the text of a mutated value. One of three is invalid JSON or repeats a name."""
        text = json.dumps(self.value(value)).encode()
        choice = self.random.randrange(6)
        if choice == 0:
            return self.bytes(
                text, (b"NaN", b"1e999", b"\xff", b"\\ud800", b"\0", b"[" * 300, b'"a":1,'), head=len(text)
            )
        return text.replace(b"{", b'{"input": 1, "input": "a", ', 1) if choice == 1 else text

    def _mutate(self, data: bytearray, tokens: tuple[bytes, ...], head: int) -> None:
        end = len(data) if self.random.random() < 0.5 else min(head, len(data))
        index = self.random.randint(0, end)
        match self.random.randrange(8 if tokens else 7):
            case 0:
                data[index : index + 1] = bytes([self.random.randrange(256)])
            case 1:
                del data[index : index + self.random.choice((1, 2, 4, 100))]
            case 2:
                data[index:index] = self.random.randbytes(self.random.choice((1, 4, 40)))
            case 3:
                number = self.random.choice(_NUMBERS)
                order = self.random.choice(("little", "big"))
                data[index : index + 4] = number.to_bytes(4, order)
            case 4:
                del data[index:]
            case 5:
                again = data[index : index + self.random.choice((4, 64, 4096))]
                data[index:index] = again
            case 6:
                if data:
                    data[min(index, len(data) - 1)] ^= 1 << self.random.randrange(8)
            case 7:
                data[index:index] = self.random.choice(tokens)

    def _mutate_value(self, value: Any) -> Any:
        if isinstance(value, dict) and value and self.random.random() < 0.9:
            return self._mutate_fields(value)
        if isinstance(value, list) and value and self.random.random() < 0.8:
            index = self.random.randrange(len(value))
            return [*value[:index], self._mutate_value(value[index]), *value[index + 1 :]]
        if isinstance(value, str) and self.random.random() < 0.6:
            return self.text(value)
        return self.random.choice((*_VALUES, self.text(), [value] * 70, {"a": value}))

    def _mutate_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        name = self.random.choice(list(fields))
        match self.random.randrange(8):
            case 0:
                return {each: value for each, value in fields.items() if each != name}
            case 1:
                return {**fields, self.text(name): fields[name]}
        return {**fields, name: self._mutate_value(fields[name])}
