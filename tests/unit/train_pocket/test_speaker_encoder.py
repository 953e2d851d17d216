"""The trained speaker encoder, once folded, equals the one that the engine runs."""

import pytest
import torch

from engine.checkpoint.layout import model_shapes
from engine.models.speaker_encoder import SpeakerEncoder
from scripts.train_pocket.config import load as load_config
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.speaker import folding
from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.speaker.mel import log_mels
from scripts.train_pocket.speaker.unfolding import unfold
from tests.support.reference_voices import log_mel

ARCHITECTURE = model_architecture(load_config())
ENCODER = ARCHITECTURE.speaker_encoder


@pytest.fixture(scope="module")
def clips():
    return 0.1 * torch.randn(3, 24000, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def trained(clips):
    """An encoder with batch norms that have distinct statistics."""
    torch.manual_seed(2)
    encoder = Ecapa(ENCODER, training_norms=True)
    for module in encoder.modules():
        if isinstance(module, torch.nn.BatchNorm1d) and module.affine:
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
    for gain in (0.3, 1, 3):
        encoder(log_mels(gain * clips, 24000, ENCODER.mel_dim))
    return encoder.eval()


def test_batched_mels_equal_those_of_the_engine(clips):
    mels = log_mels(clips, 24000, 128)
    for clip, mel in zip(clips, mels, strict=True):
        torch.testing.assert_close(mel, log_mel(clip, 24000, 128))


def test_folding_keeps_the_function(trained, clips):
    mels = log_mels(clips, 24000, ENCODER.mel_dim)
    with torch.no_grad():
        torch.testing.assert_close(folding.fold(trained, ENCODER)(mels), trained(mels), rtol=1e-3, atol=1e-3)


def test_the_engine_computes_the_same_vectors_from_the_file(trained, clips, tmp_path):
    file = tmp_path / "speaker_encoder.safetensors"
    folding.save(folding.fold(trained, ENCODER), file)
    trained_encoder = folding.load(file, ENCODER, torch.device("cpu"))
    tensors = {name.removeprefix("speaker_encoder."): value for name, value in folding.load_file(file).items()}
    engine_encoder = SpeakerEncoder(tensors, ENCODER, device=torch.device("cpu"))
    vectors = trained_encoder(log_mels(clips, 24000, ENCODER.mel_dim))
    for clip, vector in zip(clips, vectors, strict=True):
        torch.testing.assert_close(vector, engine_encoder(clip), rtol=1e-4, atol=1e-4)


def test_the_file_contains_the_tensors_of_the_layout(trained, tmp_path):
    file = tmp_path / "speaker_encoder.safetensors"
    folding.save(folding.fold(trained, ENCODER), file)
    shapes = {name: tuple(tensor.shape) for name, tensor in folding.load_file(file).items()}
    expected = {
        name: shape for name, shape in model_shapes(ARCHITECTURE).items() if name.startswith("speaker_encoder.")
    }
    assert shapes == expected


def test_calibrated_vectors_are_centered_over_speakers_and_have_unit_size(trained, clips):
    encoder = folding.fold(trained, ENCODER)
    mels = log_mels(clips, 24000, ENCODER.mel_dim)
    speakers = torch.tensor([4, 0, 0])
    folding.calibrate(encoder, encoder(mels), speakers)
    vectors = encoder(mels)
    means = torch.stack((vectors[0], vectors[1:].mean(0)))
    torch.testing.assert_close(means.mean(0), torch.zeros(320), atol=1e-3, rtol=0)
    torch.testing.assert_close(vectors.square().mean(1).sqrt().mean(), torch.tensor(1.0), atol=1e-3, rtol=0)


def test_an_encoder_with_new_norms_begins_with_the_function_of_the_file(trained, clips, tmp_path):
    file = tmp_path / "speaker_encoder.safetensors"
    folding.save(folding.fold(trained, ENCODER), file)
    loaded = folding.load(file, ENCODER, torch.device("cpu"))
    mels = log_mels(torch.cat((clips, 0.3 * clips, 3 * clips)), 24000, ENCODER.mel_dim)
    begun = Ecapa(ENCODER, training_norms=True)
    unfold(begun, file, mels)
    with torch.no_grad():
        expected = loaded(mels)
        centered = (expected - expected.mean(0)) / expected.var(0, unbiased=False).add(1e-5).sqrt()
        torch.testing.assert_close(begun.eval()(mels), centered, rtol=1e-2, atol=1e-2)


def test_a_file_of_another_architecture_is_refused(tmp_path):
    other = Ecapa(ENCODER, training_norms=False)
    del other.fc
    file = tmp_path / "speaker_encoder.safetensors"
    folding.save(other, file)
    with pytest.raises(ValueError, match="another speaker encoder"):
        unfold(Ecapa(ENCODER, training_norms=True), file, torch.zeros(1, ENCODER.mel_dim, 20))
