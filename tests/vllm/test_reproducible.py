"""With ``reproducible``, a seed gives bit-identical codes in bfloat16, whatever else is running."""

import numpy as np
import pytest
import torch

from benchmarks.lib.fullsize import write_full_size
from engine.checkpoint.folder import open_checkpoint
from engine.config import TalkerConfig, VllmConfig
from engine.errors import SetupError
from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from engine.talker.vllm import core
from engine.talker.vllm.model import BATCHES, FP8
from engine.talker.vllm.talker import load_vllm_talker
from tests.support.talkers import DEVICE, WORDS, prepare, speak

SLOTS = 20
CONFIG = TalkerConfig(slots=SLOTS, context=256, prefill_chunk=44, vllm=VllmConfig(reproducible=True))


def utterances(checkpoint, count):
    """Utterances of different lengths, with speakers and clones; some share a prefix."""
    random = np.random.default_rng(4)
    embedding = random.standard_normal(checkpoint.model.talker.transformer.hidden, dtype=np.float32)
    reference_codes = random.integers(0, 256, (20, 16))
    voices = (Voice(embedding), Voice(embedding, reference_codes, "one two three"))
    prepared = []
    for number in range(count):
        voice_fields = {"voice": voices[number % 3 - 1]} if number % 3 else {"speaker": "ryan"}
        text = " ".join(random.choice(WORDS, random.integers(2, 12)))
        sampling = SamplingParams(seed=number, temperature=0.9, top_k=50, max_new_tokens=int(random.integers(20, 60)))
        prepared.append(prepare(SpeechRequest(text, sampling=sampling, **voice_fields), checkpoint))
    return prepared


def arguments(monkeypatch, checkpoint, capability, dtype, head_dim=128, config=CONFIG):
    """The arguments for vLLM, as if the checkpoint's heads had width ``head_dim``."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    device = torch.device("cuda")
    need = core._cache_need(checkpoint.model.talker, config, device, dtype)
    return core._arguments(need, head_dim, config, device, dtype)


def test_all_steps_and_batches_have_one_size(monkeypatch, opened):
    vllm_arguments = arguments(monkeypatch, opened("1b7-base"), (9, 0), torch.bfloat16)
    assert (
        vllm_arguments["compilation_config"]["cudagraph_capture_sizes"]
        == [64]
        == [vllm_arguments["max_num_batched_tokens"]]
    )
    assert vllm_arguments["additional_config"] == {BATCHES: [SLOTS], FP8: False}


@pytest.mark.parametrize(
    ("head_dim", "capability", "dtype"),
    [(128, (9, 0), torch.float32), (128, (12, 0), torch.bfloat16), (64, (9, 0), torch.bfloat16)],
)
def test_refuses_if_prefill_steps_cannot_use_graphs(monkeypatch, opened, head_dim, capability, dtype):
    with pytest.raises(SetupError, match=f"reproducible needs.*{head_dim}"):
        arguments(monkeypatch, opened("1b7-base"), capability, dtype, head_dim)


def test_refuses_fp8_with_more_slots_than_the_persistent_kernel_supports(monkeypatch, opened):
    config = CONFIG.model_copy(update={"vllm": VllmConfig(reproducible=True, fp8_predictor=True)})
    with pytest.raises(SetupError, match=rf"all {SLOTS} slots, but talker\.vllm\.fp8_predictor supports at most 16"):
        arguments(monkeypatch, opened("1b7-base"), (9, 0), torch.bfloat16, config=config)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU of compute capability 9.0")
@pytest.mark.parametrize("cache_positions", [None, 400])
def test_codes_are_the_same_alone_and_in_any_batch(tmp_path, cache_positions):
    """cache_positions: space for one and a half utterances, so that some wait."""
    write_full_size(tmp_path, kind="both")
    checkpoint = open_checkpoint(str(tmp_path))
    config = CONFIG.model_copy(update={"vllm": VllmConfig(reproducible=True, cache_positions=cache_positions)})
    talker = load_vllm_talker(checkpoint, config, DEVICE, torch.bfloat16)
    try:
        count = 2 * SLOTS
        alone = [speak(talker, [each])[0].codes for each in utterances(checkpoint, count)]
        assert len({len(codes) for codes in alone}) > 5
        for batch in (range(SLOTS), range(SLOTS, count), range(0, count, 2), (3, 17, 30)):
            some = utterances(checkpoint, count)
            joins = {number: (7 * number) % 31 for number in range(len(batch))}
            outputs = speak(talker, [some[number] for number in batch], joins)
            for number, spoken in zip(batch, outputs, strict=True):
                assert np.array_equal(spoken.codes, alone[number]), number
    finally:
        talker.close()
