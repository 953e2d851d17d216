"""The talker: prompt rows and frames in, logits of codebook 0 out (SPEC 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.architecture import TalkerArchitecture
from engine.kernels.linear import Linear
from engine.models.qwen3 import Attention, Qwen3Stack
from engine.prompt import Prompt


class TalkerModel:
    """Text and codec embeddings, the decoder layers, and the head of codebook 0.

    tensors: the checkpoint's, without their ``talker.`` prefix, any float type; computed in ``dtype``.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        architecture: TalkerArchitecture,
        *,
        positions: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        def load(name: str) -> Tensor:
            return tensors[name].to(device, dtype)

        self.architecture = architecture
        self.device, self.dtype = device, dtype
        self._text_embedding = tensors["model.text_embedding.weight"].to(device)
        self._fc1 = Linear(load("text_projection.linear_fc1.weight"), load("text_projection.linear_fc1.bias"))
        self._fc2 = Linear(load("text_projection.linear_fc2.weight"), load("text_projection.linear_fc2.bias"))
        self._frame_table = torch.cat(
            [load("model.codec_embedding.weight")]
            + [
                load(f"code_predictor.model.codec_embedding.{book}.weight")
                for book in range(architecture.codebooks - 1)
            ]
        )
        self._frame_offsets = torch.tensor(
            [0]
            + [architecture.vocab + book * architecture.predictor.vocab for book in range(architecture.codebooks - 1)],
            device=device,
        )
        layers = {
            name.removeprefix("model."): tensor.to(device, dtype)
            for name, tensor in tensors.items()
            if name.startswith("model.layers.") or name == "model.norm.weight"
        }
        self._stack = Qwen3Stack(layers, architecture.transformer, positions, device)
        self._head = Linear(load("codec_head.weight"))

    def __call__(self, x: Tensor, positions: Tensor | slice, attention: Attention) -> Tensor:
        """Input rows [rows, hidden] -> hidden states after the final norm [rows, hidden]."""
        return self._stack(x, positions, attention)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 logits of codebook 0 [rows, vocab] of hidden states [rows, hidden]."""
        return self._head(hidden).float()

    def text_rows(self, ids: list[int]) -> Tensor:
        """Text-side rows [n, hidden] of text ids: fc2(silu(fc1(embedding)))."""
        if not ids:
            return torch.empty(0, self.architecture.transformer.hidden, device=self.device, dtype=self.dtype)
        embedded = self._text_embedding[torch.tensor(ids, device=self.device)].to(self.dtype)
        return self._fc2(F.silu(self._fc1(embedded)))

    def frame_rows(self, codes: Tensor) -> Tensor:
        """Input rows [n, hidden] of frames' codes [n, 16]: the sum of the codes' embeddings."""
        return self._frame_table[codes + self._frame_offsets].sum(1)

    def prompt_rows(self, prompt: Prompt) -> Tensor:
        """The prefill rows [P, hidden] of a prompt: text side plus codec side (SPEC 3)."""
        rows = torch.zeros(len(prompt.text), self.architecture.transformer.hidden, device=self.device)
        rows = rows.to(self.dtype)
        spoken = torch.from_numpy(prompt.text >= 0).to(self.device)
        rows[spoken] = self.text_rows([int(token) for token in prompt.text if token >= 0])
        coded = torch.from_numpy(prompt.codec >= 0).to(self.device)
        rows[coded] += self._frame_table[torch.from_numpy(prompt.codec).to(self.device)[coded]]
        if prompt.embedding is not None:
            rows[prompt.embedding_row] += torch.from_numpy(prompt.embedding).to(self.device, self.dtype)
        if prompt.codes is not None:
            frames = self.frame_rows(torch.from_numpy(prompt.codes).to(self.device))
            rows[prompt.codes_row : prompt.codes_row + len(frames)] += frames
        return rows
