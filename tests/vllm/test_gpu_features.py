"""Which features of vLLM are used on which GPU, depending on its capability and on a trial call."""

import logging
from types import SimpleNamespace

import pytest
import torch
from vllm import _custom_ops

from engine.talker.vllm.core import _graph_mode
from engine.talker.vllm.model import fuse

HEADS, KV_HEADS, WIDTH = 4, 2, 64


class Attention:
    """Sizes and parameters of vLLM's Qwen3Attention, with a forward method in place of vLLM's."""

    num_heads, num_kv_heads, head_dim = HEADS, KV_HEADS, WIDTH
    q_size, kv_size = HEADS * WIDTH, KV_HEADS * WIDTH
    q_norm = k_norm = SimpleNamespace(weight=torch.ones(WIDTH, dtype=torch.bfloat16), variance_epsilon=1e-6)
    rotary_emb = SimpleNamespace(cos_sin_cache=torch.ones(8, WIDTH), is_neox_style=True)

    def forward(self):
        """Replaces vLLM's forward."""


@pytest.fixture
def layers(monkeypatch):
    """Layers of a model on a GPU whose vLLM has the operator."""
    monkeypatch.setattr(torch.ops._C, "fused_qk_norm_rope", object(), raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return [SimpleNamespace(self_attn=Attention()) for _ in range(2)]


def uses_original_forward(layers):
    return [layer.self_attn.forward.__func__ is Attention.forward for layer in layers]


def test_heads_are_normalized_and_rotated_by_the_operator_after_a_trial_call(layers, monkeypatch):
    trial_calls = []
    monkeypatch.setattr(_custom_ops, "fused_qk_norm_rope", lambda qkv, *rest: trial_calls.append((qkv.shape, rest[-1])))
    fuse(layers, torch.bfloat16)
    assert uses_original_forward(layers) == [False, False]
    ((shape, positions),) = trial_calls
    assert shape == (len(positions), (HEADS + 2 * KV_HEADS) * WIDTH)


def test_an_operator_with_another_signature_falls_back_to_the_forward_of_vllm(layers, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(_custom_ops, "fused_qk_norm_rope", lambda qkv: None)
    fuse(layers, torch.bfloat16)
    assert uses_original_forward(layers) == [True, True]
    assert "operator is not used: TypeError" in caplog.text


@pytest.mark.parametrize(
    ("capability", "dtype", "head_dim", "mode"),
    [
        ((9, 0), torch.bfloat16, 128, "FULL"),
        ((9, 0), torch.bfloat16, 64, "FULL_DECODE_ONLY"),
        ((9, 0), torch.float32, 128, "FULL_DECODE_ONLY"),
        ((8, 0), torch.bfloat16, 128, "FULL_DECODE_ONLY"),
        ((12, 0), torch.bfloat16, 128, "FULL_DECODE_ONLY"),
    ],
)
def test_prefill_steps_use_full_graphs_only_with_flash_attention_3_and_one_plan(
    monkeypatch, capability, dtype, head_dim, mode
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert _graph_mode(torch.device("cuda"), dtype, head_dim) == mode
    assert _graph_mode(torch.device("cpu"), dtype, head_dim) == "NONE"
