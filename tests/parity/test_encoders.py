"""Both encoders of reference recordings match the reference implementation."""

import numpy as np
import pytest
import soundfile
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.cloning.encoder import ReferenceEncoder
from engine.cloning.resampling import resample
from engine.models.speaker_encoder import SpeakerEncoder
from engine.models.speech_encoder import SpeechEncoder
from engine.protocol.messages import EncodeRequest
from engine.protocol.request import SAMPLE_RATE
from tests.parity import golden_cases
from tests.support.reference_voices import log_mel
from tests.support.talkers import DEVICE

SAFE_MARGIN = 1e-3
"""Minimum distance to the next codeword: with less a code may differ, and all later codes of the frame."""


def assert_embeddings_agree(embedding, expected):
    """Relative tolerance of 1e-5: values are up to 139, where an absolute error of 1e-5 is less than the last bit."""
    assert np.abs(embedding - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())


def assert_codes_agree(codes, expected, margins):
    assert codes.shape == expected.shape
    safe = np.logical_and.accumulate(margins > SAFE_MARGIN, axis=1)
    assert safe.mean() > 0.5
    assert np.array_equal(codes[safe], expected[safe])


@pytest.mark.parametrize("name", ["1s", "31234", "3s04", "12s"])
def test_the_speech_encoder_matches_the_reference(name, checkpoints):
    golden = golden_cases.load("encoder_only")
    checkpoint = open_checkpoint(str(checkpoints["1b7-base"]))
    encoder = SpeechEncoder(checkpoint.codec_tensors("encoder."), checkpoint.codec.encoder, device=DEVICE)
    samples = torch.from_numpy(golden[f"wav_{name}"])
    with torch.inference_mode():
        assert np.abs(encoder.latents(samples).cpu().numpy() - golden[f"latent_{name}"]).max() < 1e-4
        assert_codes_agree(encoder(samples).cpu().numpy(), golden[f"codes_{name}"], golden[f"margin_{name}"])


@pytest.mark.parametrize("variant", ["0b6-base", "1b7-base"])
@pytest.mark.parametrize("name", ["2s", "5s"])
def test_the_speaker_encoder_matches_the_reference(variant, name, checkpoints):
    golden = golden_cases.load("speaker_encoder")
    checkpoint = open_checkpoint(str(checkpoints[variant]))
    encoder = SpeakerEncoder(checkpoint.tensors("speaker_encoder."), checkpoint.model.speaker_encoder, device=DEVICE)
    expected = golden[f"emb_{variant}_{name}"]
    with torch.inference_mode():
        embedding = encoder(torch.from_numpy(golden[f"wav_{name}"])).cpu().numpy()
    assert_embeddings_agree(embedding, expected)


def test_mel_frames_match_the_reference():
    golden = golden_cases.load("speaker_encoder")
    [name] = [key for key in golden if key.startswith("mel_")]
    samples = torch.from_numpy(golden[name.replace("mel", "wav")])
    assert np.abs(log_mel(samples, 24_000, 128).numpy().T - golden[name]).max() < 1e-4


@pytest.mark.parametrize("case", [name for name in golden_cases.TALKER_CASES if name.startswith(("icl", "xvec"))])
def test_an_encoded_recording_matches_the_reference(case, checkpoints):
    golden = golden_cases.load(case)
    meta = golden["meta"]
    samples, rate = soundfile.read(golden_cases.FOLDER / f"ref_{meta['ref']}.wav", dtype="float32")
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoints[meta["variant"]])), DEVICE)
    resampled = resample(samples, rate, SAMPLE_RATE)
    voice = encoder.encode(EncodeRequest(resampled, codes="ref_codes" in golden))
    assert_embeddings_agree(voice.embedding, golden["spk_embedding"])
    if "ref_codes" in golden:
        assert_codes_agree(voice.codes, golden["ref_codes"], golden["ref_margins"])
