"""A checkpoint as vLLM loads a model: its layers' shapes as a configuration file, its tensors by a loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from vllm import ModelRegistry
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

from engine.architecture import TalkerArchitecture
from engine.checkpoint import Checkpoint
from engine.talker.vllm.model import ARCHITECTURE, SonantTalker

LOAD_FORMAT = "sonant"


def register(checkpoint: Checkpoint) -> None:
    """Tell vLLM of the model, and that what it is to load is ``checkpoint``."""
    ModelRegistry.register_model(ARCHITECTURE, SonantTalker)

    class CheckpointLoader(BaseModelLoader):
        """Gives the model what is under ``talker.``."""

        def download_model(self, model_config: Any) -> None:
            """It is here already."""

        def load_weights(self, model: Any, model_config: Any) -> None:
            """Load the checkpoint."""
            model.load(checkpoint.model, checkpoint.tensors("talker."))

    register_model_loader(LOAD_FORMAT)(CheckpointLoader)


def write_config(folder: Path, talker: TalkerArchitecture, positions: int, dtype: torch.dtype) -> None:
    """The talker's layers as a Qwen3 of Transformers', which vLLM knows: config.json.

    Positions are plain: the three parts of the checkpoint's rotary positions are always equal (SPEC 2).
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
