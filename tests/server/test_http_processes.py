"""A server with several HTTP processes: each of them does everything, and each may be lost alone."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.server.commands import run_module
from tests.server.live_client import receive_utterance, send_utterance, session
from tests.server.recordings import tone, wav
from tests.server.serving import NO_CERTIFICATES, SPEECH, TIMEOUT, Serving, endless, speech, streamed, write_config
from tests.server.test_bad_input import check
from tests.server.test_key_file import add

PROCESSES = 3


class Several(Serving):
    """A server with several HTTP processes."""

    def ready(self) -> Several:
        """Wait until all processes serve requests."""
        self.wait_for("Sonant serves")
        return self

    def http(self) -> list[psutil.Process]:
        """The HTTP processes, the main one first."""
        processes = self.processes()
        return [processes.http, *processes.additional]

    @contextmanager
    def client_of(self, process: psutil.Process) -> Iterator[httpx.Client]:
        """A client whose connection is held by ``process``: the kernel distributes new connections by chance."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            with self.client() as client:
                stream = client.get("/health").extensions["network_stream"]
                port = stream.get_extra_info("client_addr")[1]
                if any(each.raddr and each.raddr.port == port for each in process.net_connections()):
                    yield client
                    return
            assert time.monotonic() < deadline, "no connection reaches the process"

    @contextmanager
    def client_of_each(self) -> Iterator[list[httpx.Client]]:
        """A client of each process, in the order of ``http``."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.client_of(process)) for process in self.http()]

    def counter(self, pattern: str) -> float:
        """The sum of the samples on the metrics page whose lines match ``pattern``."""
        page = httpx.get(f"{self.url}/metrics", headers=self.headers, timeout=TIMEOUT, verify=NO_CERTIFICATES)
        lines = page.text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(pattern, line))


def wait_until(condition: Callable[[], object]) -> None:
    """Poll until ``condition`` holds."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition is never met"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def several(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    config = write_config(tmp_path_factory.mktemp("several"), pocket, http_processes=PROCESSES)
    with Several(config) as server:
        yield server.ready()


def test_each_process_gives_the_same_speech(several: Several) -> None:
    with several.client_of_each() as clients:
        answers = [client.post(SPEECH, json=speech()) for client in clients]
    assert len(clients) == PROCESSES
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1


def test_each_process_knows_the_outcome_of_every_request(several: Several) -> None:
    with several.client_of_each() as clients:
        for number, client in enumerate(clients):
            client.post(SPEECH, json=speech(), headers={"X-Request-Id": f"outcome-{number}"})
            several.wait_for(f"id=outcome-{number} ")
        for number in range(PROCESSES):
            found = [client.get(f"{SPEECH}/outcome-{number}").json() for client in clients]
            assert {each["id"] for each in found} == {f"outcome-{number}"}
            assert {each["outcome"] for each in found} == {"completed"}
        for client in clients:
            check(client.get(f"{SPEECH}/unknown"), 404, "request_id", "request_not_found")


def test_the_metrics_are_those_of_all_processes(several: Several) -> None:
    with several.client_of_each() as clients:
        before = several.counter(r"sonant_requests_total\{.*completed")
        for client in clients:
            client.post(SPEECH, json=speech(), headers={"X-Request-Id": f"counted-{clients.index(client)}"})
            several.wait_for(f"id=counted-{clients.index(client)} ")
        pages = [client.get("/metrics").text for client in clients]
    for page in pages:
        counted = re.findall(r"^sonant_requests_total\{.*completed.* ([\d.]+)$", page, re.MULTILINE)
        assert sum(map(float, counted)) == before + PROCESSES
        assert re.search(r"^sonant_engine_up\{.*\} 1.0$", page, re.MULTILINE)
        assert len(re.findall(r"^sonant_info\{", page, re.MULTILINE)) == 1


def test_a_voice_that_one_process_stored_is_known_to_all(several: Several) -> None:
    with several.client_of_each() as clients:
        files = {"audio_sample": ("voice.wav", wav(tone(2.0)), "audio/wav")}
        created = clients[1].post("/v1/audio/voices", data={"name": "shared", "consent": "yes"}, files=files)
        assert created.status_code == 200, created.text
        answers = [client.post(SPEECH, json=speech(voice="shared")) for client in clients]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        clients[2].delete("/v1/audio/voices/shared").raise_for_status()
        for client in clients:
            assert client.post(SPEECH, json=speech(voice="shared")).status_code == 404


def test_live_sessions_work_in_each_process(several: Several) -> None:
    served = set()
    for _ in range(12):
        with session(several) as socket:
            port = socket.local_address[1]
            served |= {
                process.pid
                for process in several.http()
                if any(each.raddr and each.raddr.port == port for each in process.net_connections())
            }
            send_utterance(socket, "One two three.")
            audio, events = receive_utterance(socket)
            assert audio
            assert events[-1]["type"] == "audio.done"
    assert len(served) > 1


def test_a_lost_process_breaks_only_its_own_streams(several: Several) -> None:
    engine = several.processes().engine[0]
    counted = several.counter(r"sonant_requests_total")
    with ExitStack() as stack:
        clients = [stack.enter_context(several.client_of(process)) for process in several.http()]
        responses = [stack.enter_context(streamed(client, endless(max_new_tokens=300))) for client in clients]
        pieces = [response.iter_raw() for response in responses]
        assert all(next(each) for each in pieces)
        lost = several.http()[1]
        lost.kill()
        with pytest.raises(httpx.TransportError):
            list(pieces[1])
        for kept in (pieces[0], pieces[2]):
            assert sum(map(len, kept)) > 100_000
    several.wait_for(rf"HTTP process \d \(pid {lost.pid}\) was killed by SIGKILL; restarting it in \d")
    wait_until(lambda: len(several.http()) == PROCESSES)
    with several.client_of(several.http()[-1]) as client:
        several.until_ready()
        assert client.post(SPEECH, json=speech()).status_code == 200
    assert several.processes().engine[0] == engine
    several.until_idle()
    assert several.counter(r"sonant_requests_total") >= counted


def test_a_lost_engine_is_replaced_for_all_processes(several: Several) -> None:
    with several.client_of_each() as clients:
        several.processes().engine[0].kill()
        several.wait_for("restarting the engine process")
        for client in clients:
            wait_until(lambda client=client: client.post(SPEECH, json=speech()).status_code == 200)
    assert several.counter(r"sonant_engine_restarts_total\{.*crashed") == 1


def test_requests_without_audio_survive_the_loss_of_the_engine(several: Several) -> None:
    several.until_ready()
    engine = several.processes().engine[0]
    with several.client_of_each() as clients, ThreadPoolExecutor(PROCESSES) as threads:
        engine.suspend()
        sent = [
            threads.submit(client.post, SPEECH, json=speech(), headers={"X-Request-Id": f"moved-{number}"})
            for number, client in enumerate(clients)
        ]
        wait_until(lambda: several.counter(r"sonant_requests_running") == PROCESSES)
        engine.kill()
        assert [each.result(TIMEOUT).status_code for each in sent] == [200] * PROCESSES


@pytest.fixture(scope="module")
def with_keys(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Several, dict[str, str]]]:
    """A server with keys, and the keys by name."""
    folder = tmp_path_factory.mktemp("with-keys")
    keys = {
        "single": add(folder / "keys", "single", "--max-requests", 1),
        "metered": add(folder / "keys", "metered", "--audio-seconds-per-day", 3),
        "unlimited": add(folder / "keys", "unlimited"),
    }
    config = write_config(folder, pocket, http_processes=PROCESSES, keys_file="keys")
    with Several(config) as server:
        yield server.ready(), keys


