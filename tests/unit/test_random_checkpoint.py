"""The bytes of random checkpoints are fixed: the goldens in tests/parity were made from exactly these files."""

import hashlib

import pytest

from engine.checkpoint.folder import open_checkpoint
from engine.prompt.builder import tasks
from tests.support.random_checkpoint import VARIANTS, write_checkpoint

COMMON = {
    "generation_config.json": "299a534475c64be5",
    "merges.txt": "98f9b5e5c7281640",
    "preprocessor_config.json": "ad630ebde37d50e6",
    "speech_tokenizer/config.json": "556b4a79edadce70",
    "speech_tokenizer/configuration.json": "9efae0fcb91c0dfa",
    "speech_tokenizer/model.safetensors": "9efd1309058e6bd1",
    "speech_tokenizer/preprocessor_config.json": "fcb3805e597e786d",
    "tokenizer_config.json": "c636ef36bb7ac27c",
    "vocab.json": "086f7d26ca3e94e6",
}
OWN = {
    "0b6-base": {"config.json": "30bd245336c6fbcc", "model.safetensors": "9a9ad4628d4109ce"},
    "0b6-custom_voice": {"config.json": "d82816341230cb1e", "model.safetensors": "191d12b3b7b1b70c"},
    "1b7-base": {"config.json": "afaec30db23df395", "model.safetensors": "30bfc45a73610cec"},
    "1b7-custom_voice": {"config.json": "dec8dbb0fd63e998", "model.safetensors": "97736cc2425e1310"},
    "1b7-voice_design": {"config.json": "f544fde1c29bc216", "model.safetensors": "7cb0156bac90e4d2"},
    "pocket": {
        "config.json": "dd6764fe458455ee",
        "generation_config.json": "302b1623d637ecc0",
        "model.safetensors": "43f94304b314ae4f",
    },
}
"""The first half of the SHA-256 of each file."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_bytes_are_written_every_time(variant, tmp_path):
    write_checkpoint(tmp_path, variant)
    written = {
        file.relative_to(tmp_path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        for file in tmp_path.rglob("*")
        if file.is_file()
    }
    assert written == COMMON | OWN[variant]


def test_the_pocket_variant_has_speakers_and_cloning_and_is_untrained(checkpoints):
    pocket = open_checkpoint(str(checkpoints["pocket"]))
    assert tasks(pocket.model) == ["CustomVoice", "Base"]
    assert pocket.codec.encoder is not None
    assert not pocket.model.trained


def test_an_interrupted_write_leaves_no_config_behind(tmp_path, monkeypatch):
    def run_out_of_disk(*_args: object, **_options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("tests.support.random_checkpoint.checkpoint.write_weights", run_out_of_disk)
    with pytest.raises(OSError, match="No space"):
        write_checkpoint(tmp_path, "pocket")
    assert not (tmp_path / "config.json").exists()


def test_refuses_an_unknown_variant(tmp_path):
    with pytest.raises(KeyError, match="0b6-voice_design"):
        write_checkpoint(tmp_path, "0b6-voice_design")
