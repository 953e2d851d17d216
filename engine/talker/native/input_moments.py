"""Measures the inputs of a talker's matrices while it speaks, for ``engine.kernels.gptq``.

The second moments of the inputs are the Hessian of the error of a product, by which GPTQ rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from engine.checkpoint.architecture import ModelArchitecture
from engine.checkpoint.folder import Checkpoint
from engine.config import TalkerConfig
from engine.errors import CheckpointError
from engine.models.code_predictor import CodePredictor, PlainFrameLayers
from engine.models.qwen3 import Product, Qwen3Stack
from engine.models.talker import CodecSide, TalkerModel
from engine.models.weights import Weights
from engine.prompt.builder import build_prompt
from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from engine.talker.native.layers import PlainTalkerLayers
from engine.talker.native.talker import NativeTalker
from engine.talker.requests import resolve

_FRAMES = 48
"""Frames of each sentence."""
_CONTEXT = 256
_INSTRUCTION = "A calm and friendly voice of a young woman, who speaks a little slowly."
_ENGLISH = (
    "The ferry leaves at seven, so we should be at the harbor a little before that.",
    "Have you seen the blue folder that I left on the kitchen table this morning?",
    "No, I never said that! You must have misheard me on the phone.",
    "Chapter three describes how glaciers shaped the valleys of the northern coast.",
    "Your appointment with Doctor Alvarez is on Thursday, at a quarter past ten.",
    "First boil the water, then add the salt, and stir until it has dissolved.",
    "She laughed, closed the umbrella, and ran the last few steps through the rain.",
    "Our quarterly report shows that sales in Singapore and Hamburg have doubled.",
)
_OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "chinese": "今天下午天气很好，我们一起去河边散步吧。",
        "japanese": "明日の朝は少し早く起きて、海まで歩いてみませんか。",
        "korean": "오늘 저녁에는 가족과 함께 집에서 따뜻한 국을 먹을 거예요.",
        "german": "Morgen früh fahren wir mit dem Zug an die Küste und kommen erst am Abend zurück.",
        "french": "Demain matin, nous prendrons le train pour la côte et nous rentrerons le soir.",
        "russian": "Завтра утром мы поедем на поезде к морю и вернёмся только вечером.",
        "portuguese": "Amanhã de manhã vamos de trem para a costa e só voltamos à noite.",
        "spanish": "Mañana por la mañana iremos en tren a la costa y volveremos por la noche.",
        "italian": "Domani mattina andremo in treno verso la costa e torneremo solo la sera.",
    }
)


@torch.inference_mode()
def measure_input_moments(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the sum of x x^T, float32 [in, in], over the inputs x of each matrix of the decoder layers.

    The keys are the names of the matrices in model.safetensors. The talker speaks with exact weights, in each of the
    checkpoint's languages. A checkpoint that only clones gets an x-vector of zeros, and no reference recording.

    Raises CheckpointError if the checkpoint is damaged, or if an input is infinite or NaN.
    """
    requests = list(_requests(checkpoint.model))
    moments: dict[str, Tensor] = {}
    talker = _load(checkpoint, len(requests), moments)
    for stream, request in enumerate(requests):
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        talker.admit(stream, prompt, resolve(request.sampling, checkpoint.generation))
    while talker.runnable(()):
        talker.step(())
    for name, matrix in moments.items():
        if not matrix.isfinite().all():
            raise CheckpointError(
                f"{checkpoint.folder}: the inputs of {name} are infinite or NaN, so its weights cannot be rounded for "
                "them: pack it in int8"
            )
    return moments


def _requests(model: ModelArchitecture) -> Iterator[SpeechRequest]:
    speakers = list(model.talker.speakers)
    texts = [(text, "english") for text in _ENGLISH] + [(text, language) for language, text in _OTHERS.items()]
    known = [(text, language) for text, language in texts if language in model.talker.languages]
    for seed, (text, language) in enumerate(known or [(text, "auto") for text in _ENGLISH]):
        speaker = speakers[seed % len(speakers)] if speakers else None
        voice = None
        if speaker is None and model.speaker_encoder is not None:
            voice = Voice(np.zeros(model.talker.transformer.hidden, np.float32))
        instructions = _INSTRUCTION if model.kind == "voice_design" else None
        yield SpeechRequest(
            text,
            speaker=speaker,
            voice=voice,
            language=language,
            instructions=instructions,
            sampling=SamplingParams(seed=seed, max_new_tokens=_FRAMES),
        )


def _load(checkpoint: Checkpoint, slots: int, moments: dict[str, Tensor]) -> NativeTalker:
    """Load a talker whose matrices add their inputs to ``moments``."""
    shape = checkpoint.model.talker
    with checkpoint.stream("talker.") as tensors:
        weights = Weights(tensors, torch.device("cpu"), torch.float32, release=True)
        residual, codec = weights.under("code_predictor."), CodecSide(weights, shape)
        frame_layers = PlainFrameLayers(residual, shape.predictor.transformer, slots, shape.codebooks)
        predictor = CodePredictor(residual, shape, code_tables=codec.tables, rows=slots, layers=frame_layers)
        model = TalkerModel(weights, shape, positions=_CONTEXT, codec=codec)
    assert model.stack is not None
    _measure(model.stack, "talker.model.", moments)
    _measure(frame_layers.stack, "talker.code_predictor.model.", moments)
    config = TalkerConfig(slots=slots, context=_CONTEXT)
    layers = PlainTalkerLayers(model, slots, _CONTEXT)
    return NativeTalker(model, layers, predictor, config, text_pad=checkpoint.model.text_ids.tts_pad)


def _measure(stack: Qwen3Stack, prefix: str, moments: dict[str, Tensor]) -> None:
    for number, layer in enumerate(stack.layers):
        base = f"{prefix}layers.{number}"
        attention, feed_forward = f"{base}.self_attn", f"{base}.mlp"
        layer.qkv = _MeasuredProduct(layer.qkv, [f"{attention}.{part}_proj.weight" for part in "qkv"], moments)
        layer.out = _MeasuredProduct(layer.out, [f"{attention}.o_proj.weight"], moments)
        layer.gate_up = _MeasuredProduct(
            layer.gate_up, [f"{feed_forward}.{part}_proj.weight" for part in ("gate", "up")], moments
        )
        layer.down = _MeasuredProduct(layer.down, [f"{feed_forward}.down_proj.weight"], moments)


class _MeasuredProduct:
    """A product that adds x x^T of its inputs to ``moments``, under the names of its matrices."""

    def __init__(self, product: Product, names: Sequence[str], moments: dict[str, Tensor]) -> None:
        self._product, self._names, self._moments = product, names, moments

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if self._names[0] not in self._moments:
            self._moments.update(dict.fromkeys(self._names, torch.zeros(x.shape[-1], x.shape[-1])))
        self._moments[self._names[0]].addmm_(rows.T, rows)
        return self._product(x)
