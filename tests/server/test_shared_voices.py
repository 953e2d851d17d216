"""Two servers that share a folder of voices, also when one of them is killed while it writes."""

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
from tests.server.test_voices import SAID, SAMPLE, VOICES, made, post, refused, spoken

MOST = 4


class Mortal(Serving):
    """A server that, once a file "die" lies in its folder, is killed halfway through the next file that it syncs."""

    program = (
        "-c",
        "import os, sys; from tests.server.voice_writer import die_halfway; from server.cli.main import main;"
        "die_halfway(lambda: os.path.exists(os.environ['DIE'])); main()",
    )


@pytest.fixture(scope="module")
def pair(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Serving]]:
    folders = [tmp_path_factory.mktemp(name) for name in ("mortal", "other")]
    shared = {"voices": {"folder": str(folders[0] / "voices"), "max_voices": MOST}}
    configs = [write_config(folder, pocket, default_voice="anna", **shared) for folder in folders]
    with Mortal(configs[0], DIE=str(folders[0] / "die")) as mortal, Serving(configs[1]) as other:
        yield mortal.ready(), other.ready()


def store(server: Serving, name: str) -> httpx.Response:
    with server.client() as client:
        width = client.get("/v1/models").json()["data"][0]["embedding_width"]
        embedding = str([0.1] * width)
        return client.post(VOICES, files={"name": (None, name), "speaker_embedding": (None, embedding)})


def stored(server: Serving) -> list[str]:
    with server.client() as client:
        cards = client.get(VOICES).raise_for_status().json()["data"]
    return [card["id"] for card in cards if card["type"] != "built_in"]


def forget(server: Serving, name: str) -> None:
    with server.client() as client:
        client.delete(f"{VOICES}/{name}").raise_for_status()


def test_they_see_each_others_voices_at_once(pair: tuple[Serving, Serving]) -> None:
    with pair[0].client() as client, pair[1].client() as other:
        made(post(client, sample=SAMPLE, name="anna", ref_text=SAID))
        heard = spoken(client, voice="anna")
        assert spoken(other, voice="anna") == spoken(other) == spoken(other, voice="verse") == heard
        assert refused(post(other, sample=SAMPLE, name="anna")) == (409, "name", "voice_exists")
        other.delete(f"{VOICES}/anna").raise_for_status()
        assert stored(pair[0]) == []
        made(post(other, sample=wav(tone(2.4)), name="anna"))
        assert spoken(client, voice="anna") == spoken(other, voice="anna") != heard
        client.delete(f"{VOICES}/anna").raise_for_status()


def test_of_voices_that_come_to_both_at_once_exactly_as_many_are_stored_as_may_be(
    pair: tuple[Serving, Serving],
) -> None:
    names = [f"voice{number}" for number in range(16)]
    with ThreadPoolExecutor(len(names)) as clients:
        answers = list(clients.map(store, cycle(pair), names))
    accepted = [name for name, answer in zip(names, answers, strict=True) if answer.status_code == 200]
    assert len(accepted) == MOST
    for answer in answers:
        if answer.status_code != 200:
            check(answer, 409, None, "voice_limit_reached")
    for server in pair:
        assert sorted(stored(server)) == sorted(accepted)
    for name, server in zip(accepted, cycle(pair), strict=False):
        forget(server, name)


def test_a_server_killed_in_the_middle_of_a_voice_leaves_nothing_of_it(pair: tuple[Serving, Serving]) -> None:
    mortal, other = pair
    assert store(mortal, "before").status_code == 200
    killed = mortal.processes()
    (mortal.folder / "die").touch()
    with pytest.raises(httpx.TransportError):
        store(mortal, "anna")
    (mortal.folder / "die").unlink()
    mortal.wait_for(rf"HTTP process \(pid {killed.http.pid}\) was killed by SIGKILL; restarting")
    assert stored(other) == ["before"]
    assert store(other, "anna").status_code == 200
    assert sorted(stored(other)) == ["anna", "before"]
    with other.client() as client:
        assert client.post(SPEECH, json=speech(voice="anna")).content
    _, alive = psutil.wait_procs([killed.http, *killed.engine], TIMEOUT)
    assert not alive
    mortal.until_ready()
    assert sorted(stored(mortal)) == ["anna", "before"]