def test_the_limits_of_a_key_count_for_all_processes(with_keys: tuple[Several, dict[str, str]]) -> None:
    server, keys = with_keys
    server.headers = {"Authorization": f"Bearer {keys['single']}"}
    with server.client_of_each() as clients:
        with streamed(clients[0], endless()) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            for other in clients[1:]:
                check(other.post(SPEECH, json=speech()), 429, None, "rate_limit_exceeded")
        server.wait_for(r"status=499 .*key=single")
        for client in [*clients, *clients]:
            assert client.post(SPEECH, json=speech()).status_code == 200
    server.headers = {"Authorization": f"Bearer {keys['metered']}"}
    with server.client_of_each() as clients:
        for number in range(2):
            answer = clients[number].post(
                SPEECH, json=endless(max_new_tokens=25), headers={"X-Request-Id": f"m{number}"}
            )
            assert answer.status_code == 200
            server.wait_for(f"id=m{number} ")
        wait_until(lambda: clients[2].post(SPEECH, json=speech()).status_code != 200)
        check(clients[2].post(SPEECH, json=speech()), 429, None, "insufficient_quota")
        server.http()[1].kill()
        server.wait_for("was killed by SIGKILL; restarting")
        check(clients[2].post(SPEECH, json=speech()), 429, None, "insufficient_quota")


