"""Loads a talker whose decoder layers run in compiled kernels.

With a quantized format, tensors of an original checkpoint are quantized one at a time, and the codes of a packed one
(``engine.checkpoint.packing``) are read. In int8 both have the same codes, so a packed checkpoint gives the same
speech. In int4 the codes of a packed one were rounded for the inputs of their matrices (``engine.kernels.gptq``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture, Transformer
from engine.kernels.compiled.team import Team
from engine.kernels.quantization import (
    GroupCodes,
    RowCodes,
    TableCodes,
    quantize_groups,
    quantize_rows,
    quantize_table,
    supports_int4,
    supports_table,
)
from engine.models.code_predictor import CodePredictor, head_names
from engine.models.compiled_layers import Codes, CompiledLayers, LayerSource
from engine.models.talker import CodecSide, ExactTable, Table, TalkerModel, exact_table
from engine.models.weights import Weights
from engine.protocol.request import WeightFormat
from engine.system.cores import available_cores
from engine.talker.native.layers import CompiledFrameLayers, CompiledTalkerLayers


def load_compiled(
    weights: Weights, shape: TalkerArchitecture, name: WeightFormat, codec: CodecSide, *, slots: int, context: int
) -> tuple[TalkerModel, CompiledTalkerLayers, CodePredictor]:
    """Return the talker of ``weights`` (the checkpoint's ``talker.``) with layers in the format ``name``.

    codec: the embeddings of codes. slots, context: size of the cache. The layers run on as many threads as torch has.
    Prompts are bound by arithmetic, and also use the cores of Code2Wav, which has nothing to do until the first frame
    if there is no other utterance.
    """
    threads = torch.get_num_threads()
    team, residual = Team(max(threads, min(available_cores(), 2 * threads))), weights.under("code_predictor.")
    predictor_layers = compiled_layers(
        residual.under("model."),
        shape.predictor.transformer,
        name,
        slots=slots,
        positions=shape.codebooks,
        team=team,
        threads=threads,
        heads=[_exact(residual, each) for each in head_names(shape.codebooks)],
    )
    predictor = CodePredictor(
        residual, shape, code_tables=codec.tables, rows=slots, layers=CompiledFrameLayers(predictor_layers)
    )
    talker_layers = compiled_layers(
        weights.under("model."),
        shape.transformer,
        name,
        slots=slots,
        positions=context,
        team=team,
        threads=threads,
    )
    table = exact_table if name == "exact" else quantized_table
    model = TalkerModel(weights, shape, positions=context, codec=codec, layers=False, table=table)
    return model, CompiledTalkerLayers(talker_layers), predictor


def compiled_layers(
    weights: Weights,
    shape: Transformer,
    name: WeightFormat,
    *,
    slots: int,
    positions: int,
    team: Team,
    threads: int | None = None,
    heads: Sequence[Tensor] = (),
) -> CompiledLayers:
    """Return the decoder layers of ``weights`` (``layers.N.`` and ``norm.``) with matrices in the format ``name``.

    slots, positions: size of the cache. team, threads, heads: see ``CompiledLayers``.
    """
    layers = CompiledLayers(shape, slots=slots, positions=positions, team=team, threads=threads, heads=heads)
    for number in sorted(range(shape.layers), key=str):  # safetensors files are sorted by name
        layers.set_layer(number, _layer(weights.under(f"layers.{number}."), name))
    layers.set_final_norm(weights["norm.weight"])
    return layers


def _exact(weights: Weights, name: str) -> Tensor:
    """Return a matrix in its own precision if that is bfloat16, else in float32."""
    matrix = weights.stored(name)
    return matrix if matrix.dtype == torch.bfloat16 else matrix.float()


def quantized_table(weights: Weights, name: str) -> Table:
    """Return the table of an embedding in 8 bits. Embeddings whose width 8 bits do not support stay exact."""
    if f"{name}.int8" in weights:
        return TableCodes(weights.stored(f"{name}.int8"), weights.stored(f"{name}.scales").float())
    table = weights.stored(f"{name}.weight")
    return quantize_table(table) if supports_table(table.shape) else ExactTable(table, weights.dtype)


def _layer(weights: Weights, name: WeightFormat) -> LayerSource:
    def codes(*names: str) -> Codes:
        return _codes(weights, names, name)

    return LayerSource(
        qkv=codes("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        out=codes("self_attn.o_proj"),
        gate=codes("mlp.gate_proj"),
        up=codes("mlp.up_proj"),
        down=codes("mlp.down_proj"),
        norms=(weights["input_layernorm.weight"], weights["post_attention_layernorm.weight"]),
        gains=(weights["self_attn.q_norm.weight"], weights["self_attn.k_norm.weight"]),
    )


def _codes(weights: Weights, names: Sequence[str], name: WeightFormat) -> Codes:
    """Return the rows of several matrices. If 4 bits do not support the shape of one, all are float32."""
    if name == "exact":
        return torch.cat([_exact(weights, f"{each}.weight") for each in names])
    if name == "int8":
        return RowCodes.cat([_row_codes(weights, each) for each in names])
    parts = [_group_codes(weights, each) for each in names]
    groups = [part for part in parts if isinstance(part, GroupCodes)]
    if len(groups) == len(parts):
        return GroupCodes.cat(groups)
    return torch.cat([part.dequantize() if isinstance(part, GroupCodes) else part for part in parts])


def _row_codes(weights: Weights, name: str) -> RowCodes:
    if f"{name}.int8" in weights:
        return RowCodes(weights.stored(f"{name}.int8"), weights.stored(f"{name}.scales").float())
    return quantize_rows(weights[f"{name}.weight"])


def _group_codes(weights: Weights, name: str) -> GroupCodes | Tensor:
    """Return the codes of a matrix, or the matrix if its shape is not supported."""
    if f"{name}.int4" in weights:
        scales, offsets = (weights.stored(f"{name}.{part}").bfloat16() for part in ("scales", "offsets"))
        return GroupCodes(weights.stored(f"{name}.int4"), scales, offsets)
    weight = weights[f"{name}.weight"]
    return quantize_groups(weight) if supports_int4(weight.shape) else weight
