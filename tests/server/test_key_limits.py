"""Named keys of a running server: limits, the key file that changes, revoked keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.server.live_client import receive_error, receive_first_audio, send_utterance, session
from tests.server.serving import NO_CERTIFICATES, SPEECH, TIMEOUT, ScriptedServing, Serving, speech, write_config
from tests.server.test_bad_input import check
from tests.server.test_key_file import add, keys_command

LONG = "This is read for a while, because it is long. " * 20


@dataclass
class Keyed:
    """A server with named keys, and its key file."""

    server: Serving
    file: Path
    keys: dict[str, str]

    def client(self, name: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.keys[name]}"}
        return httpx.Client(base_url=self.server.url, headers=headers, timeout=TIMEOUT, verify=NO_CERTIFICATES)

    def add(self, name: str, *options: object) -> None:
        self.keys[name] = add(self.file, name, *options)

    def until_status(self, name: str, status: int) -> None:
        """Wait until requests of a key get this status."""
        deadline = time.monotonic() + TIMEOUT
        with self.client(name) as client:
            while client.get("/v1/models").status_code != status:
                assert time.monotonic() < deadline, "\n".join(self.server.lines)
                time.sleep(0.05)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("keyed")
    file = folder / "keys"
    keys = {
        "free": add(file, "free"),
        "single": add(file, "single", "--max-requests", 1),
        "metered": add(file, "metered", "--audio-seconds-per-day", 3),
    }
    with ScriptedServing(write_config(folder, Path("org/model"), keys_file="keys", get_speech=True)) as server:
        yield Keyed(server.ready(), file, keys)


def test_a_key_has_its_requests_at_once_and_no_more(keyed: Keyed) -> None:
    batch = {"items": [{"input": "Hello."}, {"input": "Hello again."}]}
    with keyed.client("single") as client, keyed.client("free") as other:
        with client.stream("POST", SPEECH, json={**speech(), "input": LONG}) as response:
            pieces = response.iter_raw()
            assert next(pieces)
            refused = client.post(SPEECH, json=speech())
            check(refused, 429, None, "rate_limit_exceeded")
            assert "at most 1 requests at once" in refused.json()["error"]["message"]
            assert refused.headers["Retry-After"]
            check(client.post(f"{SPEECH}/batch", json=batch), 429, None, "rate_limit_exceeded")
            assert other.post(SPEECH, json=speech()).status_code == 200
        keyed.server.wait_for(r"status=499 .*key=single")
        assert client.post(SPEECH, json=speech()).status_code == 200
        assert client.post(f"{SPEECH}/batch", json=batch).json()["succeeded"] == 2


def test_a_key_has_its_seconds_of_audio_a_day_and_no_more(keyed: Keyed) -> None:
    with keyed.client("metered") as client, keyed.client("free") as other:
        text = "This takes two seconds to say, or so."
        for _ in range(2):
            assert client.post(SPEECH, json={**speech(), "input": text}).status_code == 200
        refused = client.post(SPEECH, json=speech())
        check(refused, 429, None, "insufficient_quota")
        assert 0 < int(refused.headers["Retry-After"]) <= 86_401
        assert other.post(SPEECH, json=speech()).status_code == 200


def test_every_route_of_speech_counts_the_audio_and_has_an_outcome(keyed: Keyed) -> None:
    routes = {
        "short": "/audio/speech",
        "eleven": "/v1/text-to-speech/ava",
        "kokoro": "/dev/captioned_speech",
        "url": "",
    }
    for name in routes:
        keyed.add(name, "--audio-seconds-per-day", 1)
    keyed.until_status("url", 200)
    for name, path in routes.items():
        with keyed.client(name) as client:
            for status in (200, 429):
                headers = {"X-Request-Id": f"{name}-{status}"}
                if path:
                    fields = {"text" if name == "eleven" else "input": LONG[:100]}
                    answer = client.post(path, json=fields, headers=headers)
                else:
                    answer = client.get(SPEECH, params={"input": LONG[:100]}, headers=headers)
                assert answer.status_code == status, answer.text
                keyed.server.wait_for(f"id={name}-{status} ")
                assert client.get(f"{SPEECH}/{name}-{status}").json()["status"] == status


def test_the_log_and_the_outcome_name_the_key(keyed: Keyed) -> None:
    with keyed.client("free") as client, keyed.client("single") as other:
        client.post(SPEECH, json=speech(), headers={"X-Request-Id": "named"})
        keyed.server.wait_for(r"id=named status=200 outcome=completed key=free ")
        assert client.get(f"{SPEECH}/named").json()["key"] == "free"
        check(other.get(f"{SPEECH}/named"), 404, "request_id", "request_not_found")
    assert not [line for line in keyed.server.lines if any(key in line for key in keyed.keys.values())]


def test_keys_are_added_and_revoked_while_the_server_runs(keyed: Keyed) -> None:
    keyed.add("later")
    keyed.until_status("later", 200)
    headers, keyed.server.headers = keyed.server.headers, {"Authorization": f"Bearer {keyed.keys['later']}"}
    try:
        with session(keyed.server, voice="ava") as socket:
            send_utterance(socket, "Hello.")
            assert receive_first_audio(socket)
            assert keys_command("revoke", keyed.file, "later").exit_code == 0
            keyed.until_status("later", 401)
            send_utterance(socket, "Hello again.")
            assert receive_error(socket)["code"] == "invalid_api_key"
    finally:
        keyed.server.headers = headers
    keyed.until_status("free", 200)


def test_an_invalid_key_file_changes_nothing(keyed: Keyed) -> None:
    valid = keyed.file.read_text()
    keyed.file.write_text(valid + "two words\n")
    keyed.server.wait_for(r"the API keys stay as they are: keys_file: .*, line \d+: must be one key")
    keyed.until_status("free", 200)
    keyed.file.unlink()
    keyed.server.wait_for(r"the API keys stay as they are: .*No such file")
    keyed.until_status("free", 200)
    keyed.file.write_text(valid)
    keyed.server.wait_for(r"the key file has changed: \d API keys are valid")
