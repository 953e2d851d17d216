"""Packed checkpoints: their weights and speech, and errors where versions or formats do not match."""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.checkpoint.checksums import SUMS_FILE
from engine.checkpoint.folder import open_checkpoint
from engine.checkpoint.packing import packed_shapes
from engine.checkpoint.speech_profile import PROFILE_FILE
from engine.config import EngineConfig, TalkerConfig
from engine.errors import CheckpointError, SetupError
from engine.kernels.quantization import GroupCodes, quantize_groups
from engine.pack import pack
from engine.prompt.lexicon import LEXICON_FILE
from engine.talker.native.input_moments import measure_input_moments
from engine.talker.native.weight_formats import configured_format
from tests.support.talkers import assert_same, bit_for_bit, native_talker, prepare, speak, various_requests
from tests.unit.corrupt_checkpoint import open_error, rewrite

CPU = torch.device("cpu")
ORIGINAL = "1b7-custom_voice"
MODEL, CONFIG = "model.safetensors", "config.json"


@pytest.fixture(scope="module", params=["int8", "int4"])
def packed(request, opened, tmp_path_factory):
    """A packed checkpoint, and its format."""
    folder = tmp_path_factory.mktemp("packed") / request.param
    pack(opened[ORIGINAL], folder, request.param)
    return folder, request.param


@pytest.fixture
def folder(packed, tmp_path) -> Path:
    """A copy of a packed checkpoint without checksums, to be changed."""
    copy = shutil.copytree(packed[0], tmp_path / "packed")
    (copy / SUMS_FILE).unlink()
    return copy


@bit_for_bit
def test_auto_is_the_format_of_a_packed_checkpoint(packed, opened):
    folder, weights = packed
    checkpoint = open_checkpoint(str(folder))
    prepared = [prepare(request, checkpoint) for request in various_requests(opened[ORIGINAL], 3)]
    spoken = speak(native_talker(checkpoint, weights="auto"), prepared)
    assert_same(speak(native_talker(checkpoint, weights=weights), prepared), spoken)


@bit_for_bit
@pytest.mark.parametrize("packed", ["int8"], indirect=True)
def test_a_checkpoint_packed_in_int8_gives_the_codes_of_the_original_one(packed, opened):
    checkpoint, original = open_checkpoint(str(packed[0])), opened[ORIGINAL]
    requests = list(various_requests(original, 3))
    expected = speak(native_talker(original, weights="int8"), [prepare(request, original) for request in requests])
    prepared = [prepare(request, checkpoint) for request in requests]
    assert_same(speak(native_talker(checkpoint, weights="auto"), prepared), expected)


@pytest.mark.parametrize("packed", ["int4"], indirect=True)
def test_int4_weights_are_rounded_for_the_inputs_of_their_matrices(packed, checkpoints, opened):
    exact, stored = load_file(checkpoints[ORIGINAL] / MODEL), load_file(packed[0] / MODEL)
    for name, moments in measure_input_moments(opened[ORIGINAL]).items():
        base = name.removesuffix("weight")
        if f"{base}int4" not in stored:
            continue
        codes = GroupCodes(*(stored[f"{base}{part}"] for part in ("int4", "scales", "offsets")))
        weight = exact[name].float()
        fitted, plain = (each.dequantize() - weight for each in (codes, quantize_groups(weight)))
        assert (fitted @ moments * fitted).sum() < (plain @ moments * plain).sum(), name


def test_a_packed_checkpoint_is_smaller_and_keeps_heads_and_embeddings_of_codes(packed, checkpoints):
    folder, weights = packed
    original, tensors = load_file(checkpoints[ORIGINAL] / MODEL), load_file(folder / MODEL)
    assert (folder / MODEL).stat().st_size < (checkpoints[ORIGINAL] / MODEL).stat().st_size
    shapes = packed_shapes({name: tuple(tensor.shape) for name, tensor in original.items()}, weights)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == shapes
    for name in tensors.keys() & original.keys():
        assert torch.equal(tensors[name], original[name]), name
    assert "talker.codec_head.weight" in tensors
    assert "talker.model.layers.0.mlp.up_proj.weight" not in tensors


