"""The trained codec equals the codec that the engine runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.models.code2wav import Code2WavModel
from engine.models.speech_encoder import SpeechEncoder
from scripts.train_pocket import config, folder
from scripts.train_pocket.audio_shards import Clip, ShardWriter
from scripts.train_pocket.codec.audio import Audio, shards
from scripts.train_pocket.codec.discriminators import Discriminators
from scripts.train_pocket.codec.initial import initialize
from scripts.train_pocket.codec.losses import PhonemeHead, VoiceDistance
from scripts.train_pocket.codec.model import Codec
from scripts.train_pocket.codec.passes import PIECE_FRAMES, Batch, Passes
from scripts.train_pocket.codec.quantizer import Codebook
from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.utterances import FIRST_RECORDED
from tests.unit.train_pocket.small_pocket import small_pocket

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


def test_code2wav_learns_to_keep_the_voice():
    pocket = small_pocket()
    sizes = folder.model_architecture(pocket).speaker_encoder
    torch.manual_seed(3)
    voice = VoiceDistance(Ecapa(sizes, training_norms=False), sizes)
    sizes_of_codec = folder.codec_architecture(pocket)
    decoder = replace(sizes_of_codec.decoder, sliding_window=PIECE_FRAMES)
    codec = Codec(replace(sizes_of_codec, decoder=decoder))
    initialize(codec)
    encoded = codec.quantizer(codec.encoder(torch.zeros(1, 1920 * 4))).codes
    batch = Batch(2, CPU)
    batch.samples.normal_(std=0.1)
    batch.frames.copy_(torch.arange(len(batch.frames)))
    batch.kept.copy_(torch.arange(len(batch.kept)))
    batch.real.copy_(batch.samples[:, : len(batch.kept)])
    passes = Passes(
        codec, Discriminators(), PhonemeHead(32, 4), batch, correlation_weight=0.0, frozen=True, voice=voice
    )
    optimizer = torch.optim.AdamW(passes.codec_parameters(), 3e-3)
    distances = []
    for _ in range(8):
        distances.append(passes.codec_pass(adversarial=False).figures["voice"].item())
        optimizer.step()
    assert distances[-1] < 0.5 * distances[0]
    assert torch.equal(codec.quantizer(codec.encoder(torch.zeros(1, 1920 * 4))).codes, encoded)


def test_equal_recordings_have_the_same_voice():
    sizes = folder.model_architecture(small_pocket()).speaker_encoder
    torch.manual_seed(3)
    distance, samples = VoiceDistance(Ecapa(sizes, training_norms=False), sizes), torch.randn(2, 24_000)
    assert distance(samples, samples).item() == pytest.approx(0, abs=1e-5)
    assert distance(samples.cumsum(1) / 30, samples).item() > 1e-3
