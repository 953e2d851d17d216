"""The code predictor's weights in the layout that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture, Transformer
from engine.models.talker import CodecSide
from engine.models.weights import Weights


@dataclass(frozen=True, slots=True, eq=False)
class PredictorWeights:
    """Weights of the code predictor: matrices and tables in the compute dtype; norms, bias, cos and sin in float32.

    qkv [layers, (heads + 2 kv_heads) d, hidden]; out [layers, hidden, heads d]; gate_up [layers, 2 inner, hidden];
    down [layers, hidden, inner]; heads [codebooks - 1, vocab, hidden].
    input_norm, post_norm [layers, hidden]; q_norm, k_norm [layers, d]; norm [hidden]; cos, sin [codebooks, d / 2].
    project [hidden, talker hidden] and project_bias [hidden]: None if both hidden sizes are equal.
    inputs [codes of codebooks 0 to 14, hidden]: the embedding tables, concatenated and projected.
    tables [codes of codebooks 0 to 15, talker hidden]: the same, not projected.
    offsets int64 [codebooks]: the first row of each codebook in ``inputs`` and ``tables``.
    """

    shape: Transformer
    vocab: int
    codebooks: int
    talker_hidden: int
    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor
    heads: Tensor
    input_norm: Tensor
    post_norm: Tensor
    q_norm: Tensor
    k_norm: Tensor
    norm: Tensor
    project: Tensor | None
    project_bias: Tensor | None
    inputs: Tensor
    tables: Tensor
    offsets: Tensor
    cos: Tensor
    sin: Tensor

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the matrices."""
        return self.qkv.dtype

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.qkv.device


def gather(weights: Weights, talker: TalkerArchitecture, codec: CodecSide) -> PredictorWeights:
    """Collect the predictor's weights. weights: the checkpoint's tensors under ``talker.code_predictor.``."""
    shape, codebooks = talker.predictor.transformer, talker.codebooks

    def stacked(*names: str) -> Tensor:
        layers = [f"model.layers.{layer}." for layer in range(shape.layers)]
        return torch.stack([torch.cat([weights[f"{layer}{name}.weight"] for name in names]) for layer in layers])

    project = bias = None
    inputs = codec.table[: len(codec.table) - len(codec.tables[-1])]
    if "small_to_mtp_projection.weight" in weights:
        project, bias = weights["small_to_mtp_projection.weight"], weights["small_to_mtp_projection.bias"]
        inputs = F.linear(inputs, project, bias)
    cos, sin = rope(shape, codebooks, weights.device)
    return PredictorWeights(
        shape=shape,
        vocab=talker.predictor.vocab,
        codebooks=codebooks,
        talker_hidden=codec.table.shape[1],
        qkv=stacked("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        out=stacked("self_attn.o_proj"),
        gate_up=stacked("mlp.gate_proj", "mlp.up_proj"),
        down=stacked("mlp.down_proj"),
        heads=torch.stack([weights[f"lm_head.{book}.weight"] for book in range(codebooks - 1)]),
        input_norm=stacked("input_layernorm").float(),
        post_norm=stacked("post_attention_layernorm").float(),
        q_norm=stacked("self_attn.q_norm").float(),
        k_norm=stacked("self_attn.k_norm").float(),
        norm=weights["model.norm.weight"].float(),
        project=project,
        project_bias=None if bias is None else bias.float(),
        inputs=inputs,
        tables=codec.table,
        offsets=codec.offsets,
        cos=cos,
        sin=sin,
    )


def rope(shape: Transformer, positions: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return RoPE's cos and sin, float32 [positions, d / 2]."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.int64).float() / shape.head_dim
    angles = torch.outer(torch.arange(positions).float(), 1.0 / shape.rope_theta**exponents)
    return angles.cos().to(device), angles.sin().to(device)
