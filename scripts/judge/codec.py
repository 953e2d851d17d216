"""A codec without its talker: recordings through speech encoder and Code2Wav."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from engine.checkpoint.architecture import CodecArchitecture
from engine.checkpoint.config import read_codec
from engine.checkpoint.json_file import read_json
from engine.checkpoint.layout import codec_shapes
from engine.checkpoint.tensors import TensorFile
from engine.cloning.resampling import resample
from engine.code2wav.cpu import StreamDecoder
from engine.models.code2wav import Code2WavModel
from engine.models.speech_encoder import SpeechEncoder
from engine.protocol.request import SAMPLE_RATE
from scripts.judge.sound import Samples
from scripts.train_pocket import config
from scripts.train_pocket.folder import codec_architecture

_CPU = torch.device("cpu")
_FRAMES = 12


class Codec:
    """Encodes and decodes as the engine does, on a CPU.

    place: a checkpoint's folder, its speech_tokenizer folder, or a safetensors file. Without a config.json beside the
    file the codec is the one of pocket.yaml. Raises CheckpointError where the file does not hold it.
    """

    def __init__(self, place: Path) -> None:
        weights = _weights(place)
        architecture = _architecture(weights)
        file, shapes = TensorFile(weights), codec_shapes(architecture)
        file.check(shapes)
        if architecture.encoder is None:
            raise ValueError(f"{place}: a codec without an encoder")
        self._encoder = SpeechEncoder(file.read("encoder.", shapes), architecture.encoder, device=_CPU)
        model = Code2WavModel(file.read("decoder.", shapes), architecture.decoder, device=_CPU)
        self._decoder = StreamDecoder(model, rows=1)

    def __call__(self, samples: Samples, rate: int) -> Samples:
        """Mono samples [n] -> the same speech after the codec, at 24 kHz, whole frames."""
        with torch.inference_mode():
            heard = torch.from_numpy(resample(samples, rate, SAMPLE_RATE).copy())
            codes = self._encoder(heard).numpy().astype(np.int16)
        row = self._decoder.begin(None)
        chunks = [codes[start : start + _FRAMES] for start in range(0, len(codes), _FRAMES)]
        spoken = [self._decoder.decode([row], chunk[None])[0] for chunk in chunks]
        self._decoder.end(row)
        return np.concatenate(spoken)


def _weights(place: Path) -> Path:
    if place.is_file():
        return place
    below = place / "speech_tokenizer"
    return (below if below.is_dir() else place) / "model.safetensors"


def _architecture(weights: Path) -> CodecArchitecture:
    described = weights.with_name("config.json")
    if not described.exists():
        return codec_architecture(config.load())
    return read_codec(read_json(described), described)
