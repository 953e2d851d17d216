"""The talker as a vLLM model: vLLM's Qwen3 decoder layers with fused attention, and its weight loader."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from vllm import ModelRegistry, _custom_ops
from vllm.config import VllmConfig
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.model_executor.models.qwen3 import Qwen3Model
from vllm.model_executor.models.utils import maybe_prefix

from engine.checkpoint.architecture import ModelArchitecture, TalkerArchitecture
from engine.checkpoint.folder import Checkpoint
from engine.kernels.fallback import reason_for_fallback, require_gpu
from engine.kernels.linear import Linear
from engine.models.talker import CodecSide, TextSide
from engine.models.weights import Weights
from engine.talker.fused.dispatch import residual_codes
from engine.talker.gpu_step.frame_sampler import ResidualCodes
from engine.talker.vllm.state import TalkerState

_FUSED_HEAD_DIMS = (64, 128, 256)
"""Head sizes that the fused operator supports."""
_SELF_CHECK_ROWS = 2
_log = logging.getLogger(__name__)


def fuse(layers: Iterable[Any], dtype: torch.dtype) -> None:
    """Make every layer's attention use vLLM's fused QK-norm and RoPE operator, if vLLM and the device have it.

    The operator works in place on the output of the QKV projection and computes in float32. vLLM itself uses it only in
    compiled models. It is not public API, so a self-check calls it once; if that fails, vLLM's own forward stays.
    """
    operator = getattr(torch.ops._C, "fused_qk_norm_rope", None)
    if operator is None or dtype != torch.bfloat16 or not torch.cuda.is_available():
        return
    attentions = [layer.self_attn for layer in layers if layer.self_attn.head_dim in _FUSED_HEAD_DIMS]
    try:
        for attention in attentions[:1]:
            _self_check(attention)
    except Exception as error:
        _log.info("vLLM's fused QK-norm and RoPE operator is not used: %s", reason_for_fallback(error))
        return
    for attention in attentions:
        attention.forward = MethodType(attend, attention)


def attend(attention: Any, positions: Tensor, hidden_states: Tensor) -> Tensor:
    """Replacement for the forward of vLLM's Qwen3Attention: rows [n, hidden] at ``positions`` [n] -> [n, hidden]."""
    qkv, _ = attention.qkv_proj(hidden_states)
    _norm_and_rotate(attention, qkv, positions)
    q, k, v = qkv.split([attention.q_size, attention.kv_size, attention.kv_size], dim=-1)
    output, _ = attention.o_proj(attention.attn(q, k, v))
    return output


def _norm_and_rotate(attention: Any, qkv: Tensor, positions: Tensor) -> None:
    _custom_ops.fused_qk_norm_rope(
        qkv,
        attention.num_heads,
        attention.num_kv_heads,
        attention.num_kv_heads,
        attention.head_dim,
        attention.q_norm.variance_epsilon,
        attention.q_norm.weight,
        attention.k_norm.weight,
        attention.rotary_emb.cos_sin_cache,
        attention.rotary_emb.is_neox_style,
        positions.view(-1),
    )


def _self_check(attention: Any) -> None:
    """Run the operator once with the shapes of a step. Raises the operator's error."""
    weight, width = attention.q_norm.weight, attention.q_size + 2 * attention.kv_size
    qkv = torch.zeros(_SELF_CHECK_ROWS, width, dtype=weight.dtype, device=weight.device)
    _norm_and_rotate(attention, qkv, torch.arange(_SELF_CHECK_ROWS, device=weight.device))
    require_gpu()


LOAD_FORMAT = "sonant"


def register(checkpoint: Checkpoint) -> None:
    """Register the model with vLLM, and a model loader that loads ``checkpoint``."""
    ModelRegistry.register_model(ARCHITECTURE, SonantTalker)

    class CheckpointLoader(BaseModelLoader):
        """Loads the tensors under ``talker.`` into the model."""

        def download_model(self, model_config: Any) -> None:
            """Do nothing: the checkpoint is already local."""

        def load_weights(self, model: Any, model_config: Any) -> None:
            """Load the checkpoint."""
            model.load(checkpoint.model, checkpoint.tensors("talker."))

    register_model_loader(LOAD_FORMAT)(CheckpointLoader)


