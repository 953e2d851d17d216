"""The step loop on a GPU: the code around vLLM's layers never synchronizes with the device."""

import importlib
from collections import Counter

import numpy as np
import pytest
import torch

from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from engine.talker.gpu_step.graphs import PaddedGraphs
from engine.talker.gpu_step.inputs import StepInputs
from tests.support.talkers import DEVICE, WORDS, prepare, speak

pytestmark = pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU")
SMALL_CACHE = {"context": 128, "slots": 4, "cache_positions": 192}
"""Space for one and a half utterances, so that some wait."""


@pytest.fixture
def forbid_sync(monkeypatch):
    """Function: make a method fail if it synchronizes with the GPU. Returns the number of calls by name."""
    calls = Counter()

    def forbid(owner, name):
        plain = getattr(owner, name)

        def without_sync(*args, **kwargs):
            calls[name] += 1
            torch.cuda.set_sync_debug_mode("error")
            try:
                return plain(*args, **kwargs)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        monkeypatch.setattr(owner, name, without_sync)
        return calls

    return forbid


def utterances(checkpoint):
    """Clones with and without codes, greedy and sampled, of different lengths."""
    random = np.random.default_rng(5)
    embedding = random.standard_normal(checkpoint.model.speaker_encoder.width, dtype=np.float32)
    in_context = Voice(embedding, random.integers(0, 256, (20, 16)), "one two three")
    for seed in range(8):
        sampling = SamplingParams(seed=seed, temperature=(0.9, 0.0, 1.2)[seed % 3], max_new_tokens=60)
        text = " ".join(random.choice(WORDS, 3 + 2 * seed))
        yield prepare(
            SpeechRequest(text, voice=(in_context, Voice(embedding))[seed % 2], sampling=sampling), checkpoint
        )


def test_the_fixture_detects_a_synchronization(forbid_sync):
    number = torch.ones(1, device=DEVICE)

    class Synchronizing:
        def read(self):
            return number.item()

    forbid_sync(Synchronizing, "read")
    with pytest.raises(RuntimeError, match="synchroniz"):
        Synchronizing().read()
    assert number.item() == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_inputs_sampling_and_codes_do_not_synchronize_with_the_gpu(forbid_sync, vllm_talker, opened, dtype):
    checkpoint = opened("0b6-base")
    talker = vllm_talker(checkpoint, dtype=dtype, **SMALL_CACHE)
    runner = importlib.import_module("engine.talker.vllm.step_runner").StepRunner
    for owner, name in ((runner, "_prepare"), (runner, "_fill"), (StepInputs, "start_joined")):
        forbid_sync(owner, name)
    forbid_sync(PaddedGraphs, "__call__")
    calls = forbid_sync(runner, "_read")
    prepared = list(utterances(checkpoint))
    spoken = speak(talker, prepared, joins={number: 5 * number for number in range(len(prepared))})
    assert all(each.finish for each in spoken)
    assert min(calls[name] for name in ("_prepare", "start_joined", "__call__", "_read")) > len(prepared)
    row_layers = talker._core._steps.own_layers.rows
    assert (calls["_fill"] == 0) == (row_layers is not None), "vLLM's layers run the steps without row layers"
