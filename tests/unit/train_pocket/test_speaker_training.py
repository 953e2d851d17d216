"""Training of the speaker encoder: data, objective, and progress."""

import math

import numpy as np
import pytest
import torch

from scripts.train_pocket import degrade
from scripts.train_pocket.config import load as load_config
from scripts.train_pocket.folder import model_architecture
from scripts.train_pocket.speaker import corpus as audio
from scripts.train_pocket.speaker import embed, train
from scripts.train_pocket.speaker.augment import Augmenter
from scripts.train_pocket.speaker.evaluate import equal_error_rate, variance_within
from scripts.train_pocket.speaker.folding import load
from scripts.train_pocket.speaker.mel import log_mels
from scripts.train_pocket.speaker.objective import SpeakerObjective
from scripts.train_pocket.speaker.shards import mixtures, shards
from scripts.train_pocket.speaker.trainer import Trainer
from tests.unit.train_pocket.speaker_audio import write_corpus

CPU = torch.device("cpu")
SMALL = {"batch_seconds": 12, "crop_seconds": [1.0], "hours": 0.005, "learning_rate": 5e-4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("audio"), speakers=10, utterances=9)


@pytest.fixture(scope="module")
def corpus(folder):
    return audio.load(folder, folder / "plan.jsonl.gz", 1.0, CPU)


@pytest.fixture
def pocket():
    pocket = load_config()
    return pocket.model_copy(update={"speaker_training": pocket.speaker_training.model_copy(update=SMALL)})


def test_a_corpus_is_the_concatenation_of_all_shards(folder, corpus):
    files = list(shards(folder))
    assert len(files) > 1
    np.testing.assert_array_equal(corpus.samples.numpy(), np.concatenate([shard.samples() for shard in files]))
    assert corpus.lengths.sum() == len(corpus.samples)
    assert corpus.names == [f"s{i:02d}" for i in range(10)]


def test_loads_only_as_many_shards_as_needed(folder):
    corpus = audio.load(folder, folder / "plan.jsonl.gz", 1 / 3600, CPU)
    assert len(corpus.samples) == next(iter(shards(folder))).starts[-1]


