"""Steps without vLLM's layers give the codes of the native talker, and on a GPU the hidden states of vLLM's layers."""

import pytest
import torch

from benchmarks.gpu.step import Utterances
from benchmarks.lib.fullsize import write_full_size
from engine.checkpoint.folder import open_checkpoint
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.fused.layers import MAX_POSITIONS, MAX_ROWS, LayerWeights
from engine.talker.fused.row_layers import RowLayers
from engine.talker.fused.weights import rope
from engine.talker.vllm.layer_graphs import OwnLayers, layer_graphs
from engine.talker.vllm.step_runner import StepRunner
from tests.support.code_predictors import relative
from tests.support.talkers import DEVICE, WORDS, native_talker, prepare, speak, various_requests
from tests.vllm.agreement import assert_agree

CONTEXT = 1280
LONG_FRAMES, SHORT_FRAMES = 1200, 120
"""The long utterances have more positions than one split of the attention for few rows, and later too many for
``RowLayers``."""
MAX_ERROR = 3e-2
"""Most relative distance of the states of a step; vLLM rounds residuals to bfloat16."""
REQUESTS = 6
on_hopper = pytest.mark.skipif(
    DEVICE.type != "cuda" or torch.cuda.get_device_capability() != (9, 0), reason="needs an H100 or H200"
)


