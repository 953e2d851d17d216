"""The teacher accepts codes that the talker generated for a request, and rejects others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.mixed.teacher import Teacher
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from tests.support.random_checkpoint import RandomCheckpoints
from tests.support.talkers import native_talker, prepare, speak

TEXT = "The quick brown fox jumps over the lazy dog."
ROUNDING = 1e-4


@pytest.fixture(scope="module")
def checkpoint(checkpoints: RandomCheckpoints) -> Checkpoint:
    return open_checkpoint(str(checkpoints["pocket"]))


def requests(checkpoint: Checkpoint) -> list[SpeechRequest]:
    random = np.random.default_rng(3)
    embedding = random.normal(size=checkpoint.model.talker.transformer.hidden).astype(np.float32)
    reference_codes = random.integers(0, 256, (20, 16))
    sampling = SamplingParams(seed=5, max_new_tokens=24, top_k=50, temperature=0.9)
    return [
        SpeechRequest(TEXT, speaker="ryan", sampling=sampling),
        SpeechRequest(TEXT, speaker="ryan", text_layout="streaming", sampling=replace(sampling, top_p=0.9)),
        SpeechRequest(TEXT, voice=Voice(embedding), sampling=replace(sampling, repetition_penalty=1.5)),
        SpeechRequest(
            TEXT, voice=Voice(embedding, reference_codes, "Hello world."), sampling=replace(sampling, seed=6)
        ),
    ]


def generate(request: SpeechRequest, checkpoint: Checkpoint) -> np.ndarray:
    [generated] = speak(native_talker(checkpoint), [prepare(request, checkpoint)])
    return generated.codes.astype(np.int16)


def test_generated_codes_slip_only_by_rounding(checkpoint: Checkpoint) -> None:
    teacher = Teacher(checkpoint, torch.device("cpu"), positions=256)
    for request in requests(checkpoint):
        codes = generate(request, checkpoint)
        slips, first_slips = teacher.slips(request, [codes, codes[:5]])
        assert len(codes) > 5
        assert slips.shape == codes.shape
        assert slips.max() < ROUNDING
        assert np.allclose(first_slips, slips[:5], atol=ROUNDING)


def test_live_text_is_checked_with_the_complete_text(checkpoint: Checkpoint) -> None:
    request = replace(requests(checkpoint)[1], live=True, text_layout=None)
    codes = generate(replace(request, live=False, text_layout="streaming"), checkpoint)
    assert Teacher(checkpoint, torch.device("cpu"), positions=256).slips(request, [codes])[0].max() < ROUNDING


def test_codes_of_another_request_have_large_slips(checkpoint: Checkpoint) -> None:
    teacher = Teacher(checkpoint, torch.device("cpu"), positions=256)
    first, *others = requests(checkpoint)
    for other in others:
        [slips] = teacher.slips(first, [generate(other, checkpoint)])
        assert ((slips > 0.05).sum(1) >= 4).any()


def test_one_wrong_frame_is_found(checkpoint: Checkpoint) -> None:
    [request, *_] = requests(checkpoint)
    codes = generate(request, checkpoint)
    codes[7] = codes[3]
    [slips] = Teacher(checkpoint, torch.device("cpu"), positions=256).slips(request, [codes])
    assert slips[:7].max() < ROUNDING
    assert (slips[7] > 0.05).sum() >= 4
