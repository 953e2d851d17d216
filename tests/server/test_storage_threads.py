"""A storage of voices that does not answer: it blocks requests for stored voices, and no others."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from server.errors import ApiError
from server.voices.storage_threads import THREADS, StorageThreads
from tests.server.scripted_server import scripted_server
from tests.server.serving import TIMEOUT

LONG_TEXT = "The bus was late again, so I walked to the office in the rain. " * 20
"""Long enough that it is read in a thread."""


class SilentBucket:
    """A server that accepts connections and never answers, until it drops them all."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._changed = threading.Condition()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with self._changed:
                    self._connections.append(connection)
                    self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until there were ``count`` connections."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._connections) >= count, TIMEOUT)

    def close(self) -> None:
        """Refuse new connections, and drop the others."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            for connection in self._connections:
                connection.close()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentBucket]:
    bucket = SilentBucket()
    variables = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1", "ALLOW_HTTP": "true"}
    for name, value in {**variables, "ENDPOINT_URL": bucket.url}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    yield bucket
    with suppress(OSError):
        bucket.close()


def test_other_requests_are_served_while_the_bucket_does_not_answer(bucket: SilentBucket, tmp_path: Path) -> None:
    clients = 40
    voices = {"url": "s3://voices/silent"}
    with ThreadPoolExecutor(clients) as pool, scripted_server(tmp_path, voices=voices) as server:
        waiting = [pool.submit(server.post, voice="anna") for _ in range(clients)]
        bucket.wait_for(4)
        for _ in range(3):
            server.speak(input=LONG_TEXT, voice="ava")
        bucket.close()
        for response in (each.result(TIMEOUT) for each in waiting):
            assert response.status_code == 503
            error = response.json()["error"]
            assert error["code"] == "voice_storage_failed"
            assert error["type"] == "server_error"


class BlockedThreads:
    """StorageThreads, of which every thread is in a call until the context ends."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.now = 0.0
        self.threads = StorageThreads(timeout, lambda: self.now)
        self._release, self._begun = threading.Event(), threading.Semaphore(0)

    def _block(self) -> None:
        self._begun.release()
        assert self._release.wait(TIMEOUT)

    async def __aenter__(self) -> BlockedThreads:
        self.calls = [asyncio.create_task(self.threads.run(self._block)) for _ in range(THREADS)]
        for _ in self.calls:
            await asyncio.to_thread(self._begun.acquire)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._release.set()
        await asyncio.gather(*self.calls, return_exceptions=True)
        self.threads.close()


async def refusal(threads: StorageThreads) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as raised:
        await threads.run(lambda: None)
    return raised.value.status, raised.value.code, raised.value.message


async def test_calls_run_in_their_own_threads() -> None:
    threads = StorageThreads()
    assert (await threads.run(threading.current_thread)).name.startswith("voices")
    with pytest.raises(TimeoutError, match="of the call"):
        await threads.run(lambda: (_ for _ in ()).throw(TimeoutError("of the call")))
    threads.close()


async def test_a_call_that_takes_too_long_fails() -> None:
    async with BlockedThreads(timeout=0.05) as blocked:
        assert await refusal(blocked.threads) == (
            503,
            "voice_storage_failed",
            "the storage of voices does not answer within 0.05 s; built-in voices work, or try again later",
        )
        for call in blocked.calls:
            with pytest.raises(ApiError, match=r"does not answer within 0\.05 s"):
                await call


async def test_calls_fail_at_once_while_all_threads_are_stuck() -> None:
    async with BlockedThreads() as blocked:
        waiting = asyncio.create_task(blocked.threads.run(lambda: "answer"))
        await asyncio.sleep(0)
        blocked.now = 2.0
        status, code, message = await refusal(blocked.threads)
        assert (status, code) == (503, "voice_storage_failed")
        assert "does not answer at the moment" in message
        assert not waiting.done()
    assert await waiting == "answer"
