"""Recordings that crash libsndfile or make FFmpeg allocate gigabytes get a 400, and the server is unaffected."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from benchmarks.lib.processes import http_process
from tests.server.live_client import send_utterance, session
from tests.server.malicious_recordings import MALICIOUS
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, TIMEOUT, Serving, endless, speech, streamed, write_config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory limits and /proc need Linux")
VOICES = "/v1/audio/voices"
Error = tuple[int, str]


@pytest.fixture(scope="module")
def attacked(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(write_config(tmp_path_factory.mktemp("attacked"), pocket, default_voice="serena")) as server:
        with ThreadPoolExecutor(4) as threads, server.ready().client() as client:
            for status, _ in threads.map(lambda number: post_speech(client, wav(tone(1.5 + number / 10))), range(4)):
                assert status == 200  # starts both workers
        yield server


def url(data: bytes) -> str:
    return "data:audio/ogg;base64," + base64.b64encode(data).decode()


def result_of(response: httpx.Response) -> Error:
    return response.status_code, response.json()["error"]["param"] if response.is_error else ""


def post_speech(client: httpx.Client, data: bytes) -> Error:
    return result_of(client.post(SPEECH, json=speech(ref_audio=url(data))))


def post_batch(client: httpx.Client, data: bytes) -> Error:
    reply = client.post(f"{SPEECH}/batch", json={"items": [speech(ref_audio=url(data))]})
    assert reply.status_code == 200, reply.text
    failed = reply.json()["results"][0]["error"]
    return (400 if failed["type"] == "invalid_request_error" else 500), failed["param"]


def post_voice(client: httpx.Client, data: bytes) -> Error:
    return result_of(
        client.post(VOICES, data={"name": "anna", "ref_text": "la la la la la la"}, files={"audio_sample": data})
    )


def post_embedding(client: httpx.Client, data: bytes) -> Error:
    return result_of(client.post(f"{VOICES}/embedding", files={"audio_sample": data}))


ENDPOINTS = (post_speech, post_batch, post_voice, post_embedding)
REFUSED: list[Error] = [(400, "ref_audio")] * 2 + [(400, "audio_sample")] * 2


def decoders(server: Serving) -> list[psutil.Process]:
    """The decoder workers of the server. Processes that decode at the moment are their children."""
    children = http_process(server.process.pid).children()
    return [each for each in children if "server.references" in each.cmdline()]


def peak_mebibytes(server: Serving) -> int:
    """The peak memory of the HTTP process."""
    status = Path(f"/proc/{http_process(server.process.pid).pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


@pytest.mark.parametrize("kind", MALICIOUS)
def test_every_endpoint_refuses_them_while_others_are_served(attacked: Serving, kind: str) -> None:
    data, workers, peak = MALICIOUS[kind](), decoders(attacked), peak_mebibytes(attacked)
    with attacked.client() as client, streamed(client, endless()) as stream, ThreadPoolExecutor(4) as threads:
        pieces = stream.iter_raw()
        assert next(pieces)
        attempts = [threads.submit(endpoint, client, data) for endpoint in ENDPOINTS]
        for answer in attempts:
            while not answer.done():
                assert next(pieces)
        assert [answer.result() for answer in attempts] == REFUSED
        assert next(pieces)
    assert decoders(attacked) == workers
    assert peak_mebibytes(attacked) < peak + 100


def test_a_live_session_is_refused_too(attacked: Serving) -> None:
    data = MALICIOUS["Vorbis codebook that overflows the stack"]()
    with session(attacked, ref_audio=url(data), voice=None) as live:
        send_utterance(live, "Hello there, you.")
        error: dict[str, Any] = json.loads(live.recv(timeout=TIMEOUT))["error"]
    assert (error["param"], error["code"]) == ("ref_audio", "reference_undecodable")


def test_the_http_process_never_loads_libsndfile(attacked: Serving) -> None:
    assert "sndfile" not in Path(f"/proc/{http_process(attacked.process.pid).pid}/maps").read_text()
    assert all("sndfile" in Path(f"/proc/{each.pid}/maps").read_text() for each in decoders(attacked))


def test_workers_end_with_the_server(attacked: Serving) -> None:
    workers = decoders(attacked)
    assert workers
    attacked.process.kill()
    assert psutil.wait_procs(workers, TIMEOUT)[1] == []
