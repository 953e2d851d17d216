"""Code predictors with random weights of any size, and inputs for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.architecture import CodecIds, CodePredictorArchitecture, TalkerArchitecture, Transformer
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.fused.weights import PredictorWeights, gather
from engine.talker.gpu_step.frame_sampler import RngKey
from engine.talker.sampling_params import CodebookParams, SamplingTensors

PUBLISHED = Transformer(
    hidden=1024, intermediate=3072, layers=5, heads=16, kv_heads=8, head_dim=128, rope_theta=1e6, eps=1e-6
)
SPECIAL_CODES = 1024
"""Rows of codebook 0's table that are special tokens."""


def architecture(shape: Transformer, *, vocab: int, codebooks: int, talker_hidden: int) -> TalkerArchitecture:
    """Return a talker with this code predictor. Everything that the predictor and the slots do not read is minimal."""
    talker = Transformer(
        talker_hidden, 3 * talker_hidden, layers=1, heads=1, kv_heads=1, head_dim=64, rope_theta=1e6, eps=1e-6
    )
    eos = vocab + 7
    ids = CodecIds(pad=vocab, bos=vocab, eos=eos, think=vocab, nothink=vocab, think_bos=vocab, think_eos=vocab)
    return TalkerArchitecture(
        transformer=talker,
        vocab=vocab + SPECIAL_CODES,
        text_vocab=16,
        text_hidden=16,
        codebooks=codebooks,  # type: ignore[arg-type]  # checkpoints have 16; tests use fewer
        predictor=CodePredictorArchitecture(shape, vocab),
        ids=ids,
        languages={},
        speakers={},
        dialects={},
    )


def tensors(talker: TalkerArchitecture, device: torch.device) -> dict[str, Tensor]:
    """Return random bfloat16 tensors, named as in a checkpoint but without the prefix ``talker.``.

    The logits have a spread like those of a trained model.
    """
    generator = torch.Generator(device).manual_seed(20261120)
    shape, codebooks, outside = talker.predictor.transformer, talker.codebooks, talker.transformer.hidden

    def normal(*size: int, std: float) -> Tensor:
        return torch.randn(size, generator=generator, device=device).mul_(std).bfloat16()

    def norm(width: int) -> Tensor:
        return (normal(width, std=0.1).float() + 1).bfloat16()

    width, inner, head = shape.hidden, shape.intermediate, shape.head_dim
    named = {"model.codec_embedding.weight": normal(talker.vocab, outside, std=0.35)}
    for at in range(shape.layers):
        layer = f"code_predictor.model.layers.{at}."
        for name, rows, columns in (
            ("self_attn.q_proj", shape.heads * head, width),
            ("self_attn.k_proj", shape.kv_heads * head, width),
            ("self_attn.v_proj", shape.kv_heads * head, width),
            ("self_attn.o_proj", width, shape.heads * head),
            ("mlp.gate_proj", inner, width),
            ("mlp.up_proj", inner, width),
            ("mlp.down_proj", width, inner),
        ):
            named[f"{layer}{name}.weight"] = normal(rows, columns, std=columns**-0.5)
        named |= {f"{layer}{name}.weight": norm(width) for name in ("input_layernorm", "post_attention_layernorm")}
        named |= {f"{layer}self_attn.{name}.weight": norm(head) for name in ("q_norm", "k_norm")}
    vocab = talker.predictor.vocab
    for book in range(codebooks - 1):
        named[f"code_predictor.model.codec_embedding.{book}.weight"] = normal(vocab, outside, std=0.35)
        named[f"code_predictor.lm_head.{book}.weight"] = normal(vocab, width, std=3 * width**-0.5)
    named["code_predictor.model.norm.weight"] = norm(width)
    if outside != width:
        named["code_predictor.small_to_mtp_projection.weight"] = normal(width, outside, std=outside**-0.5)
        named["code_predictor.small_to_mtp_projection.bias"] = normal(width, std=0.1)
    return named


def random_talker(
    shape: Transformer,
    *,
    vocab: int,
    codebooks: int,
    talker_hidden: int,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> tuple[Weights, TalkerArchitecture, CodecSide]:
    """Return the arguments of ``gather`` for a random code predictor."""
    device = device or torch.device("cpu")
    talker = architecture(shape, vocab=vocab, codebooks=codebooks, talker_hidden=talker_hidden)
    weights = Weights(tensors(talker, device), device, dtype)
    return weights.under("code_predictor."), talker, CodecSide(weights, talker)


def random_weights(shape: Transformer, **sizes: Any) -> PredictorWeights:
    """Return the weights of a random code predictor. sizes: see ``random_talker``."""
    return gather(*random_talker(shape, **sizes))


def predictor_inputs(weights: PredictorWeights, rows: int, *, seed: int = 0, mixed: bool = False) -> dict[str, Any]:
    """Return random arguments for ``ResidualCodes``. mixed: some rows are greedy, without top-k, or with top-p."""
    generator = torch.Generator().manual_seed(seed)
    device = weights.device
    usual = CodebookParams(temperature=0.9, top_k=50)
    kinds = [
        usual,
        CodebookParams(temperature=0.0, top_k=50),
        CodebookParams(temperature=0.9, top_p=0.8),
        CodebookParams(temperature=0.9, top_k=7, top_p=0.8),
    ]
    hidden = torch.randn(rows, weights.talker_hidden, generator=generator)
    first = torch.randint(weights.vocab, (rows,), generator=generator)
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator)
    frames = torch.randint(0, 500, (rows,), generator=generator)
    return {
        "hidden": hidden.to(device, weights.dtype),
        "first": first.to(device),
        "params": SamplingTensors.of([kinds[row % 4] if mixed else usual for row in range(rows)], device),
        "rng": RngKey(seeds.to(device), frames.to(device)),
    }


def random_slots(count: int, generator: torch.Generator, device: torch.device) -> dict[str, Any]:
    """Return random arguments for ``Slots.reset``. Some rows are greedy, some have no top-k, some no top-p."""
    temperature, top_p, penalty, residual_temperature, residual_top_p = (
        (torch.rand(5, count, generator=generator) * 0.9 + 0.1).double().tolist()
    )
    top_k, residual_top_k = torch.randint(0, 60, (2, count), generator=generator).tolist()
    rows = range(count)
    codebook0 = [
        CodebookParams(
            temperature=0.0 if row % 3 == 1 else temperature[row],
            top_k=top_k[row] if row % 3 else 0,
            top_p=top_p[row] if row % 2 else 1.0,
            repetition_penalty=1 + penalty[row],
        )
        for row in rows
    ]
    residual = [CodebookParams(residual_temperature[row], residual_top_k[row], residual_top_p[row]) for row in rows]
    return {
        "seeds": torch.randint(-(2**62), 2**62, (count,), generator=generator).to(device),
        "codebook0_params": SamplingTensors.of(codebook0, device),
        "residual_params": SamplingTensors.of(residual, device),
    }


def select_rows(inputs: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Return the inputs of the selected rows. rows: an index of a tensor."""
    params, rng = inputs["params"], inputs["rng"]
    return {
        "hidden": inputs["hidden"][rows],
        "first": inputs["first"][rows],
        "params": SamplingTensors(*(each[:, rows].contiguous() for each in params)),
        "rng": RngKey(*(each[rows] for each in rng)),
    }


def relative(out: Tensor, reference: Tensor) -> float:
    """Return |out - reference| / |reference|; infinite if any value is NaN."""
    error = (out.double() - reference.double()).norm() / reference.double().norm()
    return float("inf") if error.isnan() else error.item()