def write_config(folder: Path, talker: TalkerArchitecture, positions: int, dtype: torch.dtype) -> None:
    """Write a config.json that describes the talker's layers as a Transformers Qwen3 model, which vLLM supports.

    It uses plain RoPE, because the three parts of the checkpoint's rotary positions are always equal (SPEC 2).
    """
    shape = talker.transformer
    config = {
        "architectures": [ARCHITECTURE],
        "model_type": "qwen3",
        "vocab_size": talker.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.eps,
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "max_position_embeddings": positions,
        "tie_word_embeddings": False,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    (folder / "config.json").write_text(json.dumps(config))


ARCHITECTURE = "SonantTalker"
"""The model's name in vLLM's registry."""
BATCHES = "batches"
"""Key in vLLM's ``additional_config``: batch sizes of the frame sampler in rows, in ascending order."""
FP8 = "fp8"
"""Key in vLLM's ``additional_config``: whether the code predictor's matrices are in fp8."""
_TABLE_ROWS = 8192
"""Number of text ids per chunk when the text table is computed."""
_LAYERS = ("model.layers.", "model.norm.")


class SonantTalker(nn.Module):
    """The talker's layers, and the weights that the frame sampler and ``StepInputs`` use (set by ``load``).

    ``compute_logits`` returns hidden states, because the head is part of the frame sampler.
    """

    architecture: ModelArchitecture
    text_table: Tensor
    codec: CodecSide
    head: Linear
    residual: ResidualCodes
    batches: list[int]
    input_rows: Callable[[Tensor], Tensor]
    """Set by ``TalkerState``: what voices add to prompt rows [n, hidden] -> input rows [n, hidden]."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        if not vllm_config.use_v2_model_runner:
            raise RuntimeError(
                "the talker needs vLLM's V2 model runner, which supports custom samplers: set "
                "VLLM_USE_V2_MODEL_RUNNER=1"
            )
        self.model = Qwen3Model(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
        self.batches = vllm_config.additional_config[BATCHES]
        self._fp8 = vllm_config.additional_config[FP8]

    @staticmethod
    def get_model_state_cls() -> type:
        """Return the model state class for vLLM's model runner."""
        return TalkerState

    @torch.inference_mode()
    def load(self, architecture: ModelArchitecture, tensors: dict[str, Tensor]) -> None:
        """Load the checkpoint's tensors under ``talker.``."""
        names = (name for name in tensors if name.startswith(_LAYERS))
        self.model.load_weights((name.removeprefix("model."), tensors[name]) for name in names)
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
        """Required by vLLM's interface; ``TalkerState`` makes the actual input rows."""
        return self.model.embed_input_ids(input_ids)

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Run n input rows through the layers; return hidden states after the final norm [n, hidden].

        inputs_embeds: [n, hidden], what voices add to prompt rows. The input rows are looked up here, as part of a
        captured graph.
        """
        assert inputs_embeds is not None
        return self.model(input_ids, positions, intermediate_tensors, self.input_rows(inputs_embeds))

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """Return the hidden states unchanged."""
        return hidden_states


def _table(text: TextSide, hidden: int, weights: Weights) -> Tensor:
    """Return the input row of every text id, then a row of zeros: [text vocab + 1, hidden].

    The rows can be precomputed because each depends only on its id.
    """
    table = torch.zeros(text.vocab + 1, hidden, device=weights.device, dtype=weights.dtype)
    for start in range(0, text.vocab, _TABLE_ROWS):
        stop = min(start + _TABLE_ROWS, text.vocab)
        table[start:stop] = text.rows(slice(start, stop))
    return table
