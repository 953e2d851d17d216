"""The fused norm and rotary embedding of the talker match plain torch."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("vllm")
HEADS, KV_HEADS, DIM, ROWS = 16, 8, 128, 40


def rotated(heads, cos, sin):
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def test_queries_and_keys_are_normalized_and_rotated():
    from engine.talker.vllm.model import attend

    torch.manual_seed(0)
    qkv = torch.randn(ROWS, (HEADS + 2 * KV_HEADS) * DIM, device="cuda").bfloat16()
    gains = [(1 + 0.1 * torch.randn(DIM, device="cuda")).bfloat16() for _ in range(2)]
    angles = torch.outer(torch.arange(512.0), 1e6 ** (-torch.arange(0, DIM, 2) / DIM)).cuda()
    cache = torch.cat((angles.cos(), angles.sin()), -1).bfloat16()
    positions = torch.randint(512, (ROWS,), device="cuda")
    attention = SimpleNamespace(
        qkv_proj=lambda rows: (rows.clone(), None),
        o_proj=lambda rows: (rows, None),
        attn=lambda *parts: torch.cat(parts, -1),
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=DIM,
        q_size=HEADS * DIM,
        kv_size=KV_HEADS * DIM,
        q_norm=SimpleNamespace(variance_epsilon=1e-6, weight=gains[0]),
        k_norm=SimpleNamespace(weight=gains[1]),
        rotary_emb=SimpleNamespace(cos_sin_cache=cache, is_neox_style=True),
    )
    result = attend(attention, positions, qkv).float()
    cos, sin = cache[positions].float()[:, None].chunk(2, -1)
    expected = qkv.float().view(ROWS, -1, DIM)
    for part, gain in ((slice(0, HEADS), gains[0]), (slice(HEADS, HEADS + KV_HEADS), gains[1])):
        expected[:, part] = rotated(F.rms_norm(expected[:, part], (DIM,), gain.float(), 1e-6), cos, sin)
    torch.testing.assert_close(result, expected.flatten(1), rtol=1e-2, atol=1e-2)
