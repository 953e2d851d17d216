"""The fp8 code predictor with vLLM: the codes of the rounded weights, or an error at startup."""

import numpy as np
import pytest
import torch

from benchmarks.gpu.fp8_checkpoint import write_fp8_checkpoint
from benchmarks.lib.fullsize import write_full_size
from engine.checkpoint.folder import open_checkpoint
from engine.config import TalkerConfig, VllmConfig
from engine.errors import SetupError
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.fused import dispatch
from engine.talker.vllm.talker import load_vllm_talker
from tests.support.talkers import DEVICE, WORDS, prepare, speak

SLOTS = 16


def config(*, fp8, reproducible=False):
    on_vllm = VllmConfig(fp8_predictor=fp8, reproducible=reproducible)
    return TalkerConfig(slots=SLOTS, context=256, prefill_chunk=44, vllm=on_vllm)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="there is a GPU")
def test_without_a_gpu_the_talker_does_not_load(opened):
    with pytest.raises(SetupError, match="fp8_predictor is not possible: there is no GPU"):
        load_vllm_talker(opened("1b7-base"), config(fp8=True), DEVICE, torch.float32)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU of compute capability 9.0")
def test_codes_equal_those_of_the_rounded_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "batched_codes", dispatch.persistent_codes)  # sums in the same order as with fp8
    write_full_size(tmp_path / "original")
    write_fp8_checkpoint(tmp_path / "original", tmp_path / "rounded")
    codes_by_variant = []
    for name, fp8 in (("original", False), ("rounded", False), ("original", True)):
        checkpoint = open_checkpoint(str(tmp_path / name))
        talker = load_vllm_talker(checkpoint, config(fp8=fp8, reproducible=True), DEVICE, torch.bfloat16)
        try:
            spoken = speak(talker, [_utterance(checkpoint, number) for number in range(SLOTS)])
            codes_by_variant.append([each.codes for each in spoken])
        finally:
            talker.close()
    for original, rounded, fp8_codes in zip(*codes_by_variant, strict=True):
        assert len(fp8_codes) > 5
        assert np.array_equal(fp8_codes, rounded)
        assert not np.array_equal(fp8_codes, original)


def _utterance(checkpoint, number):
    text = " ".join(WORDS[: 3 + number % 5])
    sampling = SamplingParams(seed=number, temperature=0.9, top_k=50, max_new_tokens=20 + number)
    return prepare(SpeechRequest(text, speaker="ryan", sampling=sampling), checkpoint)
