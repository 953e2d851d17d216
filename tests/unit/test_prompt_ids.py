"""Prompt ids for vLLM's prefix cache: equal ids if and only if the rows are equal."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.prompt.builder import NO_TOKEN, Prompt
from engine.talker.vllm.prompt_ids import prompt_ids, voice_salt
from tests.unit.prompt_requests import FIVE_FRAMES, prompt_of, voice

TEXT_VOCAB, CODEC_VOCAB = 151_936, 3_072
"""The published vocabulary sizes."""

_pairs = st.tuples(st.integers(NO_TOKEN, TEXT_VOCAB - 1), st.integers(NO_TOKEN, CODEC_VOCAB - 1))


def ids_of(pairs, opened):
    text, codec = np.array(pairs, np.int64).T
    prompt = Prompt(text, codec, None, NO_TOKEN, None, NO_TOKEN, [], 0)
    return prompt_ids(prompt, replace(opened["1b7-base"].model.talker, vocab=CODEC_VOCAB))


@given(rows=st.sets(_pairs, min_size=1, max_size=50))
def test_different_rows_have_different_ids(opened, rows):
    assert len(set(ids_of(list(rows), opened))) == len(rows)


def test_ids_are_above_frame_codes_and_fit_31_bits(opened):
    lowest, highest = ids_of([(NO_TOKEN, NO_TOKEN), (TEXT_VOCAB - 1, CODEC_VOCAB - 1)], opened)
    assert lowest >= CODEC_VOCAB
    assert highest < 2**31


def test_voices_are_distinguished_by_embedding_and_codes(opened):
    def salt(given_voice):
        return voice_salt(prompt_of(opened["0b6-base"], text="Hello world.", voice=given_voice))

    plain, in_context = voice(), voice(codes=FIVE_FRAMES, transcript="one two three")
    recoded = replace(in_context, codes=FIVE_FRAMES[::-1].copy())
    other = replace(plain, embedding=plain.embedding + 1)
    assert len({salt(each) for each in (plain, in_context, recoded, other)}) == 4
    assert salt(in_context) == salt(replace(in_context, codes=FIVE_FRAMES.copy()))


def test_built_in_voices_share_the_cache(opened):
    assert voice_salt(prompt_of(opened["0b6-custom_voice"], text="Hello world.", speaker="ryan")) is None
