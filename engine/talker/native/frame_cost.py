"""Measures the time of a frame for a model and a weight format, without the model's weights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture, Transformer
from engine.device.timing import Timing, cpu_clock, torch_threads, watch_other_processes
from engine.device.timing_cache import cached_on_disk
from engine.kernels.quantization import GROUP, supports_int4
from engine.models.weights import Weights
from engine.protocol.request import CODEBOOKS, WeightFormat
from engine.system.cores import available_cores
from engine.talker.sampling import Sampler
from engine.talker.sampling_params import CodebookParams

if TYPE_CHECKING:
    from engine.models.compiled_layers import CompiledLayers

_BYTES: Mapping[WeightFormat, float] = MappingProxyType({"exact": 2, "int8": 1, "int4": 0.625})
_CACHE_BYTES = 128 << 20
"""Bytes of the talker's weights to measure, if it has as many, so that they do not stay in the CPU cache."""
_SECONDS = 0.12
"""Time after which no further frame is measured. A frame that takes longer is measured once."""
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


@cached_on_disk
@torch.inference_mode()
def frame_ms(shape: FrameShape, name: WeightFormat, threads: int) -> Timing:
    """Return the milliseconds that talker and code predictor take for a frame of one utterance: the median.

    Runs layers of the model's shape with weights of zero, whose values have no influence on the time. Measures whole
    frames: layers that run alone, again and again, find more of their weights in the CPU cache.
    """
    talker, predictor = _layers(shape, name)
    threads = min(threads, predictor.team.size)
    clock = cpu_clock(threads)
    sampler = Sampler.of([CodebookParams(temperature=0.9, top_k=50)], _CPU)
    uniform, slot = torch.full((1,), 0.5, dtype=torch.float64), np.array([0])
    offsets = torch.arange(shape.vocab).float()  # real logits differ, which matters to the sampler
    inputs = torch.ones(1, shape.talker.hidden), torch.ones(1, shape.predictor.hidden)

    def frame() -> tuple[float, float]:
        began = clock()
        talker(inputs[0], slot, np.array([1]), threads=threads)
        middle = clock()
        sampler(offsets[None], uniform)
        for head in range(CODEBOOKS - 1):
            logits = predictor.logits(inputs[1], slot, np.array([head + 1]), head, threads=threads)
            sampler(logits + offsets, uniform)
        return middle - began, clock() - middle

    with torch_threads(1):  # everything but the sampler runs in compiled kernels
        frame()
        disturbed = watch_other_processes()
        frames: list[tuple[float, float]] = []
        end = time.perf_counter() + _SECONDS
        while not frames or time.perf_counter() < end:
            frames.append(frame())
    talker_seconds, predictor_seconds = (median(part) for part in zip(*frames, strict=True))
    seconds = talker_seconds * shape.talker.layers / talker.shape.layers + predictor_seconds
    return Timing(1000 * seconds, disturbed())


def forget_layers() -> None:
    """Free the memory that the measurement has used."""
    _layers.cache_clear()


@lru_cache(maxsize=1)
def _layers(shape: FrameShape, name: WeightFormat) -> tuple[CompiledLayers, CompiledLayers]:
    """Return layers of the talker, fewer than it has if they exceed the CPU cache, and the code predictor."""
    # Imported here, because they import numba.
    from engine.kernels.compiled.team import Team
    from engine.talker.native.compiled import compiled_layers

    team = Team(available_cores())

    def build(transformer: Transformer, positions: int, heads: list[Tensor]) -> CompiledLayers:
        layer = _zero_layer(transformer, name)
        names = {f"layers.{index}.{part}": each for index in range(transformer.layers) for part, each in layer.items()}
        weights = Weights(names | {"norm.weight": torch.zeros(transformer.hidden)}, _CPU, torch.float32)
        return compiled_layers(weights, transformer, name, slots=1, positions=positions, team=team, heads=heads)

    layer_bytes = sum(tensor.numel() for tensor in _zero_layer(shape.talker, "exact").values()) * _BYTES[name]
    talker = replace(shape.talker, layers=min(shape.talker.layers, ceil(_CACHE_BYTES / layer_bytes)))
    heads = [torch.zeros(shape.vocab, shape.predictor.hidden, dtype=torch.bfloat16) for _ in range(CODEBOOKS - 1)]
    return build(talker, 2, []), build(shape.predictor, CODEBOOKS, heads)


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
