"""Logs in machine-readable form."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.server.commands import run_command
from tests.server.serving import SPEECH, TIMEOUT, ScriptedServing, Serving, endless, speech, write_config


def entries(server: Serving) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.lines]


def test_json_logs_have_one_object_per_line_with_request_fields(pocket: Path, tmp_path: Path) -> None:
    with ScriptedServing(write_config(tmp_path, pocket), SONANT_LOG_FORMAT="json").ready() as server:
        with server.client() as client:
            client.post(SPEECH, json=endless(max_new_tokens=26), headers={"X-Request-Id": "completed"})
            client.post(SPEECH, json=speech(voice='no"body\n'), headers={"X-Request-Id": "refused"})
        with server.send_speech(endless(), "last", window=4096) as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
            server.process.send_signal(signal.SIGINT)
            server.wait_for("1 utterance in flight may finish")
        assert server.process.wait(TIMEOUT) == 0
    assert all(entry.keys() >= {"time", "level", "logger", "message"} for entry in entries(server))
    found = {entry["id"]: entry for entry in entries(server) if "id" in entry}
    completed, refused = found["completed"], found["refused"]
    assert (completed["method"], completed["path"], completed["status"], completed["outcome"]) == (
        "POST",
        SPEECH,
        200,
        "completed",
    )
    assert (completed["task"], completed["characters"], completed["audio"], completed["finish"]) == (
        "CustomVoice",
        12,
        2.0,
        "length",
    )
    assert {"voice", "seconds", "first_audio", "onset", "rtf", "underruns"} <= completed.keys()
    assert completed["level"] == "warning"
    assert (refused["outcome"], refused["error"], refused["param"]) == ("refused", "voice_not_found", "voice")


def test_a_voice_name_cannot_forge_a_log_line(serving: Serving, client: httpx.Client) -> None:
    forged = "x\n2026-01-01 00:00:00 INFO sonant.requests: forged"
    client.post(SPEECH, json=speech(voice=forged), headers={"X-Request-Id": "forger"})
    serving.wait_for("id=forger ")
    assert not [line for line in serving.lines if line.startswith("2026-01-01 00:00:00")]


def test_refuses_an_unknown_log_format(pocket: Path, tmp_path: Path) -> None:
    done = run_command("serve", "--config", write_config(tmp_path, pocket, log_format="xml"))
    assert done.exit_code == 1
    assert "log_format" in done.stderr


def test_engine_failures_are_logged_as_json(pocket: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(pocket, broken)
    (broken / "model.safetensors").write_bytes(b"no tensors")
    with Serving(write_config(tmp_path, broken, log_format="json")) as server:
        assert server.process.wait(TIMEOUT) == 1
    assert "error" in [entry["level"] for entry in entries(server)]
