"""Mutated recordings have correct sizes and checksums, so that they reach the codecs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from server.limits import Limits
from server.references.decoders import decode_reference
from tests.fuzz.codecs import corpus
from tests.fuzz.dissection import dissect
from tests.fuzz.mutation import Mutator
from tests.server import ogg

LIMITS = Limits(reference_min_seconds=0.05)
FILES = corpus()


@pytest.mark.parametrize("name", FILES)
def test_a_joined_file_contains_the_same_audio(name: str) -> None:
    data = FILES[name]
    dissected = dissect(data)
    joined = decode_reference(dissected.join(dissected.parts), LIMITS)
    np.testing.assert_array_equal(joined.samples, decode_reference(data, LIMITS).samples)


def test_pages_of_a_mutated_ogg_file_have_their_checksums() -> None:
    mutator = Mutator(Random(1))
    for _ in range(200):
        dissected = dissect(FILES["OGG/VORBIS"])
        mutated = dissected.join([mutator.bytes(part) for part in dissected.parts])
        for page in ogg.pages(mutated):
            assert page.to_bytes() in mutated


@pytest.mark.parametrize("name", ["MP4 of AAC", "WebM of Opus", "FLAC/PCM_16", "bare AAC", "WAV/PCM_16", "CAF/ALAC_16"])
def test_a_longer_payload_is_read_completely(name: str) -> None:
    dissected = dissect(FILES[name])
    first, *rest = dissected.parts
    grown = dissected.join([first, *(part + b"\0" for part in rest)])
    assert [len(part) for part in dissect(grown).parts[1:]] == [len(part) + 1 for part in rest]
