"""Checkpoints that are corrupt, overwritten or truncated: refused while loading, harmless afterwards."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from engine.checkpoint.checksums import SUMS_FILE
from engine.checkpoint.folder import FILES, open_checkpoint
from engine.checkpoint.layout import Shapes, codec_shapes, model_shapes
from engine.checkpoint.tensors import TensorSource
from engine.client.client import EngineClient
from engine.code2wav.loading import load_decoder
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.errors import CheckpointError
from engine.protocol.request import SamplingParams, SpeechRequest
from tests.server.serving import TIMEOUT, Serving, write_config

MODEL, CODEC = "model.safetensors", "speech_tokenizer/model.safetensors"


def write_sums(folder: Path) -> None:
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in FILES]
    (folder / SUMS_FILE).write_text("".join(lines))


def flip(file: Path, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def load(folder: Path, *, verify: bool = True) -> None:
    """Read everything that an engine reads."""
    checkpoint = open_checkpoint(str(folder), verify=verify)
    checkpoint.prefetch()
    checkpoint.tensors("speaker_encoder.")
    with checkpoint.stream("talker.") as tensors:
        take_all(tensors, model_shapes(checkpoint.model), "talker.")
    checkpoint.codec_tensors("encoder.")
    with checkpoint.codec_stream("decoder.") as tensors:
        take_all(tensors, codec_shapes(checkpoint.codec), "decoder.")


def take_all(tensors: TensorSource, shapes: Shapes, prefix: str) -> None:
    for name in shapes:
        if name.startswith(prefix):
            tensors.pop(name.removeprefix(prefix))


@pytest.fixture
def folder(checkpoints: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of a small random checkpoint with SHA256SUMS."""
    copy = shutil.copytree(checkpoints["pocket"], tmp_path / "checkpoint")
    write_sums(copy)
    return copy


@pytest.mark.parametrize("seed", range(16))
def test_refuses_one_flipped_bit(folder: Path, seed: int) -> None:
    load(folder)
    rng = random.Random(seed)
    file = folder / (MODEL, CODEC, *FILES)[seed % (2 + len(FILES))]
    flip(file, rng.randrange(8 * file.stat().st_size))
    with pytest.raises(CheckpointError) as refused:
        load(folder)
    assert str(file) in refused.value.message
    assert "\n" not in refused.value.message


def test_without_verification_a_flipped_bit_is_loaded(folder: Path) -> None:
    flip(folder / MODEL, 8 * (folder / MODEL).stat().st_size - 1)
    load(folder, verify=False)
    with pytest.raises(CheckpointError, match="is damaged: its SHA-256 must be"):
        load(folder)


def test_a_server_does_not_start_with_a_corrupt_codec(folder: Path, tmp_path: Path) -> None:
    flip(folder / CODEC, 8 * (folder / CODEC).stat().st_size - 1)
    with Serving(write_config(tmp_path, folder)) as server:
        assert server.process.wait(TIMEOUT) == 1
    assert [line for line in server.lines if f"{folder / CODEC} is damaged" in line]


@pytest.mark.parametrize("name", FILES)
def test_refuses_if_a_listed_file_is_missing(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        load(folder)


@pytest.mark.parametrize("line", ["no checksum", f"{'0' * 64}  {MODEL}", "\x00", "00  config.json"])
def test_refuses_invalid_checksum_lines(folder: Path, line: str) -> None:
    with (folder / SUMS_FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(CheckpointError, match=f"{SUMS_FILE}, line {len(FILES) + 1}: "):
        load(folder)


def test_a_file_that_is_not_listed_is_loaded_with_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = (folder / SUMS_FILE).read_text().splitlines()
    (folder / SUMS_FILE).write_text("\n".join(line for line in lines if "vocab" not in line).replace("  ", " *./"))
    load(folder)
    assert "does not list vocab.json" in caplog.text


@pytest.mark.parametrize("name", [MODEL, CODEC])
def test_refuses_a_corrupt_blob_of_the_hugging_face_cache(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / SUMS_FILE).unlink()
    (tmp_path / "blobs").mkdir()
    for each in (MODEL, CODEC):
        blob = tmp_path / "blobs" / hashlib.sha256((folder / each).read_bytes()).hexdigest()
        (folder / each).rename(blob)
        (folder / each).symlink_to(os.path.relpath(blob, (folder / each).parent))
    load(folder)
    flip((folder / name).resolve(), 8 * (folder / name).stat().st_size - 1)
    with pytest.raises(CheckpointError, match="name in the Hugging Face cache"):
        load(folder)


def test_refuses_a_file_replaced_between_opening_and_reading(folder: Path) -> None:
    (folder / SUMS_FILE).unlink()
    checkpoint = open_checkpoint(str(folder))
    shutil.copyfile(folder / MODEL, folder / "new")
    (folder / "new").rename(folder / MODEL)
    with pytest.raises(CheckpointError, match="was changed while it was loaded"):
        checkpoint.tensors("talker.")


@pytest.mark.parametrize(
    ("damage", "message"), [("flipped", "is damaged: its SHA-256 must be"), ("truncated", "is not a valid safetensors")]
)
def test_code2wav_is_not_loaded_from_a_damaged_file(folder: Path, damage: str, message: str) -> None:
    config = EngineConfig(model=str(folder), device="cpu", threads=1, code2wav=Code2WavConfig(dtype="float32"))
    load_decoder(config)
    size = (folder / CODEC).stat().st_size
    if damage == "flipped":
        flip(folder / CODEC, 8 * size - 1)
    else:
        os.truncate(folder / CODEC, size - 1)
    with pytest.raises(CheckpointError, match=message) as refused:
        load_decoder(config)
    assert str(folder / CODEC) in refused.value.message


@pytest.mark.parametrize("removed", [1, 10_000])
def test_refuses_a_codec_that_is_truncated_after_its_header_was_read(folder: Path, removed: int) -> None:
    checkpoint = open_checkpoint(str(folder), verify=False)
    os.truncate(folder / CODEC, (folder / CODEC).stat().st_size - removed)
    message = r"was (changed while it was loaded|truncated while it was read)"
    with pytest.raises(CheckpointError, match=message), checkpoint.codec_stream("decoder.") as tensors:
        take_all(tensors, codec_shapes(checkpoint.codec), "decoder.")


@pytest.mark.parametrize("damage", ["overwritten", "truncated"])
async def test_a_running_engine_is_unaffected_by_changes_to_its_files(folder: Path, damage: str) -> None:
    engine = EngineClient(EngineConfig(model=str(folder), device="cpu", threads=1, talker=TalkerConfig(slots=2)))
    await engine.start()
    try:
        info = await engine.wait_ready(TIMEOUT)
        speaker, other = info.speakers[:2]
        before = await synthesize(engine, speaker)
        for name in FILES:
            with (folder / name).open("r+b") as file:
                if damage == "truncated":
                    file.truncate(0)
                else:
                    file.write(bytes(os.stat(file.fileno()).st_size))
        assert np.array_equal(await synthesize(engine, speaker), before)
        assert (await engine.speaker_voice(other)).embedding.any()
        recording = np.sin(np.arange(24_000) / 20).astype(np.float32)
        assert (await engine.encode_reference(recording, 24_000, codes=True)).embedding.any()
    finally:
        await engine.close()


async def synthesize(engine: EngineClient, speaker: str) -> np.ndarray:
    request = SpeechRequest("one two", speaker=speaker, sampling=SamplingParams(seed=5, max_new_tokens=20))
    return np.concatenate([chunk.samples async for chunk in engine.submit(request)])
