"""A codec without its talker: encodes and decodes recordings."""

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
    """Encodes and decodes like the engine, on a CPU.

    path: a checkpoint folder, its speech_tokenizer folder, or a safetensors file. Without a config.json in the same
    folder, the architecture is that of pocket.yaml. Raises CheckpointError when the file does not match it.
    """

    def __init__(self, path: Path) -> None:
        weights = _weights(path)
        architecture = _architecture(weights)
        file, shapes = TensorFile(weights), codec_shapes(architecture)
        file.check(shapes)
        if architecture.encoder is None:
            raise ValueError(f"{path} has no speech encoder")
        self._encoder = SpeechEncoder(file.read("encoder.", shapes), architecture.encoder, device=_CPU)
        model = Code2WavModel(file.read("decoder.", shapes), architecture.decoder, device=_CPU)
        self._decoder = StreamDecoder(model, rows=1)

    def __call__(self, samples: Samples, rate: int) -> Samples:
        """Encode and decode mono samples [n]. Returns complete frames at 24 kHz."""
        with torch.inference_mode():
            speech = torch.from_numpy(resample(samples, rate, SAMPLE_RATE).copy())
            codes = self._encoder(speech).numpy().astype(np.int16)
        row = self._decoder.begin(None)
        chunks = [codes[start : start + _FRAMES] for start in range(0, len(codes), _FRAMES)]
        decoded = [self._decoder.decode([row], chunk[None])[0] for chunk in chunks]
        self._decoder.end(row)
        return np.concatenate(decoded)


def _weights(path: Path) -> Path:
    if path.is_file():
        return path
    subfolder = path / "speech_tokenizer"
    return (subfolder if subfolder.is_dir() else path) / "model.safetensors"


def _architecture(weights: Path) -> CodecArchitecture:
    config_file = weights.with_name("config.json")
    if not config_file.exists():
        return codec_architecture(config.load())
    return read_codec(read_json(config_file), config_file)
