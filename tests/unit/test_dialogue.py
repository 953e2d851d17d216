"""Scripts of several speakers."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.cli.dialogue import read_script
from server.errors import ApiError


def test_each_line_is_a_turn(tmp_path: Path) -> None:
    script = tmp_path / "script.txt"
    script.write_text("\ufeff# Act one\n ava : Hello: you there?\n\nmy voice:Yes.\n", "utf-8")
    assert read_script(script) == [
        {"voice": "ava", "input": "Hello: you there?"},
        {"voice": "my voice", "input": "Yes."},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ava: Hi.\nand then\n", "line 2: must be 'voice: text', got 'and then'"),
        (b"# x\n", "no line"),
        (b"\xff", "UTF-8"),
    ],
)
def test_an_invalid_script_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    script = tmp_path / "script.txt"
    script.write_bytes(content)
    with pytest.raises(ApiError, match=message):
        read_script(script)
