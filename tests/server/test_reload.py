"""A real server changes its configuration while it serves: ``sonant reload`` and SIGHUP."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.commands import run_command
from tests.server.live_client import receive_utterance, send_utterance, session
from tests.server.reloadable import ReloadableServer
from tests.server.serving import SPEECH, endless, speech, streamed
from tests.server.test_bad_input import check
from tests.server.test_metrics import metric, scrape
from tests.support.random_checkpoint import RandomCheckpoints

LONG = endless(max_new_tokens=800, sample_rate=48_000)
"""6 MB of speech: more than socket buffers hold (4 MB), so it does not end before the client reads."""


@pytest.fixture(scope="module")
def reloadable(checkpoints: RandomCheckpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReloadableServer]:
    reloadable = ReloadableServer(tmp_path_factory.mktemp("reloadable"), checkpoints)
    with reloadable.server as server:
        server.ready()
        server.until_ready()
        yield reloadable


@pytest.fixture(scope="module")
def client(reloadable: ReloadableServer) -> Iterator[httpx.Client]:
    with reloadable.server.client() as client:
        yield client


def names(client: httpx.Client) -> list[str]:
    return [card["id"] for card in client.get("/v1/models").raise_for_status().json()["data"]]


def test_a_stream_through_a_reload_is_the_same_as_without(reloadable: ReloadableServer, client: httpx.Client) -> None:
    reloadable.change()
    undisturbed = client.post(SPEECH, json=LONG).content
    before = reloadable.settled()
    with streamed(client, LONG, **{"X-Request-Id": "through"}) as response:
        pieces = response.iter_raw()
        audio = next(pieces)
        printed = reloadable.change(engine={"talker": {"slots": 5}})
        assert "engines started: pocket/1; stopping after their requests: pocket/0" in printed
        assert len(reloadable.engines()) == 2
        found = scrape(reloadable.server)
        assert [metric(found, "engine_up", model="pocket", engine=name) for name in ("0", "1")] == [1, 1]
        with reloadable.server.client() as other:
            other.post(SPEECH, json=speech(), headers={"X-Request-Id": "after"}).raise_for_status()
            assert other.get(f"{SPEECH}/after").json()["engine"] == "1"
        audio += b"".join(pieces)
    assert audio == undisturbed
    assert client.get(f"{SPEECH}/through").json()["engine"] == "0"
    reloadable.server.wait_for("the requests of the old configuration have ended; stopped engines pocket/0")
    assert len(reloadable.engines()) == 1
    assert not before & reloadable.engines()
    assert metric(scrape(reloadable.server), "engine_up", engine="0") == 0


def test_no_request_is_refused_during_reloads(reloadable: ReloadableServer, client: httpx.Client) -> None:
    expected = client.post(SPEECH, json=speech()).raise_for_status().content
    reloaded = threading.Event()

    def send() -> list[tuple[int, bool]]:
        answers = []
        with reloadable.server.client() as own:
            while not reloaded.is_set():
                answer = own.post(SPEECH, json=speech())
                answers.append((answer.status_code, answer.content == expected))
        return answers

    with ThreadPoolExecutor(1) as threads:  # one request at a time: in batches a sample may be rounded differently
        sending = threads.submit(send)
        try:
            reloadable.change(engine={"talker": {"slots": 2}}, model_aliases=["alias"])
            reloadable.change()
        finally:
            reloaded.set()
        answers = sending.result()
    assert len(answers) > 3
    assert set(answers) == {(200, True)}


def test_an_unchanged_engine_is_kept_and_other_settings_are_used(
    reloadable: ReloadableServer, client: httpx.Client
) -> None:
    reloadable.change()
    before = reloadable.settled()
    printed = reloadable.change(model_aliases=["another"], default_voice="ryan", limits={"max_input_chars": 5})
    assert "engines kept: pocket/" in printed
    assert reloadable.engines() == before
    assert client.get("/v1/models/another").json()["id"] == "pocket"
    check(client.post(SPEECH, json=speech(stream=False)), 400, "input", "string_above_max_length")
    answer = client.post(SPEECH, json=speech(input="Oh.", model="another"), headers={"X-Request-Id": "aliased"})
    assert answer.status_code == 200
    assert client.get(f"{SPEECH}/aliased").json()["voice"] == "ryan"
    reloadable.change()
    check(client.get("/v1/models/another"), 404, "model", "model_not_found")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"engine": {"talker": {"slots": 0}}}, "engine.talker.slots: .* greater than or equal to 1, got 0"),
        ({"portt": 1}, "portt: unknown setting"),
        ({"engine": {"model": "/nowhere"}}, "an engine of pocket could not start: .*/nowhere"),
        ({"keys_file": "/nowhere/keys"}, "/nowhere/keys: No such file or directory"),
    ],
)
def test_a_configuration_that_cannot_be_used_changes_nothing(
    reloadable: ReloadableServer, client: httpx.Client, settings: dict[str, Any], reason: str
) -> None:
    reloadable.change(model_aliases=["before"])
    before, http = reloadable.settled(), reloadable.server.processes().http
    descriptors = http.num_fds() - len(http.net_connections("inet"))
    reloadable.write(**settings)
    done = run_command("reload", "--pid", reloadable.server.process.pid)
    assert done.exit_code == 1
    assert re.fullmatch(rf"sonant reload: nothing has changed: {reason}.*\n", done.stderr)
    reloadable.server.wait_for(f"the configuration was not reloaded and nothing has changed: {reason}")
    assert reloadable.engines() == before
    assert client.get("/v1/models/before").status_code == 200
    assert client.post(SPEECH, json=speech()).status_code == 200
    assert http.num_fds() - len(http.net_connections("inet")) == descriptors


def test_models_are_added_and_removed(reloadable: ReloadableServer, client: httpx.Client) -> None:
    first, second = reloadable.model("pocket"), reloadable.model("clone", "0b6-base")
    reloadable.change(first)
    assert names(client) == ["pocket"]
    assert "engines started: clone/0; kept: pocket/" in reloadable.change(first, second)
    assert names(client) == ["pocket", "clone"]
    assert client.get("/ready").json()["models"] == {"pocket": "ready", "clone": "ready"}
    assert metric(scrape(reloadable.server), "requests_waiting", model="clone") == 0
    with streamed(client, LONG) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        reloadable.change(second)
        with reloadable.server.client() as other:
            assert names(other) == ["clone"]
            check(other.post(SPEECH, json=speech(model="pocket")), 404, "model", "model_not_found")
            assert other.get("/ready").json()["requests"] == 1
        assert len(reloadable.engines()) == 2
        before = len(reloadable.server.lines)
        assert sum(map(len, pieces)) > 1e6
    reloadable.wait_for_log(before, "stopped engines pocket/")
    found = scrape(reloadable.server)
    assert {dict(labels).get("model") for name, labels in found if name == "sonant_engine_up"} == {"clone"}
    assert "pocket" not in {dict(labels)["model"] for name, labels in found if name == "sonant_requests_running"}
    assert "stopping after their requests: clone/0" in reloadable.change()


def test_a_renamed_model_and_another_number_of_replicas_keep_engines(
    reloadable: ReloadableServer, client: httpx.Client
) -> None:
    reloadable.change(reloadable.model("pocket"))
    before = reloadable.settled()
    reloadable.change({**reloadable.model("renamed"), "replicas": 2})
    assert names(client) == ["renamed"]
    assert len(reloadable.engines()) == 2
    assert before < reloadable.engines()
    reloadable.change(reloadable.model("pocket"))
    reloadable.server.wait_for(r"stopped engines renamed/\d")
    assert len(reloadable.engines()) == 1


def test_settings_that_need_a_restart_are_reported_and_left(reloadable: ReloadableServer, client: httpx.Client) -> None:
    printed = reloadable.change(
        host="127.0.0.9", api_key="secret", limits={"drain_seconds": 3, "max_turns": 2}, wyoming={"port": 0}
    )
    assert printed.rstrip().endswith(
        "These settings need a restart and stay as they are: host, limits.drain_seconds, wyoming.port, api_key"
    )
    turns = [{"text": "Hello.", "voice": "ryan"}] * 3
    check(client.post(SPEECH, json=speech(input=turns)), 400, "input", "invalid_value")
    assert "need a restart" not in reloadable.change()


def test_sighup_reloads(reloadable: ReloadableServer, client: httpx.Client) -> None:
    reloadable.change()
    before = len(reloadable.server.lines)
    reloadable.write(model_aliases=["by-signal"])
    reloadable.server.process.send_signal(signal.SIGHUP)
    reloadable.wait_for_log(before, "reloaded the configuration")
    assert client.get("/v1/models/by-signal").status_code == 200


def test_a_live_session_uses_the_new_configuration_for_its_next_utterance(reloadable: ReloadableServer) -> None:
    with session(reloadable.server, "across", voice="ryan") as socket:
        for number, settings in enumerate(({}, {"engine": {"talker": {"slots": 6}}})):
            reloadable.change(**settings)
            send_utterance(socket, "Hello there.")
            audio, _ = receive_utterance(socket)
            assert audio, number
    with reloadable.server.client() as client:
        engines = [client.get(f"{SPEECH}/across.{number}").json()["engine"] for number in (0, 1)]
    assert int(engines[0]) < int(engines[1])


def test_a_reload_during_another_one_waits_and_uses_the_last_configuration(
    reloadable: ReloadableServer, client: httpx.Client
) -> None:
    reloadable.settled()
    with ThreadPoolExecutor(2) as threads:
        reloadable.write(engine={"talker": {"slots": 3}}, model_aliases=["first"])
        first = threads.submit(reloadable.reload)
        reloadable.settled(2)  # the first configuration was read
        reloadable.write(engine={"talker": {"slots": 4}}, model_aliases=["second"])
        second = threads.submit(reloadable.reload)
        assert (first.result().returncode, second.result().returncode) == (0, 0)
    assert client.get("/v1/models/second").status_code == 200
    check(client.get("/v1/models/first"), 404, "model", "model_not_found")


def test_nothing_is_left_behind(reloadable: ReloadableServer, client: httpx.Client) -> None:
    reloadable.settled()
    client.get("/health")
    http = reloadable.server.processes().http
    shared = {path.name for path in Path("/dev/shm").iterdir()}
    counts = []
    for slots in (2, 3, 4):
        before = len(reloadable.server.lines)
        reloadable.change(engine={"talker": {"slots": slots}})
        reloadable.wait_for_log(before, "stopped engines")
        descriptors = http.num_fds() - len(http.net_connections("inet"))  # kept connections may close
        counts.append((descriptors, http.num_threads(), len(http.children(recursive=True))))
    assert counts[1] == counts[2]
    assert {path.name for path in Path("/dev/shm").iterdir()} <= shared


def test_the_key_file_may_change_to_another_one(checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"keys-{number}").write_text(f"key-{number}\n")
    reloadable = ReloadableServer(tmp_path, checkpoints, keys_file=str(tmp_path / "keys-0"))
    with reloadable.server as server, server.client() as client:
        server.ready()

        def statuses() -> list[int]:
            headers = [{"Authorization": f"Bearer key-{number}"} for number in range(3)]
            return [client.get("/v1/models", headers=each).status_code for each in headers]

        assert statuses() == [200, 401, 401]
        reloadable.change(keys_file=str(tmp_path / "keys-1"))
        assert statuses() == [401, 200, 401]
        (tmp_path / "keys-1").write_text("key-2\n")
        server.wait_for("the key file has changed: 1 API keys are valid")
        assert statuses() == [401, 401, 200]
        assert "need a restart and stay as they are: keys_file" in reloadable.change()
        assert statuses() == [401, 401, 200]


def test_sonant_reload_says_that_no_server_has_the_process_id() -> None:
    done = run_command("reload", "--pid", 1)
    assert (done.exit_code, done.stderr) == (
        1,
        "sonant reload: the server with the process id 1 does not answer: Connection refused\n",
    )
