"""Encoding of reference recordings on a GPU in captured batches, against plain torch in float32 on the CPU."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.lib.fullsize import full_size_codec
from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from engine.checkpoint.config import read_codec
from engine.checkpoint.folder import open_checkpoint
from engine.checkpoint.layout import codec_shapes, model_shapes
from engine.cloning.networks import MIN_SAMPLES, ReferenceNetworks, captured_sizes
from tests.support.random_checkpoint.weights import write_weights
from tests.support.reference_voices import assert_same_voice, margins, recording
from tests.support.talkers import DEVICE

SIZES = captured_sizes()
SHORTER = (MIN_SAMPLES, 31_234, 50 * 1920, 50 * 1920 - 1)
"""Lengths in samples of the shorter recordings in a batch."""


def published(model, folder: Path) -> SimpleNamespace:
    """The parts of a checkpoint that ReferenceNetworks uses, at the published sizes."""
    speaker = SpeakerEncoderArchitecture(
        mel_dim=128,
        width=2048,
        channels=(512, 512, 512, 512, 1536),
        kernel_sizes=(5, 3, 3, 3, 1),
        dilations=(1, 2, 3, 4, 1),
        attention_channels=128,
        res2net_scale=8,
        se_channels=128,
        sample_rate=24_000,
    )
    codec = read_codec(full_size_codec(), folder / "config.json")
    shapes = model_shapes(replace(model, speaker_encoder=speaker)) | codec_shapes(codec)
    encoder_shapes = {
        name: shape for name, shape in shapes.items() if name.startswith(("speaker_encoder.", "encoder."))
    }
    write_weights(folder / "model.safetensors", encoder_shapes, "published", torch.float32)
    tensors = load_file(folder / "model.safetensors")

    def under(prefix: str) -> dict[str, torch.Tensor]:
        return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}

    return SimpleNamespace(
        model=SimpleNamespace(speaker_encoder=speaker), codec=codec, tensors=under, codec_tensors=under
    )


class EncoderPair:
    """The captured encoders of a checkpoint on the device, and the expected voices from the CPU."""

    def __init__(self, checkpoint) -> None:
        self.checkpoint = checkpoint
        self.captured = ReferenceNetworks(checkpoint, DEVICE)
        self.captured.capture(SIZES)
        self._reference = ReferenceNetworks(checkpoint, torch.device("cpu"))
        self._voices = {}

    def expected(self, length: int):
        """The voice of a recording, and the margins of its codes."""
        if length not in self._voices:
            samples = recording(length)
            [voice] = self._reference.encode([samples], [True])
            self._voices[length] = voice, margins(self._reference._speech, samples)
        return self._voices[length]


@pytest.fixture(scope="module", params=["small", "published"])
def encoders(request, checkpoints, tmp_path_factory) -> EncoderPair:
    small = open_checkpoint(str(checkpoints["1b7-base"]))
    return EncoderPair(
        small if request.param == "small" else published(small.model, tmp_path_factory.mktemp("published"))
    )


def lengths_of(size: tuple[int, int]) -> list[int]:
    """Lengths of recordings that fill a batch."""
    count, longest = size
    return [longest, *(SHORTER[row % len(SHORTER)] for row in range(count - 1))]


def assert_expected(voices, lengths, encoders: EncoderPair) -> None:
    for voice, length in zip(voices, lengths, strict=True):
        assert_same_voice(voice, *encoders.expected(length))


@pytest.mark.parametrize("size", SIZES.all, ids=lambda size: f"{size[0]}x{size[1] // 24_000}s")
def test_every_captured_batch_matches_recordings_encoded_alone(encoders, size):
    lengths = lengths_of(size)
    assert SIZES.smallest_fitting(len(lengths), max(lengths)) == size
    voices = encoders.captured.encode([recording(length) for length in lengths], [True] * len(lengths))
    assert_expected(voices, lengths, encoders)


def test_batches_are_independent(encoders):
    """They share their memory: each batch is encoded after smaller and after larger ones."""
    for size in [*SIZES.all, *reversed(SIZES.all)]:
        lengths = lengths_of(size)
        voices = encoders.captured.encode([recording(length) for length in lengths], [True] * len(lengths))
        assert_expected(voices, lengths, encoders)


def test_a_partial_batch_is_padded(encoders):
    lengths = [*SHORTER, MIN_SAMPLES + 1]
    voices = encoders.captured.encode([recording(length) for length in lengths], [True] * len(lengths))
    assert_expected(voices, lengths, encoders)


def test_encoding_in_a_thread_while_the_main_thread_uses_the_gpu(encoders):
    """In production, the worker's thread launches graphs captured by the main thread."""
    lengths, voices = lengths_of((4, 8 * 24_000)), []
    batch = [recording(length) for length in lengths]
    done = threading.Event()

    def encode() -> None:
        try:
            for _ in range(5):
                voices.append(encoders.captured.encode(batch, [True] * len(batch)))
        finally:
            done.set()

    threading.Thread(target=encode, daemon=True).start()
    matrix = torch.randn(2048, 2048, device=DEVICE)
    while not done.is_set():
        matrix = (matrix @ matrix).sigmoid_()
        float(matrix[0, 0])
    assert len(voices) == 5
    for result in voices:
        assert_expected(result, lengths, encoders)


def test_memory_of_a_long_recording_is_released(encoders):
    encoders.captured.encode([recording(31 * 24_000)], [True])
    reserved = torch.cuda.memory_reserved()
    encoders.captured.encode([recording(45 * 24_000)], [True])
    assert torch.cuda.memory_reserved() <= reserved


def test_without_captured_batches_recordings_are_encoded_alone(encoders):
    plain = ReferenceNetworks(encoders.checkpoint, DEVICE)
    for length in SHORTER:
        assert_expected(plain.encode([recording(length)], [True]), [length], encoders)
