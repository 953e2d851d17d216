"""Keys of the prefix cache: equal if and only if the voice and all rows up to the end of the block are equal."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.prompt.builder import NO_TOKEN, Prompt
from engine.talker.vllm.prefix_keys import prefix_keys
from tests.unit.prompt_requests import FIVE_FRAMES, prompt_of, voice

BLOCK = 4

_pairs = st.lists(st.tuples(st.integers(NO_TOKEN, 9), st.integers(NO_TOKEN, 9)), min_size=1, max_size=30)


def keys_of(pairs):
    text, codec = np.array(pairs, np.int64).T
    return prefix_keys(Prompt(text, codec, None, NO_TOKEN, None, NO_TOKEN, [], 0), BLOCK)


@given(rows=_pairs, other=_pairs)
def test_keys_are_equal_exactly_where_all_rows_so_far_are(rows, other):
    shared = sum(one == two for one, two in zip(keys_of(rows), keys_of(other), strict=False))
    equal = next((row for row, (one, two) in enumerate(zip(rows, other, strict=False)) if one != two), None)
    equal = min(len(rows), len(other)) if equal is None else equal
    assert shared == min(equal // BLOCK, (len(rows) - 1) // BLOCK, (len(other) - 1) // BLOCK)


@given(rows=_pairs)
def test_the_last_row_is_never_in_a_block_with_a_key(rows):
    assert len(keys_of(rows)) * BLOCK < len(rows)


def test_voices_are_distinguished_by_embedding_and_codes(opened):
    def first_key(given_voice):
        return prefix_keys(prompt_of(opened["0b6-base"], text="Hello world.", voice=given_voice), BLOCK)[0]

    plain, in_context = voice(), voice(codes=FIVE_FRAMES, transcript="one two three")
    recoded = replace(in_context, codes=FIVE_FRAMES[::-1].copy())
    other = replace(plain, embedding=plain.embedding + 1)
    assert len({first_key(each) for each in (plain, in_context, recoded, other)}) == 4
    assert first_key(in_context) == first_key(replace(in_context, codes=FIVE_FRAMES.copy()))


def test_texts_of_a_built_in_voice_share_their_beginning(opened):
    one, other = (
        prefix_keys(prompt_of(opened["0b6-custom_voice"], text=text, speaker="ryan"), BLOCK)
        for text in ("Hello world.", "Quick brown fox.")
    )
    assert one[0] == other[0]
    assert one[-1] != other[-1]
