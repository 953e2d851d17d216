"""The aligner's training, at a small scale: the exported network is the trained one, and it learns."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.train_aligner import __main__ as command
from scripts.train_aligner.augment import augment, interpolated, mel_power, positions, scaled_log
from scripts.train_aligner.batches import Batches
from scripts.train_aligner.convert_examples import read_examples
from scripts.train_aligner.corpus import Utterance
from scripts.train_aligner.network import AlignerNetwork, export
from scripts.train_aligner.training import Trainer, batch_losses
from scripts.train_pocket.audio_shards import Clip, ShardWriter
from scripts.train_pocket.utterances import PlannedUtterance, write_plan
from server.alignment.aligner import Aligner
from server.alignment.features import log_mel
from server.alignment.network import Network, scores
from server.alignment.tokens import tokens_of

SOUNDS = "aeimnost"
VOCABULARY = {symbol: index + 1 for index, symbol in enumerate(' ;:,.!?—…"()“”ˈˌː' + SOUNDS)}
FRAME = 1920


def samples(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(0, 3000, count).astype(np.int16)


def test_features_are_the_servers() -> None:
    audio = samples(24_000)
    ours = scaled_log(mel_power(torch.from_numpy(audio).float()[None] / 32768))[0].numpy()
    assert np.allclose(ours, log_mel(audio), atol=1e-3)


def test_the_exported_network_gives_the_same_scores(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = AlignerNetwork()
    features, ids = torch.randn(2, 1200, 64), torch.randint(0, 60, (2, 40))
    for _ in range(3):  # batch norms need statistics
        network(features, torch.ones(2, 1200), ids, torch.ones(2, 40))
    network.eval()
    export(network, tmp_path / "weights.npz")
    with torch.no_grad():
        expected = network(features, torch.ones(2, 1200), ids, torch.ones(2, 40))[0].numpy()
    exported = Network.read(tmp_path / "weights.npz")
    for row in range(2):
        frames, tokens = exported.encode_frames(features[row].numpy()), exported.encode_tokens(ids[row].numpy())
        assert np.allclose(scores(frames, tokens, np.zeros(40, np.bool_)), expected[row], atol=0.1)


def test_padding_does_not_change_the_scores() -> None:
    torch.manual_seed(0)
    network = AlignerNetwork().eval()
    features, ids = torch.randn(1, 50, 64), torch.randint(0, 60, (1, 9))
    mask, token_mask = torch.ones(1, 60), torch.ones(1, 12)
    mask[:, 50:] = token_mask[:, 9:] = 0
    alone = network(features, torch.ones(1, 50), ids, torch.ones(1, 9))[0]
    padded = network(
        torch.randn(1, 60, 64).index_copy(1, torch.arange(50), features), mask, ids.repeat(1, 2)[:, :12], token_mask
    )[0]
    assert torch.allclose(alone, padded[:, :50, :9], atol=1e-4)


def test_augmented_speech_is_finite_at_any_rate() -> None:
    torch.manual_seed(0)
    power = mel_power(torch.randn(8, 24_000) * 0.1)
    for _ in range(5):
        features = scaled_log(augment(power))
        assert torch.isfinite(features).all()
        assert features.shape == power.shape
    assert interpolated(features, positions(100, 0.8, features.device)).shape == (8, 125, 64)


def tone_words(random: np.random.Generator) -> tuple[list[str], Clip]:
    """Words of tones, a pitch for each letter, 80 ms long."""
    words = ["".join(random.choice(list(SOUNDS), 3)) for _ in range(4)]
    labels = [0] * 4 + [VOCABULARY[letter] for word in words for letter in word for _ in range(4)] + [0] * 4
    time = np.arange(480) / 24_000
    tones = [np.sin(2 * np.pi * 200 * label * time) * 8000 * (label > 0) for label in labels]
    noise = random.normal(0, 20, 480 * len(labels))
    audio = (np.concatenate(tones) + noise).astype(np.int16)
    return words, Clip(audio, np.array(labels, np.int16).reshape(-1, 4))


def test_the_command_writes_weights_and_examples_and_prints_the_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    writer, plan = ShardWriter(tmp_path / "audio", 0, 10**9), []
    for number in range(60):
        words, clip = tone_words(random)
        writer.add(number, clip)
        plan.append(PlannedUtterance(number, " ".join(words), " ".join(words), "one", 1.0, "american"))
    writer.flush()
    write_plan(tmp_path / "plan.jsonl", plan)
    (tmp_path / "vocab.json").write_text(json.dumps(VOCABULARY))
    files = ["--audio", tmp_path / "audio", "--plan", tmp_path / "plan.jsonl", "--vocabulary", tmp_path / "vocab.json"]
    sizes = ["--minutes", "0.03", "--frames", "400", "--device", "cpu", "--out", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", ["train_aligner", *map(str, [*files, *sizes])])
    command.main()
    *_, losses, errors = capsys.readouterr().out.splitlines()
    assert "loss=" in losses
    assert "start_ms median=" in errors
    text, audio = " ".join(words), clip.samples
    aligned = Aligner(Network.read(tmp_path / "out" / command.WEIGHTS)).align(audio, text)
    assert [word.word for word in aligned] == text.split()
    (first, *_) = read_examples(tmp_path / "out" / command.EXAMPLES)
    assert len(first.times) == len(first.text.split())


def test_it_learns_which_frames_belong_to_which_word() -> None:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    spoken = [tone_words(random) for _ in range(8)]
    spans = np.array([[4 + 12 * word, 16 + 12 * word] for word in range(4)])
    corpus = [
        Utterance(" ".join(words), "one", clip.samples, clip.labels.reshape(-1), tokens_of(words), spans)
        for words, clip in spoken
    ]
    (batch,) = islice(Batches(corpus, 2000, torch.device("cpu")), 1)
    network = AlignerNetwork()
    trainer = Trainer(network, minutes=60)
    before = float(batch_losses(network, batch)[0].detach())
    for _ in range(12):
        trainer.step(batch)
    assert float(batch_losses(network, batch)[0].detach()) < 0.8 * before
