"""Two servers behind HAProxy and nginx, with the configurations that the project ships."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.deploy.balancers import KINDS, Balancer, write_haproxy, write_nginx
from tests.server.live_client import receive_error, receive_first_audio, send_text, send_utterance, session
from tests.server.serving import SPEECH, TIMEOUT, ScriptedServing, Serving, write_config
from tests.support.scripted_server import LATE, SCRIPTED_LOST

SHORT = "Hello."
LONG = "This is read for a while, because it is long. " * 12
MAX_VOICES = 40
"""Voices after which both servers were selected, with near certainty."""


class Fleet:
    """Two servers and both load balancers in front of them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.servers, self.lost = [], []
        for name in ("one", "two"):
            (folder / name).mkdir()
            config = write_config(folder / name, Path("org/model"), limits={"connection_share": 1})
            self.lost.append(folder / name / "lost")
            self.servers.append(stack.enter_context(ScriptedServing(config, **{SCRIPTED_LOST: str(self.lost[-1])})))
        for server in self.servers:
            server.ready()
        self.balancers = {kind: stack.enter_context(Balancer(kind, folder, self.servers)) for kind in KINDS}
        for balancer in self.balancers.values():
            balancer.until_ready()
        self._direct = [stack.enter_context(server.client()) for server in self.servers]

    def server_of(self, request_id: str) -> int | None:
        """The index of the server that accepted a request."""
        for number, (server, client) in enumerate(zip(self.servers, self._direct, strict=True)):
            if server.process.poll() is None:
                outcome = client.get(f"{SPEECH}/{request_id}").json()
                if outcome.get("outcome") in ("running", "completed"):
                    return number
        return None


@contextmanager
def new_fleet(folder: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(folder, stack)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with new_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture
def disposable(tmp_path: Path) -> Iterator[Fleet]:
    """Servers that the test may stop."""
    with new_fleet(tmp_path) as fleet:
        yield fleet


@pytest.fixture(params=KINDS)
def balancer(request: pytest.FixtureRequest, fleet: Fleet) -> Balancer:
    return fleet.balancers[request.param]


def request_of(balancer: Balancer, name: str, text: str = SHORT, voice: str | None = None) -> dict[str, Any]:
    """The arguments of a request for speech. ``voice``: for the header only."""
    headers = {"X-Request-Id": f"{balancer.kind}-{name}"} | ({"X-Sonant-Voice": voice} if voice else {})
    return {"json": {"input": text, "response_format": "pcm"}, "headers": headers}


def speak(balancer: Balancer, name: str, text: str = SHORT, voice: str | None = None) -> httpx.Response:
    return balancer.client.post(SPEECH, **request_of(balancer, name, text, voice))


@contextmanager
def streamed(balancer: Balancer, name: str, text: str = LONG) -> Iterator[Iterator[bytes]]:
    """The pieces of a response, of which the first has arrived."""
    with balancer.client.stream("POST", SPEECH, **request_of(balancer, name, text)) as response:
        assert response.status_code == 200
        pieces = response.iter_raw()
        assert next(pieces)
        yield pieces


def test_requests_for_a_voice_use_one_server(balancer: Balancer, fleet: Fleet) -> None:
    servers: dict[str, int | None] = {}
    while {*servers.values()} != {0, 1} and len(servers) < MAX_VOICES:
        voice = f"voice-{len(servers)}"
        assert speak(balancer, voice, voice=voice).status_code == 200
        servers[voice] = fleet.server_of(f"{balancer.kind}-{voice}")
    assert {*servers.values()} == {0, 1}
    for voice, server in servers.items():
        assert speak(balancer, f"{voice}-again", voice=voice).status_code == 200
        assert fleet.server_of(f"{balancer.kind}-{voice}-again") == server


def test_requests_without_the_header_use_the_server_with_fewer_connections(balancer: Balancer, fleet: Fleet) -> None:
    with streamed(balancer, "least-0"):
        for number in range(1, 5):
            assert speak(balancer, f"least-{number}").status_code == 200
        busy = fleet.server_of(f"{balancer.kind}-least-0")
        others = {fleet.server_of(f"{balancer.kind}-least-{number}") for number in range(1, 5)}
    assert others == {1 - busy}


@pytest.mark.parametrize("voice", [None, "some-voice"])
def test_a_request_whose_engine_is_lost_before_audio_goes_to_the_other_server(
    balancer: Balancer, fleet: Fleet, voice: str | None
) -> None:
    broken = 0
    if voice is not None:
        speak(balancer, "where", voice=voice)
        broken = fleet.server_of(f"{balancer.kind}-where")
    fleet.lost[broken].touch()
    try:
        for number in range(4):
            assert speak(balancer, f"lost-{voice}-{number}", voice=voice).status_code == 200
            with fleet.servers[1 - broken].client() as client:
                outcome = client.get(f"{SPEECH}/{balancer.kind}-lost-{voice}-{number}").json()
            assert outcome["outcome"] == "completed"
    finally:
        fleet.lost[broken].unlink()


def test_the_outcome_of_a_request_is_found_on_either_server(balancer: Balancer, fleet: Fleet) -> None:
    speak(balancer, "outcome")
    for _ in range(4):  # of which some ask the other server first
        outcome = balancer.client.get(f"{SPEECH}/{balancer.kind}-outcome")
        assert outcome.json()["outcome"] == "completed"
    unknown = balancer.client.get(f"{SPEECH}/never-sent")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "request_not_found")


