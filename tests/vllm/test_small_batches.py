"""On a GPU, steps of small batches give the hidden states that vLLM's own layers give, from the same KV cache."""

import pytest
import torch

from benchmarks.gpu.step import Utterances
from benchmarks.lib.fullsize import write_full_size
from engine.checkpoint.folder import open_checkpoint
from engine.talker.fused.layers import MAX_ROWS
from engine.talker.vllm.small_batches import SmallBatches
from engine.talker.vllm.step_runner import StepRunner
from tests.support.code_predictors import relative
from tests.support.talkers import DEVICE

CONTEXT = 1024
LONG_FRAMES, SHORT_FRAMES = 620, 120
"""The long utterances have more positions than one split of the kernel's attention."""
MAX_ERROR = 3e-2
"""Most relative distance of the states of a step; vLLM rounds residuals to bfloat16."""
pytestmark = pytest.mark.skipif(
    DEVICE.type != "cuda" or torch.cuda.get_device_capability() != (9, 0), reason="needs an H100 or H200"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    write_full_size(folder, "0.6b", "custom_voice")
    return open_checkpoint(str(folder))


def test_states_agree_with_those_of_vllm(checkpoint, vllm_talker, monkeypatch):
    talker = vllm_talker(checkpoint, context=CONTEXT, slots=24, dtype=torch.bfloat16)
    steps, sample, errors, sizes = talker._core._steps, StepRunner._sample, {}, []
    small_batches, run = steps.small_batches, SmallBatches.__call__
    assert small_batches is not None
    assert small_batches.max_rows == MAX_ROWS
    monkeypatch.setattr(SmallBatches, "__call__", lambda self, size: sizes.append(size) or run(self, size))

    def compare_and_sample(self, batch, hidden, sample_rows, sample_slots):
        if int(batch.counts.max()) == 1:
            mine = hidden[: len(batch.slots)].clone()
            self.small_batches = None
            monkeypatch.setattr(StepRunner, "_sample", lambda self, batch, hidden, *_: hidden.clone())
            others = self.launch(batch)[: len(batch.slots)]
            monkeypatch.setattr(StepRunner, "_sample", compare_and_sample)
            self.small_batches = small_batches
            errors.setdefault(len(batch.slots), []).append(relative(mine, others))
        return sample(self, batch, hidden, sample_rows, sample_slots)

    monkeypatch.setattr(StepRunner, "_sample", compare_and_sample)
    utterances = Utterances(talker, checkpoint)
    utterances.admit(2, LONG_FRAMES)
    for _ in range(20):
        utterances.step()
    utterances.admit(11, SHORT_FRAMES)
    utterances.finish()
    assert {2, 13} <= set(errors)
    assert len(errors[2]) > LONG_FRAMES / 2
    assert max(max(each) for each in errors.values()) < MAX_ERROR
    compared = sum(len(each) for each in errors.values())
    assert compared - 13 <= len(sizes) < compared, "steps after one with first codes are vLLM's"


def test_reproducible_steps_are_vllms(checkpoint, vllm_talker):
    talker = vllm_talker(checkpoint, context=CONTEXT, slots=4, dtype=torch.bfloat16, reproducible=True)
    assert talker._core._steps.small_batches is None
