"""The folder of stored voices: whole voices or none, whoever else writes there and however they end."""

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


def voices(store: VoiceStore) -> list[StoredVoice]:
    """The voices that the store lists, each read whole."""
    return [found for header in store.headers() if (found := store.get(header.name)) is not None]


def whole(found: StoredVoice) -> bool:
    """Whether every part of it comes from one write of the writer process."""
    mark = found.created_at
    assert found.codes is not None
    numbers = (found.embedding == np.float32(mark / 1024)).all() and (found.codes == np.int16(mark)).all()
    return bool(numbers) and found.transcript == str(mark) * 100


def test_a_voice_comes_back_as_it_was_stored(store: VoiceStore) -> None:
    embedding = np.random.default_rng(1).normal(size=320).astype(np.float32)
    codes = np.random.default_rng(2).integers(0, 2048, (40, 16)).astype(np.int16)
    kept = StoredVoice("anna", "audio_sample", 1_700_000_000, "pocket", embedding, codes, "Hëllo „there“.", "cons_1")
    store.add(kept)
    found = store.get("anna")
    assert found is not None and found.codes is not None
    assert np.array_equal(found.embedding, embedding) and np.array_equal(found.codes, codes)
    texts = ("name", "origin", "created_at", "model", "transcript", "consent")
    assert [getattr(found, name) for name in texts] == [getattr(kept, name) for name in texts]


def test_a_voice_without_codes_or_texts_comes_back_without(store: VoiceStore) -> None:
    store.add(StoredVoice("plain", "blend", 5, "pocket", np.ones(4, np.float32)))
    found = store.get("plain")
    assert found is not None
    assert (found.codes, found.transcript, found.consent) == (None, None, None)


def test_there_is_nothing_in_a_folder_that_does_not_exist(store: VoiceStore, folder: Path) -> None:
    assert voices(store) == []
    assert store.get("anna") is None
    assert not store.remove("anna")
    assert not folder.exists()


def test_a_voice_is_seen_by_every_store_of_the_folder_at_once(store: VoiceStore, folder: Path) -> None:
    other = VoiceStore(VoiceSettings(folder=folder))
    store.add(voice("anna", 1))
    assert [found.name for found in voices(other)] == ["anna"]
    assert other.remove("anna")
    assert store.get("anna") is None
    other.add(voice("anna", 2))
    found = store.get("anna")
    assert found is not None and found.created_at == 2


def test_voices_are_listed_oldest_first(store: VoiceStore) -> None:
    for name, made in (("b", 3), ("a", 3), ("c", 1)):
        store.add(voice(name, made))
    assert [found.name for found in voices(store)] == ["c", "a", "b"]


def test_a_name_is_given_once(store: VoiceStore) -> None:
    store.add(voice("anna", 1))
    with pytest.raises(ApiError) as refusal:
        store.add(voice("anna", 2))
    assert (refusal.value.status, refusal.value.code, refusal.value.param) == (409, "voice_exists", "name")
    found = store.get("anna")
    assert found is not None and found.created_at == 1


def test_of_many_who_want_one_name_at_once_exactly_one_gets_it(store: VoiceStore, folder: Path) -> None:
    writers = 8
    start = threading.Barrier(writers)

    def write(mark: int) -> int | None:
        start.wait()
        try:
            store.add(voice("anna", mark))
        except ApiError as error:
            assert error.status == 409
            return None
        return mark

    with ThreadPoolExecutor(writers) as pool:
        winners = [mark for mark in pool.map(write, range(writers)) if mark is not None]
    found = store.get("anna")
    assert found is not None and [found.created_at] == winners
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "anna.safetensors"]


@pytest.mark.parametrize("most", [1, 5])
def test_of_many_who_want_the_last_places_at_once_exactly_so_many_get_them(folder: Path, most: int) -> None:
    writers = 16
    start = threading.Barrier(writers)

    def write(number: int) -> bool:
        store = VoiceStore(VoiceSettings(folder=folder, max_voices=most))
        start.wait()
        try:
            store.add(voice(f"voice{number}", number))
        except ApiError as error:
            assert (error.status, error.code) == (409, "voice_limit_reached")
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        assert sum(pool.map(write, range(writers))) == most
    assert len(list(folder.glob("*.safetensors"))) == most


