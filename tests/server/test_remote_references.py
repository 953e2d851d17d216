"""Recordings that a running server fetches or reads from its folders."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import soundfile as sf

from tests.server.origins import drip, endless, origin, page, redirect
from tests.server.recordings import RATE, data_url, tone, wav
from tests.server.serving import NO_CERTIFICATES, SPEECH, TIMEOUT, Serving, speech, write_config

PERMITTED, PRIVATE = "127.0.0.1", "127.0.0.2"
SAMPLES = tone(1.7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose files requests may name."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "voice.wav").write_bytes(wav(SAMPLES))
    return folder


@pytest.fixture(scope="module")
def fetching(pocket: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that may fetch from one local address and read one folder."""
    references = {"private_hosts": [PERMITTED], "folders": [str(folder)]}
    limits = {"reference_max_bytes": 2_000_000}
    config = write_config(tmp_path_factory.mktemp("config"), pocket, references=references, limits=limits)
    with Serving(config) as server:
        yield server.ready()


@pytest.fixture
async def http(fetching: Serving) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=fetching.url, timeout=TIMEOUT, verify=NO_CERTIFICATES) as client:
        yield client


async def synthesize(http: httpx.AsyncClient, **fields: object) -> bytes:
    response = await http.post(SPEECH, json=speech(**fields))
    assert response.status_code == 200, response.text
    return response.content


async def refusal_of(http: httpx.AsyncClient, source: str, **fields: object) -> dict[str, str]:
    response = await http.post(SPEECH, json=speech(ref_audio=source, **fields))
    body = response.json()
    assert (response.status_code, list(body), body["error"]["param"]) == (400, ["error"], "ref_audio"), body
    assert sorted(body["error"]) == ["code", "message", "param", "type"]
    return dict(body["error"])


async def test_all_sources_of_a_recording_give_the_same_voice(http: httpx.AsyncClient, folder: Path) -> None:
    async with origin({"/a": redirect("/voice.wav"), "/voice.wav": page(wav(SAMPLES))}) as here:
        sources = [f"http://{PERMITTED}:{here.port}/a", f"file://{folder}/voice.wav", f"{folder}/voice.wav"]
        for transcript in (None, "one two three"):
            expected = await synthesize(http, ref_audio=data_url(SAMPLES), ref_text=transcript)
            for source in sources:
                assert await synthesize(http, ref_audio=source, ref_text=transcript) == expected


async def test_the_openai_client_can_pass_a_url(fetching: Serving) -> None:
    async with (
        origin({"/voice.wav": page(wav(SAMPLES))}) as here,
        openai.AsyncOpenAI(base_url=f"{fetching.url}/v1", api_key="none", max_retries=0) as client,
    ):

        async def create(url: str) -> bytes:
            extra = {"ref_audio": url, "seed": 7, "max_new_tokens": 24}
            answer = await client.audio.speech.create(
                model="tts-1", voice="alloy", input="Hello.", response_format="wav", extra_body=extra
            )
            return answer.content

        assert (await create(f"http://{PERMITTED}:{here.port}/voice.wav"))[:4] == b"RIFF"
        with pytest.raises(openai.BadRequestError) as refusal:
            await create(f"http://{PRIVATE}:{here.port}/voice.wav")
    assert (refusal.value.param, refusal.value.code) == ("ref_audio", "reference_url_refused")


async def test_recordings_from_untrusted_servers_are_refused(http: httpx.AsyncClient) -> None:
    long = io.BytesIO()
    sf.write(long, np.tile(tone(10), 12), RATE, format="WAV", subtype="PCM_U8")
    nans = io.BytesIO()
    sf.write(nans, np.full(2 * RATE, np.nan, np.float32), RATE, format="WAV", subtype="FLOAT")
    pages = {
        "/redirect": (redirect(f"http://{PRIVATE}/"), "reference_url_refused"),
        "/endless": (endless(), "invalid_value"),
        "/page": (page(b"<html>not audio</html>" * 50, Content_Type="text/html"), "invalid_value"),
        "/silence": (page(wav(np.zeros(2 * RATE, np.float32))), "reference_silent"),
        "/short": (page(wav(tone(0.5))), "reference_too_short"),
        "/long": (page(long.getvalue()), "reference_too_long"),
        "/nan": (page(nans.getvalue()), "invalid_value"),
        "/missing": (page(b"internal words", "404 Not Found"), "reference_fetch_failed"),
    }
    async with origin({path: answer for path, (answer, _) in pages.items()}) as here:
        for path, (_, code) in pages.items():
            error = await refusal_of(http, f"http://{PERMITTED}:{here.port}{path}")
            assert error["code"] == code, (path, error)
            assert "internal words" not in error["message"]


async def test_refuses_a_file_outside_the_folders(http: httpx.AsyncClient, folder: Path) -> None:
    for source in ("/etc/hostname", f"{folder}/../x", f"file://{folder}/none", "/etc/shadow"):
        assert (await refusal_of(http, source))["code"] == "reference_not_found"


async def test_the_default_configuration_fetches_no_private_address(serving: Serving) -> None:
    async with (
        origin({"/voice.wav": page(wav(SAMPLES))}) as here,
        httpx.AsyncClient(base_url=serving.url, timeout=TIMEOUT) as client,
    ):
        for host in (PERMITTED, "localhost", "[::ffff:127.0.0.1]", "2130706433"):
            error = await refusal_of(client, f"http://{host}:{here.port}/voice.wav")
            assert error["code"] == "reference_url_refused"
        assert here.heads == []


async def test_an_invalid_request_fetches_nothing(http: httpx.AsyncClient) -> None:
    async with origin({"/voice.wav": page(wav(SAMPLES))}) as here:
        body = speech(ref_audio=f"http://{PERMITTED}:{here.port}/voice.wav", task_type="CustomVoice")
        assert (await http.post(SPEECH, json=body)).status_code == 400
    assert here.heads == []


async def cache_lookups(http: httpx.AsyncClient) -> tuple[int, int]:
    """Hits and misses of the reference cache."""
    text = (await http.get("/metrics")).text
    found = dict(re.findall(r'sonant_cache_lookups_total\{.*cache="reference".*result="(\w+)"\} ([\d.]+)', text))
    return int(float(found["hit"])), int(float(found["miss"]))


async def test_concurrent_requests_encode_a_recording_once(http: httpx.AsyncClient) -> None:
    hits, misses = await cache_lookups(http)
    source = data_url(tone(2.9))
    answers = await asyncio.gather(
        *(synthesize(http, ref_audio=source, ref_text="one two three four five") for _ in range(4))
    )
    assert len(set(answers)) == 1
    assert await synthesize(http, ref_audio=source, ref_text="one two three four five") == answers[0]
    assert await cache_lookups(http) == (hits + 4, misses + 1)


async def test_a_disconnect_cancels_the_fetch(fetching: Serving, http: httpx.AsyncClient) -> None:
    async with origin({"/drip": drip()}) as here:
        request = asyncio.create_task(http.post(SPEECH, json=speech(ref_audio=f"http://{PERMITTED}:{here.port}/drip")))
        await here.requested.wait()
        request.cancel()
        await asyncio.wait({request})
        await here.left.wait()
    await asyncio.to_thread(fetching.until_idle)
