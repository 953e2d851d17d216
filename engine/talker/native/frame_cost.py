"""Measures the time of a frame for a model and a weight format, without the model's weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture, Transformer
from engine.device.timing import fastest_call
from engine.device.timing_cache import remembered
from engine.kernels.quantization import GROUP, supports_int4
from engine.models.weights import Weights
from engine.protocol.request import CODEBOOKS, WeightFormat
from engine.system.cores import available_cores
from engine.talker.sampling import Sampler
from engine.talker.sampling_params import CodebookParams

_BYTES: Mapping[WeightFormat, float] = MappingProxyType({"exact": 2, "int8": 1, "int4": 0.625})
_CACHE_BYTES = 128 << 20
"""Bytes of weights to measure, if the model has as many, so that they do not stay in the CPU cache."""
_SECONDS = 0.03
"""Minimum time of each measurement."""
_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class FrameShape:
    """The layers that a frame passes: the talker's once, the code predictor's once for each codebook after the first.

    vocab: of the code predictor's heads.
    """

    talker: Transformer
    predictor: Transformer
    vocab: int

    @staticmethod
    def of(model: TalkerArchitecture) -> FrameShape:
        """Return the shape of a checkpoint."""
        return FrameShape(model.transformer, model.predictor.transformer, model.predictor.vocab)


@torch.inference_mode()
def frame_ms(shape: FrameShape, name: WeightFormat, threads: int) -> float:
    """Return the milliseconds that talker and code predictor take for a frame of one utterance.

    Runs layers of the model's shape with weights of zero. The values of weights have no influence on the time.
    """
    # The first step of the code predictor has two positions. It counts as one, because it reads the weights once.
    steps = CODEBOOKS - 1
    code = _code_seconds(shape.predictor, shape.vocab, threads)
    predictor = _stack_seconds(shape.predictor, name, threads) + code
    return 1000 * (_stack_seconds(shape.talker, name, threads) + steps * predictor)


@remembered
def _code_seconds(shape: Transformer, vocab: int, threads: int) -> float:
    """Return the time of the logits of a codebook, and of sampling from them."""
    heads = _heads(shape, vocab, threads)
    sampler = Sampler.of([CodebookParams(temperature=0.9, top_k=50)], _CPU)
    x, uniform = torch.ones(1, shape.hidden), torch.full((1,), 0.5, dtype=torch.float64)
    offsets = torch.arange(vocab).float()  # real logits differ, which matters to the sampler
    return fastest_call(lambda: [sampler(head(x) + offsets, uniform) for head in heads], _SECONDS, threads) / len(heads)


def _heads(shape: Transformer, vocab: int, threads: int) -> list[Callable[[Tensor], Tensor]]:
    """Return the heads of all codebooks after the first, each with weights of its own."""
    from engine.kernels.compiled.team import Team
    from engine.talker.native.compiled import compiled_layers
    from engine.talker.native.layers import CompiledFrameLayers

    weights = Weights({"norm.weight": torch.zeros(shape.hidden)}, _CPU, torch.float32)
    heads = [torch.zeros(vocab, shape.hidden, dtype=torch.bfloat16) for _ in range(CODEBOOKS - 1)]
    layers = compiled_layers(
        weights, replace(shape, layers=0), "exact", slots=1, positions=CODEBOOKS, team=Team(threads), heads=heads
    )
    frame = CompiledFrameLayers(layers)
    return [partial(frame.single, position=position) for position in range(1, CODEBOOKS)]


def _stack_seconds(shape: Transformer, name: WeightFormat, threads: int) -> float:
    """Return the time of one position in all layers. Measures fewer layers if they exceed the CPU cache."""
    layer_bytes = sum(tensor.numel() for tensor in _zero_layer(shape, "exact").values()) * _BYTES[name]
    layers = min(shape.layers, ceil(_CACHE_BYTES / layer_bytes))
    return _layers_seconds(replace(shape, layers=layers), name, threads) * shape.layers / layers


@remembered
def _layers_seconds(shape: Transformer, name: WeightFormat, threads: int) -> float:
    run = _layers(shape, name)
    return fastest_call(lambda: run(threads), _SECONDS, threads)


def forget_layers() -> None:
    """Free the memory that the measurement has used."""
    _layers.cache_clear()


@lru_cache(maxsize=2)
def _layers(shape: Transformer, name: WeightFormat) -> Callable[[int], Tensor]:
    """Return a function that runs one position through all layers with a number of threads, at most one per core."""
    tensors = _zero_layer(shape, name)
    names = {f"layers.{index}.{part}": tensor for index in range(shape.layers) for part, tensor in tensors.items()}
    weights = Weights(names | {"norm.weight": torch.zeros(shape.hidden)}, _CPU, torch.float32)
    x = torch.ones(1, shape.hidden)
    # Imported here, because they import numba.
    from engine.kernels.compiled.team import Team
    from engine.talker.native.compiled import compiled_layers

    team = Team(available_cores())
    layers = compiled_layers(weights, shape, name, slots=1, positions=2, team=team)
    slot, position = np.array([0]), np.array([1])
    return lambda threads: layers(x, slot, position, threads=min(threads, team.size))


def _zero_layer(shape: Transformer, name: WeightFormat) -> dict[str, Tensor]:
    """Return the tensors of a layer, those of a packed checkpoint if the format is quantized.

    Zeros of such sizes use no memory until they are packed.
    """
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    vectors = {
        "input_layernorm": shape.hidden,
        "post_attention_layernorm": shape.hidden,
        "self_attn.q_norm": shape.head_dim,
        "self_attn.k_norm": shape.head_dim,
    }
    matrices = {
        "self_attn.q_proj": (queries, shape.hidden),
        "self_attn.k_proj": (keys, shape.hidden),
        "self_attn.v_proj": (keys, shape.hidden),
        "self_attn.o_proj": (shape.hidden, queries),
        "mlp.gate_proj": (shape.intermediate, shape.hidden),
        "mlp.up_proj": (shape.intermediate, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.intermediate),
    }
    tensors = {f"{part}.weight": torch.zeros(size) for part, size in vectors.items()}
    for part, (outputs, inputs) in matrices.items():
        if name == "int8":
            tensors[f"{part}.int8"] = torch.zeros((outputs, inputs), dtype=torch.int8)
            tensors[f"{part}.scales"] = torch.zeros(outputs)
        elif name == "int4" and supports_int4((outputs, inputs)):
            tensors[f"{part}.int4"] = torch.zeros((outputs, inputs // 2), dtype=torch.uint8)
            for each in ("scales", "offsets"):
                tensors[f"{part}.{each}"] = torch.zeros((outputs, inputs // GROUP), dtype=torch.bfloat16)
        else:
            tensors[f"{part}.weight"] = torch.zeros((outputs, inputs), dtype=torch.bfloat16)
    return tensors
