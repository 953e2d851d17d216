"""Stored voices in a bucket: the same behavior as the folder, with several servers and with failures of the network.

A bucket in memory and, where they are installed, servers of S3 (moto) and of Azure's blob storage (Azurite).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import obstore
import pytest
from obstore.store import AzureStore, MemoryStore, S3Store

from server.errors import ApiError
from server.settings import SettingsError, load_settings
from server.voices.config import VoiceSettings
from server.voices.object_cache import STALE_SECONDS, VoiceObjects, open_bucket
from server.voices.object_store import ObjectVoiceStore
from tests.server.bucket_servers import azure_environment, azure_server, open_bucket_at, s3_server
from tests.server.serving import ROOT
from tests.server.test_voice_store import is_consistent, read_all
from tests.server.voice_writer import voice

ANNA, BERT = "a" * 16, "b" * 16
Bucket = MemoryStore | S3Store | AzureStore


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def azure_address() -> Iterator[str]:
    with azure_server() as address:
        yield address


@pytest.fixture(params=["memory", "s3", "azure"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    kind = request.param
    if kind == "memory":
        return MemoryStore()
    return open_bucket_at(kind, request.getfixturevalue(f"{kind}_address"), request.node.name)


@pytest.fixture
def store(bucket: Bucket) -> ObjectVoiceStore:
    return store_of(bucket)


def store_of(bucket: Bucket, owner: str | None = None, clock: Clock | None = None, **settings: int) -> ObjectVoiceStore:
    """A server's view of a bucket, with a cache of its own."""
    objects = VoiceObjects(bucket, clock or Clock())
    share = None if owner is None else 0.5
    return ObjectVoiceStore(objects, VoiceSettings(**settings), owner, share, protect_shared=owner is not None)


def refusal(action: object) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        action()  # type: ignore[operator]
    return raised.value.status, raised.value.code


def test_a_voice_is_read_back_as_stored(store: ObjectVoiceStore) -> None:
    stored = replace(voice("anna", 3), display_name="Anna", consent="cons_1")
    store.add(stored)
    for name in ("anna", "Anna"):
        found = store.get(name)
        assert found is not None
        assert is_consistent(found)
        assert (found.name, found.transcript, found.consent) == ("anna", stored.transcript, "cons_1")
    assert store.headers() == [stored.header]
    assert store.names() == ["anna"]
    assert store.get("nobody") is None
    assert store.remove("anna")
    assert not store.remove("anna")
    assert (store.get("anna"), store.names(), store.headers()) == (None, [], [])


def test_a_name_is_given_once(store: ObjectVoiceStore, bucket: Bucket) -> None:
    def add(number: int) -> bool:
        try:
            store_of(bucket).add(voice("anna", number))
        except ApiError as error:
            assert (error.status, error.code) == (409, "voice_exists")
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        winners = [number for number, won in enumerate(pool.map(add, range(6))) if won]
    assert len(winners) == 1
    found = store.get("anna")
    assert found is not None
    assert found.created_at == winners[0]


def test_other_servers_see_a_new_voice_at_once_and_a_deleted_one_for_a_bounded_time(
    bucket: Bucket,
) -> None:
    clock = Clock()
    one, other = store_of(bucket), store_of(bucket, clock=clock)
    one.add(voice("anna", 1))
    assert other.get("anna") is not None
    one.remove("anna")
    assert one.get("anna") is None
    assert other.names() == []
    assert other.get("anna") is not None
    clock.now += STALE_SECONDS
    assert other.get("anna") is None
    one.add(voice("anna", 2))
    assert [found.created_at for found in other.headers()] == [2]
    found = other.get("anna")
    assert found is not None
    assert found.created_at == 2


def test_each_owner_sees_its_own_and_shared_voices(bucket: Bucket) -> None:
    anna, bert = store_of(bucket, ANNA), store_of(bucket, BERT)
    anna.add(replace(voice("own", 1), maker=ANNA, shared=False))
    anna.add(replace(voice("common", 2), maker=ANNA))
    bert.add(replace(voice("own", 3), maker=BERT, shared=False))
    assert anna.names() == bert.names() == ["common", "own"]
    assert [header.created_at for header in anna.headers()] == [1, 2]
    assert [header.created_at for header in bert.headers()] == [2, 3]
    assert refusal(lambda: bert.remove("common")) == (403, "voice_not_owned")
    assert anna.remove("common")
    assert anna.remove("own")
    assert bert.names() == ["own"]


