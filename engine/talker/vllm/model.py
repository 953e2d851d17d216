"""The talker as a model of vLLM's: its decoder layers are vLLM's Qwen3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.model_executor.models.qwen3 import Qwen3Model
from vllm.model_executor.models.utils import maybe_prefix

from engine.architecture import ModelArchitecture
from engine.kernels.linear import Linear
from engine.models.talker_rows import CodecSide, TextSide
from engine.models.weights import Weights
from engine.talker.fused.choice import residual_codes
from engine.talker.resident.residual import ResidualCodes
from engine.talker.vllm.attention import fuse
from engine.talker.vllm.state import TalkerState

ARCHITECTURE = "SonantTalker"
"""The name that vLLM knows it by."""
BATCHES = "batches"
"""Where vLLM's additional configuration has the rows of the batches in which frames are made, in ascending order."""
FP8 = "fp8"
"""Where it has whether the code predictor's matrices are in eight bits."""
_TABLE_ROWS = 8192
"""Text ids whose rows are computed together, when the table is made."""
_LAYERS = ("model.layers.", "model.norm.")


class SonantTalker(nn.Module):
    """The layers, and what the frame tail and the input rows are made with (``load``).

    Hidden states leave where logits should: the head is part of the frame tail.
    """

    architecture: ModelArchitecture
    text_table: Tensor
    codec: CodecSide
    head: Linear
    residual: ResidualCodes
    batches: list[int]

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        if not vllm_config.use_v2_model_runner:
            raise RuntimeError("vLLM's second model runner is switched off, and the first has no place for a sampler")
        self.model = Qwen3Model(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
        self.batches = vllm_config.additional_config[BATCHES]
        self._fp8 = vllm_config.additional_config[FP8]

    @staticmethod
    def get_model_state_cls() -> type:
        """The class of the state that goes with it."""
        return TalkerState

    @torch.inference_mode()
    def load(self, architecture: ModelArchitecture, tensors: dict[str, Tensor]) -> None:
        """Take the checkpoint's tensors under ``talker.``."""
        own = (name for name in tensors if name.startswith(_LAYERS))
        self.model.load_weights((name.removeprefix("model."), tensors[name]) for name in own)
        parameter = next(self.model.layers.parameters())
        fuse(self.model.layers, parameter.dtype)
        weights = Weights(tensors, parameter.device, parameter.dtype)
        talker = architecture.talker
        self.architecture = architecture
        self.codec = CodecSide(weights, talker)
        self.head = Linear(weights["codec_head.weight"])
        self.text_table = _table(TextSide(weights), talker.transformer.hidden, weights)
        residual = weights.under("code_predictor.")
        self.residual = residual_codes(residual, talker, self.codec, self.batches, fp8=self._fp8)

    def embed_input_ids(self, input_ids: Tensor, **_: Any) -> Tensor:
        """Part of vLLM's interface; input rows are made by ``StepInputs``."""
        return self.model.embed_input_ids(input_ids)

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Input rows [n, hidden] -> hidden states after the final norm [n, hidden]."""
        return self.model(input_ids, positions, intermediate_tensors, inputs_embeds)

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """The hidden states themselves."""
        return hidden_states


def _table(text: TextSide, hidden: int, weights: Weights) -> Tensor:
    """Every text id's row, and a row of zeros after them [text vocab + 1, hidden]: a row depends on its id alone."""
    table = torch.zeros(text.vocab + 1, hidden, device=weights.device, dtype=weights.dtype)
    for start in range(0, text.vocab, _TABLE_ROWS):
        stop = min(start + _TABLE_ROWS, text.vocab)
        table[start:stop] = text.rows(slice(start, stop))
    return table
