"""Reference implementation of the fused code predictor, in plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.talker.fused.weights import PredictorWeights
from engine.talker.gpu_step.sampler import RngKey
from engine.talker.gpu_step.slots import RowDraws, draw


class ReferencePredictor:
    """Samples codebooks 1 to 15 for up to ``rows`` rows, and sums the embeddings of all sixteen codes.

    Inputs of matrix products and cached keys and values are rounded to the weights' dtype; everything else is float32.
    With float32 weights this equals the engine's code predictor. With bfloat16 weights it does what the kernels do, and
    is closer to float32 than rounding after every operation.

    There is one pass per position, 0 to 15. Position 15 gives the sixteenth code; position 0 has no head.
    """

    def __init__(self, weights: PredictorWeights, rows: int) -> None:
        self.weights = weights
        shape = weights.shape
        size = (shape.layers, rows, shape.kv_heads, weights.books, shape.head_dim)
        self._keys = torch.zeros(size, device=weights.device, dtype=weights.dtype)
        self._values = torch.zeros_like(self._keys)

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        """See ``engine.talker.gpu_step.sampler.ResidualCodes``."""
        codes, embedding, _ = self.run(hidden, first, draws, chance)
        return codes, embedding

    def run(
        self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey, forced: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes int64 [rows, books], embedding [rows, talker hidden], logits float32 [rows, books - 1, vocab].

        forced: int64 [rows, books], codes used instead of sampled ones (teacher forcing).
        """
        weights, chances = self.weights, chance.uniforms()
        codes, logits = [first], []
        self._position(self._entrance(hidden), 0)
        for book in range(1, weights.books):
            x = weights.inputs[codes[-1] + weights.offsets[book - 1]].float()
            state = _rms_norm(self._position(x, book), weights.norm, weights.shape.eps)
            scores = self._product(state, weights.heads[book - 1])
            logits.append(scores)
            codes.append(draw(scores, draws, chances[:, book]) if forced is None else forced[:, book])
        frames = torch.stack(codes, 1)
        embedding = weights.tables[frames + weights.offsets].float().sum(1).to(weights.dtype)
        return frames, embedding, torch.stack(logits, 1)

    def _entrance(self, hidden: Tensor) -> Tensor:
        """Project talker states [rows, talker hidden] to the predictor's hidden size, rounded to the weights' dtype."""
        weights = self.weights
        if weights.project is None or weights.project_bias is None:
            return hidden.float()
        projected = self._product(hidden.float(), weights.project) + weights.project_bias
        return projected.to(weights.dtype).float()

    def _position(self, x: Tensor, position: int) -> Tensor:
        """Run x float32 [rows, hidden] of one position through all layers."""
        weights, eps = self.weights, self.weights.shape.eps
        for layer in range(weights.shape.layers):
            qkv = self._product(_rms_norm(x, weights.input_norm[layer], eps), weights.qkv[layer])
            x = x + self._product(self._attention(qkv, layer, position), weights.out[layer])
            gate_up = self._product(_rms_norm(x, weights.post_norm[layer], eps), weights.gate_up[layer])
            gate, up = gate_up.chunk(2, -1)
            x = x + self._product(F.silu(gate) * up, weights.down[layer])
        return x

    def _product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Round x float32 [rows, in] to the weight's dtype, and multiply by weight [out, in] in float32."""
        return F.linear(x.to(weight.dtype).float(), weight.float())

    def _attention(self, qkv: Tensor, layer: int, position: int) -> Tensor:
        """Cache the keys and values of ``position``, and attend to all positions up to it: [rows, heads * d]."""
        weights, shape, rows = self.weights, self.weights.shape, len(qkv)
        parts = (shape.heads, shape.kv_heads, shape.kv_heads)
        query, key, value = qkv.view(rows, -1, shape.head_dim).split(parts, 1)
        query = self._turn(_rms_norm(query, weights.q_norm[layer], shape.eps), position)
        key = self._turn(_rms_norm(key, weights.k_norm[layer], shape.eps), position)
        self._keys[layer, :rows, :, position] = key.to(weights.dtype)
        self._values[layer, :rows, :, position] = value.to(weights.dtype)
        keys = self._keys[layer, :rows, :, : position + 1].float()
        values = self._values[layer, :rows, :, : position + 1].float()
        grouped = query.view(rows, shape.kv_heads, -1, shape.head_dim)
        scores = grouped @ keys.transpose(-1, -2) * shape.head_dim**-0.5
        return (torch.softmax(scores, -1) @ values).flatten(1)

    def _turn(self, x: Tensor, position: int) -> Tensor:
        cos, sin = self.weights.cos[position], self.weights.sin[position]
        low, high = x.chunk(2, -1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def _rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gain
