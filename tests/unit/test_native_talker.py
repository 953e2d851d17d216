"""Continuous batching: the output of a request does not depend on concurrent requests."""

import random

import numpy as np
import pytest

from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest, Voice
from tests.support.talkers import assert_same, bit_for_bit, native_talker, outputs, prepare, speak, various_requests

REQUESTS = 32


@pytest.fixture(scope="module")
def talker(opened):
    return native_talker(opened["1b7-custom_voice"], slots=REQUESTS, prefill_chunk=16)


@pytest.fixture(scope="module")
def utterances(opened):
    checkpoint = opened["1b7-custom_voice"]
    return [prepare(request, checkpoint) for request in various_requests(checkpoint, REQUESTS)]


@pytest.fixture(scope="module")
def solo(talker, utterances):
    return [speak(talker, [utterance])[0] for utterance in utterances]


@bit_for_bit
def test_concurrent_requests_equal_single_ones(talker, utterances, solo):
    assert_same(speak(talker, utterances), solo)


@bit_for_bit
def test_requests_that_join_and_leave_equal_single_ones(talker, utterances, solo):
    generator = random.Random(3)
    joins = {number: generator.randint(0, 60) for number in range(REQUESTS)}
    assert_same(speak(talker, utterances, joins), solo)


@bit_for_bit
def test_cancelling_a_third_does_not_change_the_others(talker, utterances, solo):
    generator = random.Random(5)
    cancels = {number: generator.randint(1, 20) for number in range(0, REQUESTS, 3)}
    assert_same(speak(talker, utterances, cancels=cancels), solo, except_for=cancels)
    assert talker.free_slots == REQUESTS


@bit_for_bit
def test_more_requests_than_slots_are_queued(opened, utterances, solo):
    assert_same(speak(native_talker(opened["1b7-custom_voice"], slots=3, prefill_chunk=16), utterances), solo)


def test_a_blocked_stream_resumes_without_a_gap(talker, utterances, solo):
    number = max(range(REQUESTS), key=lambda each: len(solo[each].codes))
    talker.admit(number, *utterances[number])
    codes = []
    while talker.runnable(()):
        codes += list(talker.step(()).codes)
        if codes:
            assert not talker.runnable({number})
            assert not outputs(talker.step({number}))
    assert np.array_equal(np.array(codes), solo[number].codes)


def test_the_seed_determines_the_codes(talker, opened):
    checkpoint = opened["1b7-custom_voice"]

    def codes(seed):
        request = SpeechRequest("Hello world", speaker="ryan", sampling=SamplingParams(seed=seed, max_new_tokens=20))
        return speak(talker, [prepare(request, checkpoint)])[0].codes

    assert np.array_equal(codes(11), codes(11))
    assert not np.array_equal(codes(11), codes(12))
    assert not np.array_equal(codes(None), codes(None))


def test_live_text_gives_the_codes_of_the_complete_text(talker, opened):
    checkpoint = opened["1b7-custom_voice"]
    sampling = SamplingParams(seed=4, max_new_tokens=60)
    request = SpeechRequest(
        "Hello world, this is a test of the speech server.",
        speaker="vivian",
        text_layout="streaming",
        sampling=sampling,
    )
    prompt, resolved = prepare(request, checkpoint)
    [whole] = speak(talker, [(prompt, resolved)])
    rest, prompt.trailing[:] = list(prompt.trailing), []
    talker.admit(0, prompt, resolved, text_open=True)
    codes = []
    while rest or talker.runnable(()):
        if rest and not talker.runnable(()):
            token = rest.pop(0)
            talker.append_text(0, [token], last=not rest)
        codes += list(talker.step(()).codes)
    assert np.array_equal(np.array(codes), whole.codes)


def test_an_utterance_ends_when_its_context_is_full(opened):
    checkpoint = opened["0b6-custom_voice"]
    talker = native_talker(checkpoint, slots=1, context=128)
    sampling = SamplingParams(seed=1, temperature=0.0, subtalker_temperature=0.0, repetition_penalty=0.1)
    prompt, resolved = prepare(SpeechRequest("one two three", speaker="ryan", sampling=sampling), checkpoint)
    [spoken] = speak(talker, [(prompt, resolved)])
    assert spoken.finish is FinishReason.LENGTH
    assert len(spoken.codes) + len(prompt.text) == talker.context


def test_a_long_prompt_is_prefilled_in_steps_and_can_be_cancelled_between_them(talker, opened):
    request = SpeechRequest("one two three four " * 60, speaker="ryan", text_layout="full")
    talker.admit(0, *prepare(request, opened["1b7-custom_voice"]))
    assert [outputs(talker.step(())) for _ in range(3)] == [[], [], []]
    talker.cancel(0)
    assert talker.free_slots == REQUESTS
    assert not talker.runnable(())


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_max_new_tokens_includes_the_token_without_a_frame(tokens, talker, opened):
    sampling = SamplingParams(seed=3, max_new_tokens=tokens)
    request = SpeechRequest("Hello world", speaker="ryan", sampling=sampling)
    [spoken] = speak(talker, [prepare(request, opened["1b7-custom_voice"])])
    assert len(spoken.codes) == tokens - 1
    assert spoken.finish is FinishReason.LENGTH


@bit_for_bit
def test_in_context_clones_and_embedding_clones_share_a_batch(opened):
    checkpoint = opened["1b7-base"]
    generator = np.random.default_rng(0)
    width = checkpoint.model.speaker_encoder.width
    embedding = generator.standard_normal(width, dtype=np.float32)
    codes = generator.integers(0, checkpoint.codec.decoder.codebook_size, (30, 16))
    voices = [Voice(embedding), Voice(embedding, codes, "one two three")]
    utterances = [
        prepare(
            SpeechRequest("Hello world.", voice=voice, sampling=SamplingParams(seed=seed, max_new_tokens=25)),
            checkpoint,
        )
        for seed, voice in enumerate(voices * 3)
    ]
    talker = native_talker(checkpoint)
    assert_same(speak(talker, utterances), [speak(talker, [utterance])[0] for utterance in utterances])


@bit_for_bit
def test_weights_beyond_half_precision_give_the_same_codes_in_any_batch(opened, monkeypatch):
    checkpoint = opened["0b6-custom_voice"]
    read = type(checkpoint).tensors

    def perturbed_tensors(self, prefix):
        return {
            name: tensor.float() * (1 + 1e-4) if tensor.dim() == 2 else tensor
            for name, tensor in read(self, prefix).items()
        }

    monkeypatch.setattr(type(checkpoint), "tensors", perturbed_tensors)
    talker = native_talker(checkpoint)
    utterances = [prepare(request, checkpoint) for request in various_requests(checkpoint, 6)]
    assert_same(speak(talker, utterances), [speak(talker, [utterance])[0] for utterance in utterances])