def layers_of(checkpoint, positions, pages, page):
    """``RowLayers`` of a checkpoint in float32, with a cache of its own."""
    shape, tensors = checkpoint.model.talker.transformer, checkpoint.tensors("talker.")

    def weights(layer, *names):
        found = [tensors[f"model.layers.{layer}.{name}.weight"].to(DEVICE, torch.float32) for name in names]
        return torch.cat(found)

    def norms(name):
        return torch.stack([weights(layer, name) for layer in range(shape.layers)])

    qkv = [f"self_attn.{name}_proj" for name in "qkv"]
    cos, sin = rope(shape, positions, DEVICE)
    matrices = [
        (
            weights(layer, *qkv),
            weights(layer, "self_attn.o_proj"),
            weights(layer, "mlp.gate_proj", "mlp.up_proj"),
            weights(layer, "mlp.down_proj"),
        )
        for layer in range(shape.layers)
    ]
    final = tensors["model.norm.weight"].to(DEVICE, torch.float32)
    gains = map(norms, ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"))
    layer_weights = LayerWeights(shape, matrices, *gains, final, cos, sin)
    cache = torch.zeros(shape.layers, 2, pages, page, shape.kv_heads, shape.head_dim, device=DEVICE)
    return RowLayers(layer_weights, [layer.unbind() for layer in cache])


def test_prompts_and_frames_have_the_codes_of_the_native_talker(opened, vllm_talker, monkeypatch):
    """Utterances join and leave, prompts are read in pieces and mixed with frames. vLLM's layers never run."""
    checkpoint = opened("1b7-custom_voice")
    talker = vllm_talker(checkpoint, context=128, slots=4)
    steps, runner = talker._core._steps, talker._core.model_runner
    layers = layers_of(checkpoint, 129, runner.kv_cache_config.num_blocks, talker._core.scheduler.block_size)
    steps.own_layers = OwnLayers(
        short_prompts=layer_graphs(runner, layers, steps.device_table, (8, 24)),
        rows=layer_graphs(runner, layers, steps.device_table, (1, 2, 4, 8, 16, 32)),
    )
    monkeypatch.setattr(steps, "_run_vllm", None)
    utterances = [prepare(request, checkpoint) for request in various_requests(checkpoint, REQUESTS)]
    spoken = speak(talker, utterances, joins={number: 7 * number for number in range(REQUESTS)})
    native = speak(native_talker(checkpoint, slots=REQUESTS), utterances)
    assert_agree(spoken, native, utterances, checkpoint)


def test_a_prompt_of_which_one_row_is_not_cached_has_its_codes(opened, vllm_talker, monkeypatch):
    """Its step has one row, like one of an utterance that decodes."""
    checkpoint = opened("1b7-custom_voice")
    talker = vllm_talker(checkpoint, context=128, slots=4)
    steps, runner, block = talker._core._steps, talker._core.model_runner, talker._core.scheduler.block_size
    layers = layers_of(checkpoint, 129, runner.kv_cache_config.num_blocks, block)
    steps.own_layers = OwnLayers(
        one_launch=layer_graphs(runner, layers, steps.device_table, (1, 4), prompts=False),
        rows=layer_graphs(runner, layers, steps.device_table, (1, 2, 4, 8, 16, 32, 64)),
    )
    monkeypatch.setattr(steps, "_run_vllm", None)
    monkeypatch.setattr(StepRunner, "_first_codes", property(lambda _: False, lambda _, value: None), raising=False)
    sampling = SamplingParams(seed=1, max_new_tokens=6)
    requests = (
        SpeechRequest(" ".join((4 * WORDS)[:words]), speaker="ryan", text_layout="full", sampling=sampling)
        for words in range(1, 4 * len(WORDS))
    )
    utterance = next(
        each for each in (prepare(request, checkpoint) for request in requests) if len(each[0].text) % block == 1
    )
    native = speak(native_talker(checkpoint), [utterance])
    for _ in range(2):
        assert_agree(speak(talker, [utterance]), native, [utterance], checkpoint)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    write_full_size(folder, "0.6b", "custom_voice")
    return open_checkpoint(str(folder))


@on_hopper
def test_states_agree_with_those_of_vllm(checkpoint, vllm_talker, monkeypatch):
    talker = vllm_talker(checkpoint, context=CONTEXT, slots=24, dtype=torch.bfloat16)
    steps, sample, choose = talker._core._steps, StepRunner._sample, StepRunner._own_graphs
    states = talker._core.model_runner.model_state.hidden
    own_layers, errors, chosen, vllm_runs = steps.own_layers, {}, [], set()
    assert own_layers.one_launch.max_rows == MAX_ROWS
    kinds = dict(zip(own_layers, ("one launch", "short prompts", "rows"), strict=True))

    def choose_and_note(self, batch):
        chosen.append(choose(self, batch))
        return chosen[-1]

    def compare_and_sample(self, batch):
        graphs, rows = chosen.pop(), int(batch.bounds[-1])
        if graphs is not None:
            mine = states[:rows].clone()
            self.own_layers, first_codes = OwnLayers(), self._first_codes
            monkeypatch.setattr(StepRunner, "_sample", lambda self, batch: chosen.pop())
            self.launch(batch)
            monkeypatch.setattr(StepRunner, "_sample", compare_and_sample)
            self.own_layers, self._first_codes, others = own_layers, first_codes, states[:rows].clone()
            states[:rows] = mine
            kind = kinds[graphs]
            errors.setdefault((kind, int(batch.counts.max()) > 1, len(batch.slots)), []).append(relative(mine, others))
        short = int((batch.starts + batch.counts).max()) <= MAX_POSITIONS
        if graphs is None:
            vllm_runs.add((short, rows <= MAX_ROWS))
        return sample(self, batch)

    monkeypatch.setattr(StepRunner, "_own_graphs", choose_and_note)
    monkeypatch.setattr(StepRunner, "_sample", compare_and_sample)
    utterances = Utterances(talker, checkpoint)
    utterances.admit(2, LONG_FRAMES)
    for _ in range(20):
        utterances.step()
    utterances.admit(11, SHORT_FRAMES)
    for _ in range(60):
        utterances.step()
    utterances.admit(9, SHORT_FRAMES)
    for _ in range(MAX_POSITIONS):
        utterances.step()
    utterances.admit(20, SHORT_FRAMES)
    utterances.finish()
    assert {("one launch", False, 2), ("one launch", False, 13), ("rows", False, 22)} <= set(errors)
    assert len(errors["one launch", False, 2]) > LONG_FRAMES / 2
    assert any(kind == "rows" and prompts for kind, prompts, _ in errors), "steps with prompts"
    assert any(kind == "short prompts" and prompts for kind, prompts, _ in errors), "few short prompts"
    assert (True, True) in vllm_runs, "few rows after first codes"
    assert (False, False) in vllm_runs, "many rows, of which one has a long context"
    assert (True, False) not in vllm_runs, "many rows with short contexts"
    assert max(max(each) for each in errors.values()) < MAX_ERROR


@on_hopper
def test_reproducible_steps_are_vllms(checkpoint, vllm_talker):
    talker = vllm_talker(checkpoint, context=CONTEXT, slots=4, dtype=torch.bfloat16, reproducible=True)
    assert talker._core._steps.own_layers == OwnLayers()