def test_the_files_that_only_sonant_reads_are_copied(opened, tmp_path):
    original = shutil.copytree(opened[ORIGINAL].folder, tmp_path / "original")
    (original / SUMS_FILE).unlink(missing_ok=True)
    data = {PROFILE_FILE: b"{}", LEXICON_FILE: gzip.compress(b"zephyr z1efxr\n")}
    for name, content in data.items():
        (original / name).write_bytes(content)
    pack(open_checkpoint(str(original)), tmp_path / "packed", "int8")
    assert {name: (tmp_path / "packed" / name).read_bytes() for name in data} == data


def test_every_file_of_a_packed_checkpoint_has_a_checksum_and_the_same_permissions(packed):
    folder, _ = packed
    lines = [line.split("  ") for line in (folder / SUMS_FILE).read_text().splitlines()]
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert {name for _, name in lines} == files - {SUMS_FILE}
    for digest, name in lines:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert len({(folder / name).stat().st_mode for name in files}) == 1


def test_a_flipped_bit_in_packed_weights_is_found(packed, tmp_path):
    copy = shutil.copytree(packed[0], tmp_path / "packed")
    data = bytearray((copy / MODEL).read_bytes())
    data[-1000] ^= 1
    (copy / MODEL).write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model.safetensors is damaged: its SHA-256 must be"):
        native_talker(open_checkpoint(str(copy)), weights="auto")


def test_damage_of_the_original_checkpoint_is_not_packed(checkpoints, tmp_path):
    copy = shutil.copytree(checkpoints[ORIGINAL], tmp_path / "copy")
    names = [MODEL, "speech_tokenizer/model.safetensors"]
    lines = [f"{hashlib.sha256((copy / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (copy / SUMS_FILE).write_text("".join(lines))
    for name in names:
        data = bytearray((copy / name).read_bytes())
        data[-1] ^= 1
        (copy / name).write_bytes(data)
        with pytest.raises(CheckpointError, match=f"{name} is damaged"):
            pack(open_checkpoint(str(copy)), tmp_path / "out", "int4")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["copy"]
        data[-1] ^= 1
        (copy / name).write_bytes(data)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("version", 2, "quantization_config.version must be 1, found 2"),
        ("weights", "int3", 'quantization_config.weights must be "int8" or "int4", found "int3"'),
        ("quant_method", "awq", 'quantization_config.quant_method must be "sonant", found "awq"'),
    ],
)
def test_another_version_or_format_is_refused(folder, key, value, error):
    rewrite(folder / CONFIG, lambda config: config["quantization_config"].update({key: value}))
    assert open_error(folder) == f"{folder / CONFIG}: {error}"


def test_weights_that_are_not_those_of_the_configuration_are_refused(folder):
    weights = json.loads((folder / CONFIG).read_text())["quantization_config"]["weights"]
    other = "int4" if weights == "int8" else "int8"
    rewrite(folder / CONFIG, lambda config: config["quantization_config"].update(weights=other))
    assert f".{other} [" in open_error(folder)
    rewrite(folder / CONFIG, lambda config: config.pop("quantization_config"))
    assert ".weight [" in open_error(folder)


def test_a_packed_checkpoint_has_one_format():
    def config(weights="auto", dtype="auto"):
        return EngineConfig(model="m", dtype=dtype, talker=TalkerConfig(weights=weights))

    assert configured_format(config(), CPU, "int4") == "int4"
    assert configured_format(config("int4"), CPU, "int4") == "int4"
    with pytest.raises(SetupError, match=r"weights must be auto or int4, the format that m is packed with, got exact"):
        configured_format(config("exact"), CPU, "int4")
    with pytest.raises(SetupError, match=r"m is packed with int4, .* the device is cuda"):
        configured_format(config(), torch.device("cuda"), "int4")
    with pytest.raises(SetupError, match=r"engine.dtype is bfloat16"):
        configured_format(config(dtype="bfloat16"), CPU, "int4")


def test_the_output_folder_must_be_empty_and_the_checkpoint_original(packed, opened, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    with pytest.raises(CheckpointError, match=r"out must not exist or be an empty folder"):
        pack(opened[ORIGINAL], tmp_path / "out", "int4")
    with pytest.raises(CheckpointError, match=f"it is packed with {packed[1]}"):
        pack(open_checkpoint(str(packed[0])), tmp_path / "other", "int4")


def test_the_command_reports_errors_as_one_line(tmp_path):
    command = [sys.executable, "-m", "engine.pack", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"sonant pack: {tmp_path / CONFIG} is missing\n"