def test_processes_that_share_a_folder_keep_its_bound_together(store: VoiceStore, folder: Path) -> None:
    commands = [[*WRITER, folder, "crowd", name, "13"] for name in ("a", "b", "c")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as held:
        writers = [held.enter_context(subprocess.Popen(command, cwd=ROOT, **pipes)) for command in commands]
        assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 3
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert sum(int(writer.stdout.readline()) for writer in writers) == 13
    assert len(store.names()) == 13


def test_a_writer_that_stands_still_is_not_waited_for_without_end(
    store: VoiceStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_LOCK_SECONDS", 0.05)
    store.add(voice("anna", 1))
    with (folder / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ApiError) as refusal:
            store.add(voice("bert", 1))
    assert (refusal.value.status, refusal.value.code) == (500, "voice_storage_failed")
    store.add(voice("bert", 1))
    assert not list(folder.glob("*.part"))


def test_the_header_of_a_voice_says_what_the_voice_says(store: VoiceStore) -> None:
    """Also where control characters make the file's header long."""
    long = replace(voice("long", 2), transcript="\x01" * 4096, consent="\x01" * 256, maker="0" * 16)
    for each in (voice("anna", 1), replace(voice("plain", 3), codes=None, transcript=None), long):
        store.add(each)
    names = ("name", "origin", "created_at", "model", "width", "in_context", "transcript", "consent", "maker", "shared")
    headers = store.headers()
    assert [header.name for header in headers] == ["anna", "long", "plain"]
    for header in headers:
        found = store.get(header.name)
        assert [getattr(header, name) for name in names] == [getattr(found, name) for name in names]


def test_a_full_folder_takes_no_more(folder: Path) -> None:
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
def test_what_could_be_a_path_is_no_name(store: VoiceStore, folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder.parent / "anna.safetensors").write_bytes(voice("anna", 1).to_bytes())
    assert store.get(name) is None
    assert not store.remove(name)
    assert (folder.parent / "anna.safetensors").exists()


DAMAGED = {
    "empty": b"",
    "half": voice("anna", 1).to_bytes()[:-100],
    "longer": voice("anna", 1).to_bytes() + b"more",
    "text": b"this is no voice" * 100,
    "a header without end": (2**62).to_bytes(8, "little") + b"{}",
    "another program's": save({"embedding": np.ones(4, np.float32)}),
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
    "before its time": replace(voice("anna", 1), created_at=-1).to_bytes(),
    "beyond all time": replace(voice("anna", 1), created_at=2**60).to_bytes(),
    "nested": (60_000).to_bytes(8, "little") + b"[" * 60_000,
    "no object": (2).to_bytes(8, "little") + b"[]",
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_named_and_spoils_nothing_else(
    store: VoiceStore, folder: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.add(voice("good", 1))
    (folder / "bad.safetensors").write_bytes(DAMAGED[case])
    assert [found.name for found in voices(store)] == ["good"]
    assert "bad.safetensors" in caplog.text
    with pytest.raises(ApiError) as refusal:
        store.get("bad")
    assert (refusal.value.status, refusal.value.code) == (500, "voice_unreadable")
    assert store.remove("bad")


def test_what_is_no_file_is_no_voice_and_nobody_waits_for_it(store: VoiceStore, folder: Path) -> None:
    store.add(voice("good", 1))
    os.mkfifo(folder / "pipe.safetensors")
    (folder / "folder.safetensors").mkdir()
    assert [found.name for found in voices(store)] == ["good"]


def test_a_folder_that_cannot_be_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = VoiceStore(VoiceSettings(folder=tmp_path / "file"))
    for attempt in (store.headers, lambda: store.add(voice("anna", 1))):
        with pytest.raises(ApiError) as refusal:
            attempt()
        assert (refusal.value.status, refusal.value.code) == (500, "voice_storage_failed")
        assert str(tmp_path) not in refusal.value.message


def test_what_killed_writers_left_is_removed_when_it_is_old(store: VoiceStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    old, new = folder / ".old.part", folder / ".new.part"
    for path in (old, new):
        path.write_bytes(b"half a voice")
    os.utime(old, (time.time() - 7200,) * 2)
    store.add(voice("anna", 1))
    assert not old.exists()
    assert new.exists()


def test_a_writer_killed_before_any_line_leaves_a_whole_voice_or_none(serving: Serving) -> None:
    """Seen from here, and by a server that shares the folder; and nobody waits for the dead."""
    allowed = {"add": {(), (NEW,)}, "remove": {(), (OLD,)}, "replace": {(), (OLD,), (NEW,)}}
    seen: dict[str, set[tuple[int, ...]]] = {what: set() for what in allowed}
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
            found = [each for each in voices(store) if each.name == NAMES[0]]
            assert all(whole(each) for each in found)
            marks = tuple(each.created_at for each in found)
            cards = client.get("/v1/audio/voices").raise_for_status().json()["data"]
            assert [card["consent"] for card in cards if card["id"] == NAMES[0]] == [f"consent {m}" for m in marks]
            seen[line.strip()].add(marks)
            writer.stdin.write("go on\n")
            writer.stdin.flush()
    assert writer.returncode == 0
    assert seen == allowed
    assert store.remove(NAMES[0])


def test_a_writer_of_a_keys_voice_killed_before_any_line_leaves_a_whole_voice_or_none(folder: Path) -> None:
    owner = "0123456789abcdef"
    store = VoiceStore(VoiceSettings(folder=folder), owner)
    command = [*WRITER, folder, "each line", owner]
    ended = 0
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in writer.stdout:
            assert all(whole(each) and not each.shared for each in voices(store))
            assert VoiceStore(VoiceSettings(folder=folder)).names() == []
            ended += 1
            writer.stdin.write("go on\n")
            writer.stdin.flush()
    assert writer.returncode == 0
    assert ended > 100
    assert list((folder / "keys").iterdir()) == [folder / "keys" / owner]


def test_a_writer_killed_with_half_a_file_written_leaves_no_voice(store: VoiceStore, folder: Path) -> None:
    done = subprocess.run([*WRITER, folder, "halfway"], cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60)
    assert done.returncode == -9
    assert voices(store) == []
    assert [path.name for path in folder.iterdir()]
    store.add(voice("anna", 1))
    assert [each.name for each in voices(store)] == ["anna"]


def test_readers_never_see_half_a_voice_while_writers_are_killed_at_random(store: VoiceStore, folder: Path) -> None:
    moments = random.Random(5)
    for _ in range(8):
        with subprocess.Popen([*WRITER, folder, "random"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            last = time.monotonic() + moments.uniform(0, 0.1)
            while time.monotonic() < last:
                assert all(whole(found) for found in voices(store))
            writer.kill()
        assert all(whole(found) for found in voices(store))
