"""The step loop on a GPU: what a step makes around vLLM's layers never waits for the device."""

from collections import Counter

import numpy as np
import pytest
import torch

from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from engine.talker.vllm.state import TalkerSampler, TalkerState
from tests.support.talkers import DEVICE, WORDS, prepare, speak

pytestmark = pytest.mark.skipif(DEVICE.type == "cpu", reason="there is no device to wait for")
CROWD = {"context": 128, "slots": 4, "cache_positions": 192}
"""Room for one utterance and a half, so that some are preempted."""


@pytest.fixture
def guard(monkeypatch):
    """Function: from now on a call of this method fails where it waits for the GPU. Returns calls by name."""
    calls = Counter()

    def guarded(owner, name):
        plain = getattr(owner, name)

        def without_waiting(*args, **kwargs):
            calls[name] += 1
            torch.cuda.set_sync_debug_mode("error")
            try:
                return plain(*args, **kwargs)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        monkeypatch.setattr(owner, name, without_waiting)
        return calls

    return guarded


def utterances(checkpoint):
    """Clones with and without codes, greedy and drawn, of different lengths."""
    random = np.random.default_rng(5)
    embedding = random.standard_normal(checkpoint.model.speaker_encoder.width, dtype=np.float32)
    heard = Voice(embedding, random.integers(0, 256, (20, 16)), "one two three")
    for seed in range(8):
        sampling = SamplingParams(seed=seed, temperature=(0.9, 0.0, 1.2)[seed % 3], max_new_tokens=60)
        text = " ".join(random.choice(WORDS, 3 + 2 * seed))
        yield prepare(SpeechRequest(text, voice=(heard, Voice(embedding))[seed % 2], sampling=sampling), checkpoint)


def test_the_guard_sees_a_wait(guard):
    number = torch.ones(1, device=DEVICE)

    class Waits:
        def read(self):
            return number.item()

    guard(Waits, "read")
    with pytest.raises(RuntimeError, match="synchroniz"):
        Waits().read()
    assert number.item() == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_neither_a_steps_input_rows_nor_its_frames_wait_for_the_gpu(guard, vllm_talker, opened, dtype):
    checkpoint = opened("0b6-base")
    talker = vllm_talker(checkpoint, dtype=dtype, **CROWD)
    guard(TalkerState, "prepare_inputs")
    calls = guard(TalkerSampler, "__call__")
    said = list(utterances(checkpoint))
    spoken = speak(talker, said, joins={number: 5 * number for number in range(len(said))})
    assert all(each.finish for each in spoken)
    assert min(calls["prepare_inputs"], calls["__call__"]) > len(said)