def test_a_crop_is_taken_from_its_utterance_and_a_short_one_is_repeated(corpus):
    first, length = int(corpus.starts[5]), int(corpus.lengths[5])
    own = corpus.samples[first : first + length].float() / 32768
    last, whole = corpus.crops(torch.tensor([5, 5]), length - 100, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(last, own[100:])
    torch.testing.assert_close(whole, own[:-100])
    repeated = corpus.crops(torch.tensor([5]), length + 50, torch.tensor([0.7]))[0]
    torch.testing.assert_close(repeated, torch.cat((own, own[:50])))


def test_held_out_speakers_are_in_no_other_part(corpus):
    split = audio.split(corpus, 40, seed=1)
    parts = [set(corpus.speakers[part].tolist()) for part in (split.train, split.seen, split.unseen)]
    assert len(parts[2]) == 1
    assert parts[0] == parts[1] == set(range(10)) - parts[2]
    assert len(split.seen) == 2 * 9
    assert torch.cat((split.train, split.seen, split.unseen)).sort().values.equal(torch.arange(90))


def test_the_sampler_draws_every_utterance_of_its_part_only(corpus):
    utterances = torch.tensor([80, 3, 17])
    drawn = audio.Sampler(corpus, utterances).draw(200)
    assert set(drawn.tolist()) == {3, 17, 80}


def test_augmented_clips_are_finite_differ_and_stay_in_range(corpus):
    clips = corpus.crops(torch.arange(60), 24000, torch.zeros(60))
    augmented = Augmenter(torch.Generator().manual_seed(1))(clips)
    assert augmented.shape == clips.shape
    assert augmented.isfinite().all() and augmented.abs().max() <= 1
    similarity = torch.nn.functional.cosine_similarity(augmented, clips)
    assert (similarity > 0.999).any() and (similarity < 0.9).any()


def test_silence_can_be_augmented():
    assert Augmenter(torch.Generator().manual_seed(1))(torch.zeros(40, 24000)).isfinite().all()


def test_the_margin_increases_the_loss():
    objective = SpeakerObjective(8, torch.eye(5), scale=30)
    cosines = torch.tensor([[0.9, 0.1, 0, 0, 0], [-0.999, 0.1, 0, 0, 0]])
    speakers = torch.tensor([0, 0])
    easy, hard = (objective.speaker_loss(cosines, speakers, margin) for margin in (0, 0.2))
    assert hard > easy
    with_margin = torch.tensor([[math.cos(math.acos(0.9) + 0.2), 0.1, 0, 0, 0]])
    torch.testing.assert_close(
        objective.speaker_loss(cosines[:1], speakers[:1], 0.2), objective.speaker_loss(with_margin, speakers[:1], 0)
    )


def test_equal_error_rate_is_0_for_separated_speakers_and_one_half_by_chance():
    speakers = torch.arange(20) // 2
    assert equal_error_rate(torch.eye(10)[speakers], speakers) == 0
    assert variance_within(torch.eye(10)[speakers], speakers) == 0
    random = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    assert equal_error_rate(random, torch.arange(300) // 6) == pytest.approx(0.5, abs=0.05)


def test_training_reduces_the_losses(folder, corpus, pocket):
    torch.manual_seed(1)
    mixed = torch.from_numpy(mixtures(folder / "speakers.json", corpus.names))
    architecture = model_architecture(pocket).speaker_encoder
    trainer = Trainer(pocket.speaker_training, architecture, corpus, torch.arange(90), mixed)
    losses = torch.stack([trainer.step(0.05) for _ in range(12)])
    assert losses.isfinite().all()
    assert losses[-3:, :2].mean(0).le(0.8 * losses[0, :2]).all()


def test_a_run_resumes_from_its_output_and_its_vectors_have_unit_size(folder, pocket, tmp_path):
    paths = {"audio_folder": folder, "plan": folder / "plan.jsonl.gz", "speakers": folder / "speakers.json"}
    train.train(pocket, **paths, out=tmp_path, minutes=1e-4, device=CPU)
    first = torch.load(tmp_path / "speaker_encoder_training.pt", weights_only=True)
    weights = train.train(pocket, **paths, out=tmp_path, minutes=1e-2, device=CPU)
    state = torch.load(tmp_path / "speaker_encoder_training.pt", weights_only=True)
    assert state["seconds"] == pytest.approx(0.6)
    assert state["steps"] > first["steps"]
    file = tmp_path / "xvectors.npz"
    words = (
        f"--audio {folder} --plan {folder}/plan.jsonl.gz --weights {weights} --out {file} --per-speaker 3 "
        "--degraded 0 --device cpu"
    )
    embed.main(words.split())
    with np.load(file) as vectors_file:
        names, counts = np.unique(vectors_file["speakers"], return_counts=True)
        assert names.tolist() == [f"s{i:02d}" for i in range(10)]
        assert (counts == 3).all()
        assert [f"s{number % 10:02d}" for number in vectors_file["ids"]] == vectors_file["speakers"].tolist()
        assert vectors_file["vectors"].dtype == np.float16 and vectors_file["vectors"].shape == (30, 320)
        assert np.sqrt(np.square(vectors_file["vectors"].astype(np.float32)).mean()) == pytest.approx(1, abs=0.2)


def test_a_run_begins_with_the_weights_of_an_earlier_one(folder, corpus, pocket, tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.train_pocket.speaker.trainer._NORM_CLIPS", 80)
    paths = {"audio_folder": folder, "plan": folder / "plan.jsonl.gz", "speakers": folder / "speakers.json"}
    weights = train.train(pocket, **paths, out=tmp_path / "first", minutes=1e-4, device=CPU)
    architecture = model_architecture(pocket).speaker_encoder
    first = load(weights, architecture, CPU)
    mixed = torch.from_numpy(mixtures(folder / "speakers.json", corpus.names))
    trainer = Trainer(pocket.speaker_training, architecture, corpus, torch.arange(90), mixed)
    trainer.begin_with(weights)
    clips = corpus.crops(torch.arange(20), 24000, torch.zeros(20))
    with torch.no_grad():
        own = trainer.encoder.eval()(log_mels(clips, 24000, architecture.mel_dim))
        others = first(log_mels(clips, 24000, architecture.mel_dim))
    distances = torch.cdist(own, own), torch.cdist(others, others)
    assert np.corrcoef(*(each.flatten().numpy() for each in distances))[0, 1] > 0.8
    torch.testing.assert_close(trainer.objective.centres.norm(dim=1), torch.ones(10))


def test_a_share_of_the_recordings_is_degraded_and_keeps_ids_and_lengths(folder, tmp_path):
    degrade.main(f"--audio {folder} --out {tmp_path} --share 0.4 --device cpu".split())
    clean = {number: clip for shard in shards(folder) for number, clip in _clips(shard)}
    degraded = {number: clip for shard in shards(tmp_path) for number, clip in _clips(shard)}
    assert sorted(degraded) == [number for number in range(90) if degrade.is_selected(number, 0.4)]
    assert 20 < len(degraded) < 50
    assert all(len(clip) == len(clean[number]) for number, clip in degraded.items())
    assert all((clip != clean[number]).any() for number, clip in degraded.items())


def _clips(shard):
    samples = shard.samples()
    return [
        (number, samples[first:end])
        for number, first, end in zip(shard.ids.tolist(), shard.starts, shard.starts[1:], strict=False)
    ]
