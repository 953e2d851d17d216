"""Reference implementation of the fused code predictor, in plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.talker.fused.weights import PredictorWeights
from engine.talker.gpu_step.frame_sampler import RngKey
from engine.talker.sampling import Sampler
from engine.talker.sampling_params import SamplingTensors


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
        size = (shape.layers, rows, shape.kv_heads, weights.codebooks, shape.head_dim)
        self._keys = torch.zeros(size, device=weights.device, dtype=weights.dtype)
        self._values = torch.zeros_like(self._keys)

    def __call__(self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey) -> tuple[Tensor, Tensor]:
        """Sample codebooks 1 to 15 as ``engine.talker.gpu_step.frame_sampler.ResidualCodes`` requires."""
        codes, embedding, _ = self.run(hidden, first, params, rng)
        return codes, embedding

    def run(
        self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey, forced: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sample as ``__call__`` does, and return the logits too.

        forced: int64 [rows, codebooks], codes used instead of sampled ones (teacher forcing).

        Returns codes int64 [rows, codebooks], embedding [rows, talker hidden], and logits float32
        [rows, codebooks - 1, vocab].
        """
        weights, sample, uniform = self.weights, Sampler(params), rng.uniforms()
        codes, all_logits = [first], []
        self._position(self._input_projection(hidden), 0)
        for codebook in range(1, weights.codebooks):
            x = weights.inputs[codes[-1] + weights.offsets[codebook - 1]].float()
            state = rms_norm(self._position(x, codebook), weights.norm, weights.shape.eps)
            logits = product(state, weights.heads[codebook - 1])
            all_logits.append(logits)
            codes.append(sample(logits, uniform[:, codebook]) if forced is None else forced[:, codebook])
        frames = torch.stack(codes, 1)
        embedding = weights.tables[frames + weights.offsets].float().sum(1).to(weights.dtype)
        return frames, embedding, torch.stack(all_logits, 1)

    def _input_projection(self, hidden: Tensor) -> Tensor:
        """Project talker states [rows, talker hidden] to the predictor's hidden size, rounded to the weights' dtype."""
        weights = self.weights
        if weights.project is None or weights.project_bias is None:
            return hidden.float()
        projected = product(hidden.float(), weights.project) + weights.project_bias
        return projected.to(weights.dtype).float()

    def _position(self, x: Tensor, position: int) -> Tensor:
        """Run x float32 [rows, hidden] of one position through all layers."""
        weights, eps = self.weights, self.weights.shape.eps
        for layer in range(weights.shape.layers):
            qkv = product(rms_norm(x, weights.input_norm[layer], eps), weights.qkv[layer])
            x = x + product(self._attention(qkv, layer, position), weights.out[layer])
            gate_up = product(rms_norm(x, weights.post_norm[layer], eps), weights.gate_up[layer])
            gate, up = gate_up.chunk(2, -1)
            x = x + product(F.silu(gate) * up, weights.down[layer])
        return x

    def _attention(self, qkv: Tensor, layer: int, position: int) -> Tensor:
        """Cache the keys and values of ``position``, and attend to all positions up to it: [rows, heads * d]."""
        weights, shape, rows = self.weights, self.weights.shape, len(qkv)
        parts = (shape.heads, shape.kv_heads, shape.kv_heads)
        query, key, value = qkv.view(rows, -1, shape.head_dim).split(parts, 1)
        cos, sin = weights.cos[position], weights.sin[position]
        query = rotated(rms_norm(query, weights.q_norm[layer], shape.eps), cos, sin)
        key = rotated(rms_norm(key, weights.k_norm[layer], shape.eps), cos, sin)
        self._keys[layer, :rows, :, position] = key.to(weights.dtype)
        self._values[layer, :rows, :, position] = value.to(weights.dtype)
        keys = self._keys[layer, :rows, :, : position + 1].float()
        values = self._values[layer, :rows, :, : position + 1].float()
        grouped = query.view(rows, shape.kv_heads, -1, shape.head_dim)
        scores = grouped @ keys.transpose(-1, -2) * shape.head_dim**-0.5
        return (torch.softmax(scores, -1) @ values).flatten(1)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Round x float32 [rows, in] to the weight's dtype, and multiply by weight [out, in] in float32."""
    return F.linear(x.to(weight.dtype).float(), weight.float())


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply RoPE to x [..., d]; cos, sin: [..., d / 2]."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Apply RMSNorm to the last dimension of x."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gain