def test_audio_arrives_while_it_is_made(balancer: Balancer) -> None:
    """The stream would take seconds to complete; the live session below never completes by itself."""
    with streamed(balancer, "chunks") as pieces:
        assert len(next(pieces)) < 100_000
    with session(balancer, f"{balancer.kind}-live", voice="ava") as socket:  # type: ignore[arg-type]
        send_utterance(socket, SHORT)
        assert receive_first_audio(socket)


@pytest.mark.parametrize("text", [LONG, LATE], ids=["after the first byte", "before the first byte"])
def test_a_client_that_disconnects_frees_its_slot(balancer: Balancer, fleet: Fleet, text: str) -> None:
    name = f"left-{'late' if text is LATE else 'speaking'}"
    if text is LATE:
        request = f"{json.dumps(request_of(balancer, name, text)['json'])}"
        command = ["curl", "-sS", f"{balancer.url}{SPEECH}", "-H", "Content-Type: application/json"]
        command += ["-H", f"X-Request-Id: {balancer.kind}-{name}", "-d", request]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as curl:
            wait_for_any(fleet, lambda server: server.stats()["requests"] == 1)
            curl.kill()
    else:
        with streamed(balancer, name, text):
            pass
    wait_for_any(fleet, lambda server: any(f"id={balancer.kind}-{name} status=499" in line for line in server.lines))


def wait_for_any(fleet: Fleet, condition: Callable[[Serving], bool]) -> None:
    """Wait until ``condition`` holds for one of the servers."""
    for _ in range(int(TIMEOUT / 0.05)):
        if any(condition(server) for server in fleet.servers):
            return
        fleet.servers[0].process.poll()
        signal.sigtimedwait([], 0.05)
    raise AssertionError("\n".join(line for server in fleet.servers for line in server.lines))


def test_a_server_that_drains_finishes_its_streams_and_gets_no_new_ones(disposable: Fleet) -> None:
    with ExitStack() as stack:
        streams: dict[str, Iterator[bytes]] = {}
        sessions = []
        for kind, balancer in disposable.balancers.items():
            for number in range(2):
                streams[f"{kind}-drain-{number}"] = stack.enter_context(streamed(balancer, f"drain-{number}"))
            for number in range(2):
                socket = stack.enter_context(session(balancer, f"{kind}-session-{number}", voice="ava"))  # type: ignore[arg-type]
                send_text(socket, "Hello")
                sessions.append((f"{kind}-session-{number}", socket))
        homes = {name: disposable.server_of(name) for name in [*streams, *(name for name, _ in sessions)]}
        disposable.servers[0].process.terminate()
        disposable.servers[0].wait_for("Stopping")
        for kind, balancer in disposable.balancers.items():
            for number in range(6):
                assert speak(balancer, f"after-{number}").status_code == 200
                assert disposable.server_of(f"{kind}-after-{number}") == 1
        for pieces in streams.values():
            assert sum(map(len, pieces))
        assert {0, 1} == {*homes.values()}
        for name, socket in sessions:
            if homes[name] == 0:
                assert receive_error(socket, 1012)["code"] == "stopped"
        for balancer in disposable.balancers.values():
            with session(balancer, voice="ava") as socket:  # type: ignore[arg-type]
                send_utterance(socket, SHORT)
                assert receive_first_audio(socket)


def test_a_killed_server_breaks_its_own_streams_only(disposable: Fleet) -> None:
    with ExitStack() as stack:
        streams = {}
        for balancer in disposable.balancers.values():
            for number in range(4):
                name = f"kill-{number}"
                streams[f"{balancer.kind}-{name}"] = stack.enter_context(streamed(balancer, name))
        homes = {name: disposable.server_of(name) for name in streams}
        disposable.servers[0].process.kill()
        disposable.servers[0].process.wait(TIMEOUT)
        for balancer in disposable.balancers.values():
            for number in range(4):
                assert speak(balancer, f"next-{number}", voice=f"voice-{number}").status_code == 200
        for name, pieces in streams.items():
            if homes[name] == 0:
                with pytest.raises(httpx.RemoteProtocolError):
                    list(pieces)
            else:
                assert sum(map(len, pieces))
    disposable.servers[1].process.kill()
    disposable.servers[1].process.wait(TIMEOUT)
    for balancer in disposable.balancers.values():
        refused = speak(balancer, "nobody")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_server")
        assert refused.headers["Retry-After"]
        with pytest.raises(InvalidStatus), session(balancer):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("write", [write_haproxy, write_nginx])
def test_the_configuration_has_no_errors_and_no_warnings(write: Callable[..., list[str]], tmp_path: Path) -> None:
    check = {"haproxy": "-c", "nginx": "-t"}
    program, *arguments = write(tmp_path, 8080, ["127.0.0.1:8001", "127.0.0.1:8002"])
    done = subprocess.run(
        [program, check["nginx" if "nginx" in program else "haproxy"], *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in (done.stdout + done.stderr).lower()