def test_limits_on_voices(bucket: Bucket) -> None:
    anna, bert = store_of(bucket, ANNA, max_voices=4), store_of(bucket, BERT, max_voices=4)
    anna.add(replace(voice("a", 1), maker=ANNA, shared=False))
    anna.add(replace(voice("b", 1), maker=ANNA))
    assert refusal(lambda: anna.add(replace(voice("c", 1), maker=ANNA))) == (409, "voice_limit_reached")
    bert.add(replace(voice("c", 1), maker=BERT))
    store_of(bucket, max_voices=4).add(voice("d", 1))
    assert refusal(lambda: store_of(bucket, max_voices=4).add(voice("e", 1))) == (409, "voice_limit_reached")


def test_an_invalid_object_is_skipped_in_lists_and_named(store: ObjectVoiceStore, bucket: Bucket) -> None:
    store.add(voice("good", 1))
    for name, content in {"bad": b"no voice", "large": bytes(5 * 1024 * 1024), "../up": b"", "Upper": b""}.items():
        if name.isalpha():
            obstore.put(bucket, f"{name}.safetensors", content)
    assert [found.name for found in read_all(store)] == ["good"]  # type: ignore[arg-type]
    for name in ("bad", "large"):
        assert refusal(lambda name=name: store.get(name)) == (500, "voice_unreadable")
        assert store.remove(name)


def test_a_bucket_that_cannot_be_reached_is_a_503() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    store = store_of(open_bucket_at("s3", address, "voices"))
    for action in (store.names, store.headers, lambda: store.get("anna"), lambda: store.add(voice("anna", 1))):
        assert refusal(action) == (503, "voice_storage_failed")


def test_a_repeated_write_of_the_same_voice_is_a_success(bucket: Bucket) -> None:
    """As after a connection that was lost before the answer to the first one arrived."""
    objects = VoiceObjects(bucket)
    data = voice("anna", 1).to_bytes()
    assert objects.create("anna.safetensors", data)
    assert objects.create("anna.safetensors", data)
    assert not objects.create("anna.safetensors", voice("anna", 2).to_bytes())


WRITER = """
import sys
from tests.server.bucket_servers import open_bucket_at
from tests.server.test_object_voices import store_of, voice
store = store_of(open_bucket_at(*sys.argv[1:]))
print("writing", flush=True)
for mark in range(10_000):
    store.remove("anna")
    store.add(voice("anna", mark))
"""


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_readers_never_see_partial_voices_while_writers_are_killed(kind: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue(f"{kind}_address")
    rng = np.random.default_rng(5)
    store = store_of(open_bucket_at(kind, address, "killed"))
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, kind, address, "killed"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            deadline = time.monotonic() + rng.uniform(0, 0.3)
            while time.monotonic() < deadline:
                assert all(is_consistent(found) for found in read_all(store))  # type: ignore[arg-type]
            writer.kill()
        assert all(is_consistent(found) for found in read_all(store))  # type: ignore[arg-type]
        store.remove("anna")


def test_the_environment_selects_the_server_of_the_bucket(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}
    for name, value in {**credentials, "ENDPOINT_URL": s3_address, "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    store = ObjectVoiceStore(open_bucket("s3://voices/by-environment"), VoiceSettings())
    store.add(voice("anna", 1))
    assert store.names() == ["anna"]


def test_the_environment_selects_the_account_of_azure(azure_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in azure_environment(azure_address).items():
        monkeypatch.setenv(name, value)
    store = ObjectVoiceStore(open_bucket("az://voices/by-environment"), VoiceSettings())
    store.add(voice("anna", 1))
    assert store.names() == ["anna"]


@pytest.mark.parametrize("url", ["http://bucket", "s3:/bucket", "s3://", "voices", "s3://bucket?x=1"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"voices\.url: must be s3://BUCKET/PREFIX"):
        load_settings(flags={"engine": {"model": "org/model"}, "voices": {"url": url}})
