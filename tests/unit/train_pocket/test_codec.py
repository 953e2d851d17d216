"""The trained codec equals the codec that the engine runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.models.code2wav import Code2WavModel
from engine.models.speech_encoder import SpeechEncoder
from scripts.train_pocket import config, folder
from scripts.train_pocket.audio_shards import Clip, ShardWriter
from scripts.train_pocket.codec.audio import Audio, shards
from scripts.train_pocket.codec.model import Codec
from scripts.train_pocket.codec.quantizer import Codebook
from scripts.train_pocket.utterances import FIRST_RECORDED

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def codec() -> Codec:
    torch.manual_seed(1)
    codec = Codec(folder.codec_architecture(config.load())).eval()
    for module in codec.modules():
        if isinstance(module, Codebook):
            module.embed_sum.mul_(0.05)
    return codec


@pytest.fixture(scope="module")
def samples() -> torch.Tensor:
    torch.manual_seed(2)
    return 0.1 * torch.randn(1, 1920 * 20)


def test_the_engine_encodes_the_same_codes_as_training(codec, samples):
    tensors = {n.removeprefix("encoder."): t for n, t in codec.published().items() if n.startswith("encoder.")}
    engine = SpeechEncoder(tensors, codec.sizes.encoder, device=CPU)
    with torch.no_grad():
        latents = codec.encoder(samples)
        codes = codec.quantizer(latents).codes
    torch.testing.assert_close(engine.latents(samples[0]), latents[0], rtol=0, atol=1e-4)
    assert (engine(samples[0]) == codes[0]).float().mean() > 0.99


def test_the_engine_decodes_the_same_samples_as_training(codec, samples):
    tensors = {n.removeprefix("decoder."): t for n, t in codec.published().items() if n.startswith("decoder.")}
    engine = Code2WavModel(tensors, codec.sizes.decoder, device=CPU)
    with torch.inference_mode():
        codes = codec.quantizer(codec.encoder(samples)).codes
        expected = codec.decoder.samples(codec.decoder.latents(codec.quantizer.lookup(codes)))
        decoded, _ = engine.decode(
            codes, [torch.zeros((1, *state.shape), dtype=state.dtype) for state in engine.states]
        )
    torch.testing.assert_close(decoded, expected.clamp(-1, 1), rtol=0, atol=1e-4)


def test_published_tensors_restore_the_codec(codec, samples):
    restored = Codec(codec.sizes).eval()
    restored.load_published(codec.published())
    with torch.no_grad():
        assert torch.equal(
            restored.quantizer(restored.encoder(samples)).codes, codec.quantizer(codec.encoder(samples)).codes
        )
        assert torch.equal(restored(samples).vectors, codec(samples).vectors)


def test_pieces_begin_in_recordings_as_often_as_asked_for(tmp_path):
    writer = ShardWriter(tmp_path, 0, 1)
    for number, label in [(0, 7)] * 9 + [(FIRST_RECORDED, 1)]:
        writer.add(number, Clip(np.zeros(4 * 1920, np.int16), np.full((4, 4), label, np.int16)))
    for share, expected in ((None, 0.1), (0.6, 0.6), (1.0, 1.0)):
        audio = Audio(shards(tmp_path), CPU, share)
        labels = audio.draw(2000, 1, torch.Generator().manual_seed(0)).labels
        assert (labels == 1).float().mean().item() == pytest.approx(expected, abs=0.05)
    with pytest.raises(ValueError, match="from 0 to 1, got 40"):
        Audio(shards(tmp_path), CPU, 40)
