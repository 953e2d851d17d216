"""Commands: training produces a talker for a folder, and assembling reports missing parts."""

import gzip
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint.folder import open_checkpoint
from engine.errors import CheckpointError
from engine.prompt.lexicon import LEXICON_FILE
from scripts.train_pocket import assemble as assembling
from scripts.train_pocket.assemble import assemble
from scripts.train_pocket.disassemble import disassemble
from scripts.train_pocket.talker import train
from scripts.train_pocket.talker.stand_in import write_stand_in
from scripts.train_pocket.utterances import read_plan
from tests.unit.train_pocket.small_pocket import small_pocket


@pytest.fixture(scope="module")
def pocket():
    return small_pocket()


@pytest.fixture(scope="module")
def config(pocket, tmp_path_factory):
    """The configuration file; JSON is YAML."""
    file = tmp_path_factory.mktemp("config") / "small.yaml"
    file.write_text(json.dumps(pocket.model_dump()))
    return file


def command(monkeypatch, module, *words):
    monkeypatch.setattr("sys.argv", [module.__name__, *map(str, words)])
    module.main()


def test_a_run_can_be_resumed_and_its_talker_assembled(pocket, config, tmp_path, monkeypatch, capsys):
    write_stand_in(tmp_path, pocket, utterances=120, speakers=1, words=(1, 2))
    out = tmp_path / "out"
    words = ["--data", tmp_path, "--codes", tmp_path / "codes", "--xvectors", tmp_path / "xvectors.npz", "--out", out]
    words += ["--config", config, "--device", "cpu", "--workers", 0, "--positions", 256, "--minutes", 0.01]
    command(monkeypatch, train, *words)
    command(monkeypatch, train, *words, "--resume", out)
    assert "held out: c0" in capsys.readouterr().out
    command(
        monkeypatch,
        assembling,
        *["--config", config, "--out", tmp_path / "folder", "--talker", out / "talker.safetensors", "--random-missing"],
    )
    assert "speakers emma, ava, adam" in capsys.readouterr().out
    with (tmp_path / "folder" / "speech_tokenizer" / "model.safetensors").open("r+b") as codec:
        codec.seek(-1, os.SEEK_END)
        codec.write(b"?")
    with pytest.raises(CheckpointError, match="is damaged"):
        open_checkpoint(str(tmp_path / "folder")).codec_tensors("decoder.")


def test_named_voices_are_trained_without_x_vectors(pocket, config, tmp_path, monkeypatch, capsys):
    write_stand_in(tmp_path, pocket, utterances=60, speakers=30, words=(1, 2))
    words = ["--data", tmp_path, "--codes", tmp_path / "codes", "--out", tmp_path / "out", "--config", config]
    words += ["--device", "cpu", "--workers", 0, "--positions", 256, "--minutes", 0.01]
    command(monkeypatch, train, *words, "--learning-rate", 1e-3, "--warm-up", 1, "--dropout", 0)
    named = [each for each in read_plan(tmp_path / "plan.jsonl.gz") if each.speaker in pocket.voices.named]
    assert 0 < len(named) < 60
    assert capsys.readouterr().out.startswith(f"{len(named)} utterances, ")
    assert (tmp_path / "out" / "talker.safetensors").is_file()


def test_a_folder_with_missing_parts_needs_an_explicit_option(config, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        command(monkeypatch, assembling, "--config", config, "--out", tmp_path / "folder")
    assert "missing: tokenizer, talker, speaker_encoder, codec" in capsys.readouterr().err
    assert not (tmp_path / "folder").exists()


def assemble_parts(pocket, folder, **files):
    files_by_part = {"tokenizer": None, "talker": None, "speaker_encoder": None, "codec": None} | files
    return assemble(pocket, folder, **files_by_part)


def test_the_speaker_encoder_is_scaled_to_embedding_rows(pocket, tmp_path):
    random_checkpoint = assemble_parts(pocket, tmp_path / "random")
    assert not random_checkpoint.model.trained
    tensors = {
        f"speaker_encoder.{name}": tensor for name, tensor in random_checkpoint.tensors("speaker_encoder.").items()
    }
    save_file(tensors, tmp_path / "speaker_encoder.safetensors")
    scaled = assemble_parts(pocket, tmp_path / "scaled", speaker_encoder=tmp_path / "speaker_encoder.safetensors")
    stored, weight = load_file(scaled.folder / "model.safetensors"), tensors["speaker_encoder.fc.weight"]
    torch.testing.assert_close(stored["speaker_encoder.fc.weight"], weight * pocket.talker.xvector_scale)
    torch.testing.assert_close(stored["speaker_encoder.mfa.conv.weight"], tensors["speaker_encoder.mfa.conv.weight"])


def test_a_part_that_does_not_fit_is_refused_by_name(pocket, tmp_path):
    save_file({"talker.model.norm.weight": torch.ones(3)}, tmp_path / "talker.safetensors")
    with pytest.raises(CheckpointError, match=r"talker\.model\.text_embedding\.weight"):
        assemble_parts(pocket, tmp_path / "folder", talker=tmp_path / "talker.safetensors")


def test_a_folder_that_was_taken_apart_can_be_assembled_again(pocket, tmp_path):
    parts = tmp_path / "parts"
    folder = Path(
        assemble(pocket, tmp_path / "folder", tokenizer=None, talker=None, speaker_encoder=None, codec=None).folder
    )
    (folder / LEXICON_FILE).write_bytes(gzip.compress(b"zephyr z1efxr\n"))
    disassemble(folder, pocket, parts)
    again = assemble(
        pocket,
        tmp_path / "again",
        tokenizer=parts / "tokenizer",
        talker=parts / "talker.safetensors",
        speaker_encoder=parts / "speaker_encoder.safetensors",
        codec=parts / "codec.safetensors",
        lexicon=parts / LEXICON_FILE,
    )
    for name in ("model.safetensors", "speech_tokenizer/model.safetensors", "vocab.json", LEXICON_FILE):
        assert (Path(again.folder) / name).read_bytes() == (folder / name).read_bytes()
