"""A short, seeded run of the codec campaign. A longer one: ``python -m tests.fuzz.codecs --inputs 495000``."""

from __future__ import annotations

import sys

import pytest

from tests.fuzz.codecs import campaign


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
async def test_mutated_recordings_are_decoded_or_refused() -> None:
    outcomes = await campaign(range(300), seed=20, round_size=150)
    assert min(outcomes["DECODED"], outcomes["REFUSED"]) > 100