def test_a_forced_stop_logs_the_requests_of_all_processes(with_keys: tuple[Several, dict[str, str]]) -> None:
    """One of them has not handled the first signal when the second one arrives. Stops the server of the test before."""
    server, keys = with_keys
    server.headers = {"Authorization": f"Bearer {keys['unlimited']}"}
    wait_until(lambda: len(server.http()) == PROCESSES)
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client_of(process)) for process in server.http()]
        responses = [
            stack.enter_context(streamed(each, endless(), **{"X-Request-Id": f"forced{number}"}))
            for number, each in enumerate(clients)
        ]
        pieces = [response.iter_raw() for response in responses]
        assert all(map(next, pieces))
        *others, late = server.http()
        late.suspend()
        server.process.terminate()
        wait_until(lambda: sum("in flight may finish" in line for line in server.lines) == len(others))
        server.process.terminate()
        for number, _ in enumerate(others):
            server.wait_for(f"id=forced{number} ")
        late.resume()
        server.wait_for(f"id=forced{len(others)} ")
        assert server.process.wait(TIMEOUT) == 0


def test_a_stop_completes_the_requests_of_all_processes(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, http_processes=PROCESSES)
    with Several(config).ready() as server, ExitStack() as stack:
        family = server.processes().all
        clients = [stack.enter_context(server.client_of(process)) for process in server.http()]
        responses = [stack.enter_context(streamed(each, endless(max_new_tokens=301))) for each in clients[1:]]
        pieces = [response.iter_raw() for response in responses]
        begun = [next(each) for each in pieces]
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: clients[0].post(SPEECH, json=speech()).status_code != 200)
        check(clients[0].post(SPEECH, json=speech()), 503, None, "draining")
        for first, rest in zip(begun, pieces, strict=True):
            assert len(first) + sum(map(len, rest)) == 300 * 1920 * 2
        assert server.process.wait(TIMEOUT) == 0
        assert not [line for line in server.lines if re.search("Traceback|Error|killing", line)]
        _, alive = psutil.wait_procs(family, TIMEOUT)
        assert not alive


def test_a_stop_sends_a_complete_response_to_a_slow_reader(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, http_processes=PROCESSES)
    with Several(config).ready() as server, ExitStack() as stack:
        clients = [stack.enter_context(server.client_of(process)) for process in server.http()]
        body = endless(max_new_tokens=2001, stream=False, response_format="wav")
        with streamed(clients[1], body) as response:
            pieces = response.iter_raw(1000)
            received = len(next(pieces))
            server.process.terminate()
            wait_until(lambda: clients[0].post(SPEECH, json=speech()).status_code != 200)
            assert received + sum(map(len, pieces)) == int(response.headers["Content-Length"])
        assert server.process.wait(TIMEOUT) == 0


def test_a_server_whose_engine_cannot_start_ends_without_a_drain(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    config = write_config(tmp_path, tmp_path / "empty", http_processes=PROCESSES, limits={"drain_seconds": 3600})
    with Several(config) as server:
        assert server.process.wait(TIMEOUT) == 1
    assert len([line for line in server.lines if "could not start" in line]) == 1
    assert not [line for line in server.lines if "restarting" in line]


def test_all_processes_end_with_the_main_one_and_start_again(several: Several) -> None:
    several.until_ready()
    before = several.http()
    before[0].kill()
    _, alive = psutil.wait_procs(before, TIMEOUT)
    assert not alive
    several.wait_for(rf"HTTP process \(pid {before[0].pid}\) was killed by SIGKILL; restarting")
    several.until_ready()
    with several.client_of_each() as clients:
        for client in clients:
            several.until_ready()
            assert client.post(SPEECH, json=speech()).status_code == 200


def test_the_configuration_is_not_reloaded(several: Several) -> None:
    several.process.send_signal(signal.SIGHUP)
    several.wait_for(r"must be restarted instead")
    assert httpx.post(f"{several.url}{SPEECH}", json=speech(), timeout=TIMEOUT).status_code == 200


def test_a_second_server_does_not_share_the_address(several: Several, pocket: Path, tmp_path: Path) -> None:
    port = int(several.url.rpartition(":")[2])
    config = write_config(tmp_path, pocket, http_processes=PROCESSES)
    second = run_module("server.cli", "serve", "--config", config, "--port", port)
    assert second.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in second.stderr


def test_no_process_outlives_a_killed_supervisor(several: Several) -> None:
    """The last test, because it ends the server of the others."""
    family = several.processes().all
    several.process.kill()
    _, alive = psutil.wait_procs(family, TIMEOUT)
    assert not alive
