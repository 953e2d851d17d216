"""Two servers that share a voice folder, also if one is killed while it writes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import httpx
import psutil
import pytest

from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech, write_config
from tests.server.test_bad_input import check
from tests.server.test_voices import SAMPLE, TRANSCRIPT, VOICES, post, refusal_of, success, synthesize

MAX_VOICES = 4


class KillableServer(Serving):
    """A server that is killed halfway through its next file sync if a file "die" exists in its folder."""

    program = (
        "-c",
        "import os, sys; from tests.server.voice_writer import die_halfway; from server.cli.main import main;"
        "die_halfway(lambda: os.path.exists(os.environ['DIE'])); main()",
    )


@pytest.fixture(scope="module")
def pair(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Serving]]:
    folders = [tmp_path_factory.mktemp(name) for name in ("killable", "other")]
    shared = {"voices": {"folder": str(folders[0] / "voices"), "max_voices": MAX_VOICES}}
    configs = [write_config(folder, pocket, default_voice="anna", **shared) for folder in folders]
    with KillableServer(configs[0], DIE=str(folders[0] / "die")) as killable, Serving(configs[1]) as other:
        yield killable.ready(), other.ready()


def store(server: Serving, name: str) -> httpx.Response:
    with server.client() as client:
        width = client.get("/v1/models").json()["data"][0]["embedding_width"]
        embedding = str([0.1] * width)
        return client.post(VOICES, files={"name": (None, name), "speaker_embedding": (None, embedding)})


def stored(server: Serving) -> list[str]:
    with server.client() as client:
        cards = client.get(VOICES).raise_for_status().json()["data"]
    return [card["id"] for card in cards if card["type"] != "built_in"]


def delete(server: Serving, name: str) -> None:
    with server.client() as client:
        client.delete(f"{VOICES}/{name}").raise_for_status()


def test_each_server_sees_the_voices_of_the_other_at_once(pair: tuple[Serving, Serving]) -> None:
    with pair[0].client() as client, pair[1].client() as other:
        success(post(client, sample=SAMPLE, name="anna", ref_text=TRANSCRIPT))
        audio = synthesize(client, voice="anna")
        assert synthesize(other, voice="anna") == synthesize(other) == synthesize(other, voice="verse") == audio
        assert refusal_of(post(other, sample=SAMPLE, name="anna")) == (409, "name", "voice_exists")
        other.delete(f"{VOICES}/anna").raise_for_status()
        assert stored(pair[0]) == []
        success(post(other, sample=wav(tone(2.4)), name="anna"))
        assert synthesize(client, voice="anna") == synthesize(other, voice="anna") != audio
        client.delete(f"{VOICES}/anna").raise_for_status()


def test_concurrent_stores_on_both_servers_keep_the_limit(
    pair: tuple[Serving, Serving],
) -> None:
    names = [f"voice{number}" for number in range(16)]
    with ThreadPoolExecutor(len(names)) as clients:
        answers = list(clients.map(store, cycle(pair), names))
    accepted = [name for name, answer in zip(names, answers, strict=True) if answer.status_code == 200]
    assert len(accepted) == MAX_VOICES
    for answer in answers:
        if answer.status_code != 200:
            check(answer, 409, None, "voice_limit_reached")
    for server in pair:
        assert sorted(stored(server)) == sorted(accepted)
    for name, server in zip(accepted, cycle(pair), strict=False):
        delete(server, name)


def test_a_server_killed_during_a_write_leaves_no_partial_voice(pair: tuple[Serving, Serving]) -> None:
    killable, other = pair
    assert store(killable, "before").status_code == 200
    processes_before = killable.processes()
    (killable.folder / "die").touch()
    with pytest.raises(httpx.TransportError):
        store(killable, "anna")
    (killable.folder / "die").unlink()
    killable.wait_for(rf"HTTP process \(pid {processes_before.http.pid}\) was killed by SIGKILL; restarting")
    assert stored(other) == ["before"]
    assert store(other, "anna").status_code == 200
    assert sorted(stored(other)) == ["anna", "before"]
    with other.client() as client:
        assert client.post(SPEECH, json=speech(voice="anna")).content
    _, alive = psutil.wait_procs([processes_before.http, *processes_before.engine], TIMEOUT)
    assert not alive
    killable.until_ready()
    assert sorted(stored(killable)) == ["anna", "before"]
