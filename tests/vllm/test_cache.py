"""The KV cache: utterances wait while it is full, and shared prompt prefixes are computed once."""

from collections import Counter
from copy import deepcopy

import numpy as np
import pytest

from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest, Voice
from engine.talker.gpu_step.inputs import UtteranceState
from tests.support.talkers import DEVICE, Generated, native_talker, outputs, prepare, speak
from tests.vllm.agreement import assert_agree


@pytest.fixture
def rows_read(monkeypatch):
    """The number of prompt rows computed for each utterance, in order."""
    rows, read, utterances = UtteranceState.rows, Counter(), []

    def counting_rows(self, first, stop):
        read[id(self)] += stop - first
        utterances.append(self)  # keeps its id from being reused
        return rows(self, first, stop)

    monkeypatch.setattr(UtteranceState, "rows", counting_rows)
    return read


SMALL_CACHE = {"context": 100, "slots": 3, "cache_positions": 112}
"""Space for slightly more than one utterance."""
LONG_SEEDS = (0, 1, 5)
"""Seeds of long utterances."""


@pytest.fixture
def three_utterances(opened):
    """A checkpoint, and three utterances that together need twice the cache."""
    checkpoint = opened("1b7-custom_voice")
    text = "Hello world, this is a test of the speech server. One two three."

    def one(seed):
        sampling = SamplingParams(seed=seed, max_new_tokens=60)
        return prepare(SpeechRequest(text, speaker="ryan", text_layout="streaming", sampling=sampling), checkpoint)

    return checkpoint, [one(seed) for seed in LONG_SEEDS]


def test_utterances_that_wait_for_space_in_the_cache_get_their_codes(vllm_talker, three_utterances):
    checkpoint, utterances = three_utterances
    talker = vllm_talker(checkpoint, **SMALL_CACHE)
    native = speak(native_talker(checkpoint), utterances)
    assert_agree(speak(talker, utterances), native, utterances, checkpoint)


def test_live_utterances_wait_for_space_without_prefix_caching(vllm_talker, three_utterances):
    checkpoint, utterances = three_utterances
    talker = vllm_talker(checkpoint, prefix_caching=False, **SMALL_CACHE)
    native, whole = speak(native_talker(checkpoint), utterances), deepcopy(utterances)
    rest = [list(prompt.trailing) for prompt, _ in utterances]
    spoken = [Generated() for _ in utterances]
    for stream, (prompt, sampling) in enumerate(utterances):
        prompt.trailing[:] = []
        talker.admit(stream, prompt, sampling, text_open=True)
    while any(rest) or talker.runnable(frozenset()):
        if not talker.runnable(frozenset()):
            for stream, ids in enumerate(rest):
                if ids:
                    talker.append_text(stream, [ids.pop(0)], last=not ids)
        for output in outputs(talker.step(frozenset())):
            if output.codes is not None:
                spoken[output.stream].frames.append(output.codes)
            spoken[output.stream].finish = output.finish
    assert_agree(spoken, native, whole, checkpoint)


def test_an_utterance_ends_when_its_context_is_full(vllm_talker, opened):
    checkpoint = opened("0b6-custom_voice")
    talker = vllm_talker(checkpoint, context=64, slots=2)
    sampling = SamplingParams(seed=1, temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1)
    prompt, resolved = prepare(SpeechRequest("one two three", speaker="ryan", sampling=sampling), checkpoint)
    [spoken] = speak(talker, [(prompt, resolved)])
    assert spoken.finish is FinishReason.LENGTH
    assert len(spoken.codes) + len(prompt.text) == 64


def voices(checkpoint):
    """Two voices that differ only in their codes, and a third with another embedding."""
    generator = np.random.default_rng(0)
    width, books = checkpoint.model.speaker_encoder.width, checkpoint.codec.decoder.codebook_size
    embedding = generator.standard_normal(width, dtype=np.float32)
    codes = generator.integers(0, books, (60, 16))
    other = np.concatenate((codes[:-1], (codes[-1:] + 1) % books))
    words = " ".join(["one two three"] * 11)
    return [
        Voice(embedding, codes, words),
        Voice(embedding, other, words),
        Voice(generator.standard_normal(width, dtype=np.float32), codes, words),
    ]


def test_shared_prefixes_are_computed_once(vllm_talker, opened, rows_read):
    checkpoint = opened("1b7-base")
    talker = vllm_talker(checkpoint)
    first, recoded, other = voices(checkpoint)

    def prepared(text, voice, seed):
        sampling = SamplingParams(seed=seed, max_new_tokens=6)
        return prepare(SpeechRequest(text, voice=voice, text_layout="streaming", sampling=sampling), checkpoint)

    utterances = [
        prepared("Hello world.", first, 1),
        prepared("Hello world.", first, 2),
        prepared("Quick brown fox.", first, 3),
        prepared("Hello world.", recoded, 4),
        prepared("Hello world.", other, 5),
        prepared("Hello world.", Voice(first.embedding), 6),
    ]
    native = speak(native_talker(checkpoint), utterances)
    assert_agree([speak(talker, [utterance])[0] for utterance in utterances], native, utterances, checkpoint)
    cached_rows = [len(prompt.text) - read for (prompt, _), read in zip(utterances, rows_read.values(), strict=True)]
    assert cached_rows == [0, 64, 32 if DEVICE.type == "cpu" else 48, 0, 0, 0]  # complete blocks of 68 and of 51 rows


def test_with_caching_disabled_nothing_is_shared(vllm_talker, opened, rows_read):
    checkpoint = opened("1b7-base")
    talker = vllm_talker(checkpoint, prefix_caching=False)
    request = SpeechRequest("Hello world.", voice=voices(checkpoint)[0], sampling=SamplingParams(max_new_tokens=3))
    utterance = prepare(request, checkpoint)
    for _ in range(2):
        speak(talker, [utterance])
    assert list(rows_read.values()) == [len(utterance[0].text)] * 2
