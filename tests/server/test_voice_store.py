"""The folder of stored voices: complete voices or none, with concurrent writers and killed processes."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from server.errors import ApiError
from server.voices import store as store_module
from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice
from tests.server.serving import Serving
from tests.server.voice_writer import NAMES, NEW, OLD, voice

ROOT = Path(__file__).parents[2]
WRITER = [sys.executable, "-m", "tests.server.voice_writer"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "voices"


@pytest.fixture
def store(folder: Path) -> VoiceStore:
    return VoiceStore(VoiceSettings(folder=folder))


def read_all(store: VoiceStore) -> list[StoredVoice]:
    """Read every voice that the store lists."""
    return [found for header in store.headers() if (found := store.get(header.name)) is not None]


def is_consistent(found: StoredVoice) -> bool:
    """Whether all parts of the voice come from one write of the writer process."""
    mark = found.created_at
    assert found.codes is not None
    numbers = (found.embedding == np.float32(mark / 1024)).all() and (found.codes == np.int16(mark)).all()
    return bool(numbers) and found.transcript == str(mark) * 100


def test_a_voice_is_read_back_as_stored(store: VoiceStore) -> None:
    embedding = np.random.default_rng(1).normal(size=320).astype(np.float32)
    codes = np.random.default_rng(2).integers(0, 2048, (40, 16)).astype(np.int16)
    stored = StoredVoice("anna", "audio_sample", 1_700_000_000, "pocket", embedding, codes, "Hëllo „there“.", "cons_1")
    store.add(stored)
    found = store.get("anna")
    assert found is not None and found.codes is not None
    assert np.array_equal(found.embedding, embedding) and np.array_equal(found.codes, codes)
    texts = ("name", "origin", "created_at", "model", "transcript", "consent")
    assert [getattr(found, name) for name in texts] == [getattr(stored, name) for name in texts]


def test_optional_parts_of_a_voice_stay_absent(store: VoiceStore) -> None:
    store.add(StoredVoice("plain", "blend", 5, "pocket", np.ones(4, np.float32)))
    found = store.get("plain")
    assert found is not None
    assert (found.codes, found.transcript, found.consent) == (None, None, None)


def test_a_missing_folder_has_no_voices(store: VoiceStore, folder: Path) -> None:
    assert read_all(store) == []
    assert store.get("anna") is None
    assert not store.remove("anna")
    assert not folder.exists()


def test_every_store_of_a_folder_sees_a_voice_at_once(store: VoiceStore, folder: Path) -> None:
    other = VoiceStore(VoiceSettings(folder=folder))
    store.add(voice("anna", 1))
    assert [found.name for found in read_all(other)] == ["anna"]
    assert other.remove("anna")
    assert store.get("anna") is None
    other.add(voice("anna", 2))
    found = store.get("anna")
    assert found is not None and found.created_at == 2


def test_voices_are_listed_oldest_first(store: VoiceStore) -> None:
    for name, made in (("b", 3), ("a", 3), ("c", 1)):
        store.add(voice(name, made))
    assert [found.name for found in read_all(store)] == ["c", "a", "b"]


def test_a_name_is_unique(store: VoiceStore) -> None:
    store.add(voice("anna", 1))
    with pytest.raises(ApiError) as refusal:
        store.add(voice("anna", 2))
    assert (refusal.value.status, refusal.value.code, refusal.value.param) == (409, "voice_exists", "name")
    found = store.get("anna")
    assert found is not None and found.created_at == 1


def test_concurrent_writers_of_one_name_have_exactly_one_winner(store: VoiceStore, folder: Path) -> None:
    writers = 8
    barrier = threading.Barrier(writers)

    def add(mark: int) -> int | None:
        barrier.wait()
        try:
            store.add(voice("anna", mark))
        except ApiError as error:
            assert error.status == 409
            return None
        return mark

    with ThreadPoolExecutor(writers) as pool:
        winners = [mark for mark in pool.map(add, range(writers)) if mark is not None]
    found = store.get("anna")
    assert found is not None and [found.created_at] == winners
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "anna.safetensors"]


@pytest.mark.parametrize("max_voices", [1, 5])
def test_concurrent_writers_keep_the_voice_limit(folder: Path, max_voices: int) -> None:
    writers = 16
    barrier = threading.Barrier(writers)

    def add(number: int) -> bool:
        store = VoiceStore(VoiceSettings(folder=folder, max_voices=max_voices))
        barrier.wait()
        try:
            store.add(voice(f"voice{number}", number))
        except ApiError as error:
            assert (error.status, error.code) == (409, "voice_limit_reached")
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        assert sum(pool.map(add, range(writers))) == max_voices
    assert len(list(folder.glob("*.safetensors"))) == max_voices


def test_processes_that_share_a_folder_keep_the_voice_limit(store: VoiceStore, folder: Path) -> None:
    commands = [[*WRITER, folder, "store-ten", name, "13"] for name in ("a", "b", "c")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        writers = [stack.enter_context(subprocess.Popen(command, cwd=ROOT, **pipes)) for command in commands]
        assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 3
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert sum(int(writer.stdout.readline()) for writer in writers) == 13
    assert len(store.names()) == 13


def test_a_locked_folder_times_out(store: VoiceStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LOCK_SECONDS", 0.05)
    store.add(voice("anna", 1))
    with (folder / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ApiError) as refusal:
            store.add(voice("bert", 1))
    assert (refusal.value.status, refusal.value.code) == (500, "voice_storage_failed")
    store.add(voice("bert", 1))
    assert not list(folder.glob("*.part"))


def test_the_header_of_a_voice_equals_the_voice(store: VoiceStore) -> None:
    """Also if control characters make the header of the file long."""
    long = replace(voice("long", 2), transcript="\x01" * 4096, consent="\x01" * 256, maker="0" * 16)
    for each in (voice("anna", 1), replace(voice("plain", 3), codes=None, transcript=None), long):
        store.add(each)
    names = ("name", "origin", "created_at", "model", "width", "in_context", "transcript", "consent", "maker", "shared")
    headers = store.headers()
    assert [header.name for header in headers] == ["anna", "long", "plain"]
    for header in headers:
        found = store.get(header.name)
        assert [getattr(header, name) for name in names] == [getattr(found, name) for name in names]


def test_a_full_folder_refuses_voices(folder: Path) -> None:
    store = VoiceStore(VoiceSettings(folder=folder, max_voices=2))
    store.add(voice("a", 1))
    store.add(voice("b", 1))
    with pytest.raises(ApiError) as refusal:
        store.add(voice("c", 1))
    assert (refusal.value.status, refusal.value.code) == (409, "voice_limit_reached")
    store.remove("a")
    store.add(voice("c", 1))


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../anna", "a/b", "Anna", "a.b", "a" * 65, "änna", "a\x00b", "a b", "a\n"]
)
def test_refuses_names_that_could_be_paths(store: VoiceStore, folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder.parent / "anna.safetensors").write_bytes(voice("anna", 1).to_bytes())
    assert store.get(name) is None
    assert not store.remove(name)
    assert (folder.parent / "anna.safetensors").exists()


CORRUPT = {
    "empty": b"",
    "half": voice("anna", 1).to_bytes()[:-100],
    "longer": voice("anna", 1).to_bytes() + b"more",
    "text": b"this is no voice" * 100,
    "a huge header size": (2**62).to_bytes(8, "little") + b"{}",
    "another format": save({"embedding": np.ones(4, np.float32)}),
    "no embedding": save({"codes": np.ones((2, 16), np.int16)}, {"format": "sonant-voice-1"}),
    "not finite": replace(voice("anna", 1), embedding=np.full(4, np.nan, np.float32)).to_bytes(),
    "frames of 15": replace(voice("anna", 1), codes=np.ones((2, 15), np.int16)).to_bytes(),
    "too large": bytes(5 * 1024 * 1024),
    "too loud": replace(voice("anna", 1), embedding=np.full(4, 3e38, np.float32)).to_bytes(),
    "too wide": replace(voice("anna", 1), embedding=np.zeros(20_000, np.float32)).to_bytes(),
    "a long transcript": replace(voice("anna", 1), transcript="a" * 4097).to_bytes(),
    "a transcript of 3 MB": replace(voice("anna", 1), transcript="a" * 3_000_000).to_bytes(),
    "a long consent": replace(voice("anna", 1), consent="a" * 257).to_bytes(),
    "a long model": replace(voice("anna", 1), model="a" * 257).to_bytes(),
    "a long maker": replace(voice("anna", 1), maker="a" * 17).to_bytes(),
    "negative time": replace(voice("anna", 1), created_at=-1).to_bytes(),
    "time out of range": replace(voice("anna", 1), created_at=2**60).to_bytes(),
    "nested": (60_000).to_bytes(8, "little") + b"[" * 60_000,
    "header is a list": (2).to_bytes(8, "little") + b"[]",
}


@pytest.mark.parametrize("case", CORRUPT)
def test_a_corrupt_file_is_logged_and_does_not_affect_others(
    store: VoiceStore, folder: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.add(voice("good", 1))
    (folder / "bad.safetensors").write_bytes(CORRUPT[case])
    assert [found.name for found in read_all(store)] == ["good"]
    assert "bad.safetensors" in caplog.text
    with pytest.raises(ApiError) as refusal:
        store.get("bad")
    assert (refusal.value.status, refusal.value.code) == (500, "voice_unreadable")
    assert store.remove("bad")


def test_ignores_pipes_and_folders_without_blocking(store: VoiceStore, folder: Path) -> None:
    store.add(voice("good", 1))
    os.mkfifo(folder / "pipe.safetensors")
    (folder / "folder.safetensors").mkdir()
    assert [found.name for found in read_all(store)] == ["good"]


def test_an_unusable_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = VoiceStore(VoiceSettings(folder=tmp_path / "file"))
    for attempt in (store.headers, lambda: store.add(voice("anna", 1))):
        with pytest.raises(ApiError) as refusal:
            attempt()
        assert (refusal.value.status, refusal.value.code) == (500, "voice_storage_failed")
        assert str(tmp_path) not in refusal.value.message


def test_removes_old_leftovers_of_killed_writers(store: VoiceStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    old, new = folder / ".old.part", folder / ".new.part"
    for path in (old, new):
        path.write_bytes(b"half a voice")
    os.utime(old, (time.time() - 7200,) * 2)
    store.add(voice("anna", 1))
    assert not old.exists()
    assert new.exists()


def test_a_writer_killed_before_any_line_leaves_a_complete_voice_or_none(serving: Serving) -> None:
    """Observed by this process and by a server that shares the folder; neither waits for the killed writer."""
    allowed = {"add": {(), (NEW,)}, "remove": {(), (OLD,)}, "replace": {(), (OLD,), (NEW,)}}
    seen: dict[str, set[tuple[int, ...]]] = {operation: set() for operation in allowed}
    folder = serving.folder / "voices"
    store = VoiceStore(VoiceSettings(folder=folder))
    command = [*WRITER, folder, "each line"]
    with (
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer,
        serving.client() as client,
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None
        for line in writer.stdout:
            found = [each for each in read_all(store) if each.name == NAMES[0]]
            assert all(is_consistent(each) for each in found)
            observed = tuple(each.created_at for each in found)
            cards = client.get("/v1/audio/voices").raise_for_status().json()["data"]
            assert [card["consent"] for card in cards if card["id"] == NAMES[0]] == [f"consent {m}" for m in observed]
            seen[line.strip()].add(observed)
            writer.stdin.write("go on\n")
            writer.stdin.flush()
    assert writer.returncode == 0
    assert seen == allowed
    assert store.remove(NAMES[0])


def test_a_writer_of_an_owned_voice_killed_before_any_line_leaves_a_complete_voice_or_none(folder: Path) -> None:
    owner = "0123456789abcdef"
    store = VoiceStore(VoiceSettings(folder=folder), owner)
    command = [*WRITER, folder, "each line", owner]
    kills = 0
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in writer.stdout:
            assert all(is_consistent(each) and not each.shared for each in read_all(store))
            assert VoiceStore(VoiceSettings(folder=folder)).names() == []
            kills += 1
            writer.stdin.write("go on\n")
            writer.stdin.flush()
    assert writer.returncode == 0
    assert kills > 100
    assert list((folder / "keys").iterdir()) == [folder / "keys" / owner]


def test_a_writer_killed_with_half_a_file_written_leaves_no_voice(store: VoiceStore, folder: Path) -> None:
    done = subprocess.run([*WRITER, folder, "halfway"], cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60)
    assert done.returncode == -9
    assert read_all(store) == []
    assert [path.name for path in folder.iterdir()]
    store.add(voice("anna", 1))
    assert [each.name for each in read_all(store)] == ["anna"]


def test_readers_never_see_partial_voices_while_writers_are_killed(store: VoiceStore, folder: Path) -> None:
    rng = random.Random(5)
    for _ in range(8):
        with subprocess.Popen([*WRITER, folder, "random"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            deadline = time.monotonic() + rng.uniform(0, 0.1)
            while time.monotonic() < deadline:
                assert all(is_consistent(found) for found in read_all(store))
            writer.kill()
        assert all(is_consistent(found) for found in read_all(store))
