"""The log as programs read it."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.server.serving import PATIENCE, SPEECH, Serving, endless, speech, write_config


def entries(server: Serving) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.lines]


def test_every_line_is_a_json_object_and_a_requests_has_what_it_tells_as_fields(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket), SONANT_LOG_FORMAT="json").ready() as server:
        with server.client() as client:
            client.post(SPEECH, json=endless(max_new_tokens=26), headers={"X-Request-Id": "told"})
            client.post(SPEECH, json=speech(voice='no"body\n'), headers={"X-Request-Id": "refused"})
        with server.asked(endless(), "last", window=4096) as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
            server.process.send_signal(signal.SIGINT)
            server.wait_for("1 utterance in flight may finish")
        assert server.process.wait(PATIENCE) == 0
    assert all(entry.keys() >= {"time", "level", "logger", "message"} for entry in entries(server))
    found = {entry["id"]: entry for entry in entries(server) if "id" in entry}
    told, refused = found["told"], found["refused"]
    assert (told["method"], told["path"], told["status"], told["outcome"]) == ("POST", SPEECH, 200, "completed")
    assert (told["task"], told["characters"], told["audio"], told["finish"]) == ("CustomVoice", 12, 2.0, "length")
    assert {"voice", "seconds", "first_audio", "onset", "rtf", "underruns"} <= told.keys()
    assert told["level"] == "warning"
    assert (refused["outcome"], refused["error"], refused["param"]) == ("refused", "voice_not_found", "voice")


def test_a_voices_name_cannot_forge_a_line(serving: Serving, client: httpx.Client) -> None:
    forged = "x\n2026-01-01 00:00:00 INFO sonant.requests: forged"
    client.post(SPEECH, json=speech(voice=forged), headers={"X-Request-Id": "forger"})
    serving.wait_for("id=forger ")
    assert not [line for line in serving.lines if line.startswith("2026-01-01 00:00:00")]


def test_a_wrong_log_format_is_refused(pocket: Path, tmp_path: Path) -> None:
    from tests.server.test_commands import sonant

    done = sonant("serve", "--config", write_config(tmp_path, pocket, log_format="xml"))
    assert done.returncode == 1
    assert "log_format" in done.stderr


def test_an_engine_that_fails_says_so_in_the_same_form(pocket: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(pocket, broken)
    (broken / "model.safetensors").write_bytes(b"no tensors")
    with Serving(write_config(tmp_path, broken, log_format="json")) as server:
        assert server.process.wait(PATIENCE) == 1
    assert "error" in [entry["level"] for entry in entries(server)]
