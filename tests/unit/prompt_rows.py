"""Embeddings of a prompt's rows, computed from the definition (SPEC 3) without the engine's models."""

import numpy as np
from torch import Tensor, nn, tensor, zeros

from engine.checkpoint.folder import Checkpoint
from engine.prompt.builder import Prompt


def project_text(ids: list[int], checkpoint: Checkpoint) -> np.ndarray:
    """float32 [n, hidden]: fc2(silu(fc1(embedding)))."""
    weights = _weights(checkpoint, "talker")
    inner = nn.functional.linear(
        weights["model.text_embedding.weight"][tensor(ids, dtype=int)],
        weights["text_projection.linear_fc1.weight"],
        weights["text_projection.linear_fc1.bias"],
    )
    outer = nn.functional.linear(
        nn.functional.silu(inner),
        weights["text_projection.linear_fc2.weight"],
        weights["text_projection.linear_fc2.bias"],
    )
    return outer.numpy()


def embed_prompt(prompt: Prompt, checkpoint: Checkpoint) -> np.ndarray:
    """float32 [P, hidden]."""
    codec = _weights(checkpoint, "talker.model")["codec_embedding.weight"]
    predictor = _weights(checkpoint, "talker.code_predictor.model")
    rows = zeros(len(prompt.text), codec.shape[1])
    rows[prompt.text >= 0] += tensor(project_text(prompt.text[prompt.text >= 0].tolist(), checkpoint))
    rows[prompt.codec >= 0] += codec[prompt.codec[prompt.codec >= 0]]
    if prompt.embedding is not None:
        rows[prompt.embedding_row] += tensor(prompt.embedding)
    if prompt.codes is not None:
        for i, frame in enumerate(prompt.codes):
            rest = [predictor[f"codec_embedding.{book}.weight"][code] for book, code in enumerate(frame[1:])]
            rows[prompt.codes_row + i] += codec[frame[0]] + sum(rest)
    return rows.numpy()


def _weights(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    return {name: weight.float() for name, weight in checkpoint.tensors(prefix).items()}
