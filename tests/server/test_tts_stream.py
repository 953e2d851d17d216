"""scripts/tts-stream against a stand-in server and a stand-in player."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.server.stand_in import FIRST, PLAYER, REST, TIMEOUT, StandIn, handler_of

SCRIPT = Path(__file__).parents[2] / "scripts" / "tts-stream"
TOOLS = ("awk", "bash", "cat", "curl", "head", "mkfifo", "mktemp", "rm", "sed", "tr")


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    state = StandIn()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_of(state)) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield state
        server.shutdown()
        thread.join(TIMEOUT)


@pytest.fixture
def environment(tmp_path: Path, stand_in: StandIn) -> dict[str, str]:
    """An environment with the tools the script needs and the stand-in player, and nothing else."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found, f"{name} is not installed"
        (tools / name).symlink_to(found)
    player = tools / "ffplay"
    player.write_text(PLAYER)
    player.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {
        "PATH": str(tools),
        "STAND_IN": stand_in.url,
        "SONANT_SERVER": stand_in.url,
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
    }


def run(environment: dict[str, str], *arguments: str, text: str = "") -> subprocess.CompletedProcess[bytes]:
    result = subprocess.run(
        [SCRIPT, *arguments],
        input=text.encode(),
        env=environment,
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert not list(Path(environment["TMPDIR"]).iterdir()), "a temporary folder was left behind"
    return result


def without_player(environment: dict[str, str]) -> None:
    (Path(environment["PATH"]) / "ffplay").unlink()


def test_plays_before_the_server_has_finished(stand_in: StandIn, environment: dict[str, str]) -> None:
    stand_in.waits_for_player = True
    result = run(environment, "hello")
    assert result.returncode == 0, result.stderr
    assert stand_in.started_in_time
    assert stand_in.played == FIRST + REST


def test_requests_streamed_pcm_and_only_the_text(stand_in: StandIn, environment: dict[str, str]) -> None:
    run(environment, "hello", "world")
    assert stand_in.requests == [{"input": "hello world", "response_format": "pcm", "stream": True}]


@pytest.mark.parametrize(("reported", "played"), [(16_000, "16000"), (None, "24000")])
def test_plays_at_the_sample_rate_of_the_server(
    stand_in: StandIn, environment: dict[str, str], reported: int | None, played: str
) -> None:
    stand_in.sample_rate = reported
    run(environment, "hello")
    arguments = stand_in.player_arguments
    assert arguments[arguments.index("-sample_rate") + 1] == played
    assert arguments[-2:] == ["-i", "-"]


def test_passes_voice_and_language(stand_in: StandIn, environment: dict[str, str]) -> None:
    run(environment, "-v", 'O"Brien', "-l", "English", "hello")
    assert stand_in.requests[0]["voice"] == 'O"Brien'
    assert stand_in.requests[0]["language"] == "English"


def test_the_server_option_overrides_the_environment(stand_in: StandIn, environment: dict[str, str]) -> None:
    environment["SONANT_SERVER"] = "http://127.0.0.1:1"
    assert run(environment, "-s", stand_in.url + "/", "hello").returncode == 0
    assert len(stand_in.requests) == 1


@pytest.mark.parametrize(
    "text",
    [
        'she said "no" \\ and left',
        "C:\\new\\table",
        "one\ntwo\n\nthree",
        "tab\there\rreturn",
        "bell\x07 escape\x1b delete\x7f",
        "日本語 Ünï 😀 ﷽",
        "%s %d $HOME `id` $(id) & < > ' *",
        "-- not an option",
        "long " * 2000,
    ],
)
def test_sends_the_text_unchanged(stand_in: StandIn, environment: dict[str, str], text: str) -> None:
    assert run(environment, "--", text).returncode == 0
    assert run(environment, text=text).returncode == 0
    assert [request["input"] for request in stand_in.requests] == [text, text]


def test_saves_a_file_without_a_player(stand_in: StandIn, environment: dict[str, str], tmp_path: Path) -> None:
    without_player(environment)
    saved = tmp_path / "speech.wav"
    result = run(environment, "-o", str(saved), "hello")
    assert result.returncode == 0, result.stderr
    assert saved.read_bytes() == FIRST + REST
    assert stand_in.requests == [{"input": "hello", "response_format": "wav", "stream": False}]


@pytest.mark.parametrize(
    ("name", "kind"), [("a.mp3", "mp3"), ("a.opus", "opus"), ("a.ogg", "opus"), ("a.b.flac", "flac"), ("a", "wav")]
)
def test_the_file_extension_selects_the_format(
    stand_in: StandIn, environment: dict[str, str], tmp_path: Path, name: str, kind: str
) -> None:
    assert run(environment, "-o", str(tmp_path / name), "hello").returncode == 0
    assert (tmp_path / name).read_bytes() == FIRST + REST
    assert stand_in.requests == [{"input": "hello", "response_format": kind, "stream": False}]


def test_streams_to_standard_output(stand_in: StandIn, environment: dict[str, str]) -> None:
    without_player(environment)
    assert run(environment, "-o", "-", "hello").stdout == FIRST + REST
    assert stand_in.requests == [{"input": "hello", "response_format": "wav", "stream": True}]


def test_without_a_player_it_explains_how_to_install_one(stand_in: StandIn, environment: dict[str, str]) -> None:
    without_player(environment)
    result = run(environment, "hello")
    assert result.returncode == 127
    assert b"apt install ffmpeg" in result.stderr
    assert b"brew install ffmpeg" in result.stderr
    assert stand_in.requests == []


@pytest.mark.parametrize("output", ["no/such/folder/x.wav", "."])
def test_an_unwritable_file_is_reported_before_the_request(
    stand_in: StandIn, environment: dict[str, str], tmp_path: Path, output: str
) -> None:
    result = run(environment, "-o", str(tmp_path / output), "hello")
    assert result.returncode == 1
    assert result.stderr.decode().splitlines() == [f"tts-stream: cannot write {tmp_path / output}"]
    assert stand_in.requests == []


@pytest.mark.parametrize("output", [[], ["-o", "speech.wav"], ["-o", "-"]])
def test_an_error_of_the_server_is_printed_and_never_played(
    stand_in: StandIn, environment: dict[str, str], tmp_path: Path, output: list[str]
) -> None:
    stand_in.status, stand_in.content_type = 404, "application/json"
    message = 'There is no voice "x"; try a\\b'
    stand_in.error = json.dumps({"error": {"message": message, "type": "e", "param": "voice"}}).encode()
    output = [str(tmp_path / name) if name.endswith("wav") else name for name in output]
    result = run(environment, *output, "-v", "x", "hello")
    assert result.returncode == 1
    assert message in result.stderr.decode()
    assert "404" in result.stderr.decode()
    assert result.stdout == b""
    assert not stand_in.player_started.is_set()
    assert not (tmp_path / "speech.wav").exists()


def test_a_response_that_is_not_audio_is_not_played(stand_in: StandIn, environment: dict[str, str]) -> None:
    stand_in.content_type, stand_in.error = "text/html", b"<html>log in first</html>"
    result = run(environment, "hello")
    assert result.returncode == 1
    assert b"text/html" in result.stderr
    assert not stand_in.player_started.is_set()


def test_an_unreachable_server_is_an_error(environment: dict[str, str]) -> None:
    result = run(environment, "-s", "http://127.0.0.1:1", "hello")
    assert result.returncode != 0
    assert b"no answer from http://127.0.0.1:1" in result.stderr


def test_a_truncated_response_is_an_error_and_saves_nothing(
    stand_in: StandIn, environment: dict[str, str], tmp_path: Path
) -> None:
    stand_in.cut_short = True
    saved = tmp_path / "speech.wav"
    assert run(environment, "-o", str(saved), "hello").returncode != 0
    assert not saved.exists()
    assert run(environment, "hello").returncode != 0


def test_sends_the_key_as_bearer_token(stand_in: StandIn, environment: dict[str, str]) -> None:
    run(environment, "hello")
    environment["SONANT_API_KEY"] = 'se"cret\\key'
    run(environment, "hello")
    assert [headers.get("Authorization") for headers in stand_in.headers] == [None, 'Bearer se"cret\\key']


@pytest.mark.parametrize("arguments", [["-x", "hello"], ["--voice", "ava"], ["-v"], [""], []])
def test_wrong_usage_is_an_error(stand_in: StandIn, environment: dict[str, str], arguments: list[str]) -> None:
    result = run(environment, *arguments)
    assert result.returncode == 2
    assert result.stderr
    assert stand_in.requests == []


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_needs_no_server(environment: dict[str, str], option: str) -> None:
    result = run(environment, option)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"Usage: tts-stream" in result.stdout


@pytest.mark.parametrize("way", ["ctrl-c", "terminate"])
def test_stopping_the_script_stops_the_player_and_the_request(
    stand_in: StandIn, environment: dict[str, str], way: str
) -> None:
    stand_in.never_ends = True
    script = subprocess.Popen([SCRIPT, "hello"], env=environment, start_new_session=True)
    try:
        assert stand_in.player_started.wait(TIMEOUT)
        if way == "ctrl-c":
            os.killpg(script.pid, signal.SIGINT)
        else:
            script.terminate()
        assert script.wait(TIMEOUT) == {"ctrl-c": 130, "terminate": 143}[way]
        assert stand_in.client_left.wait(TIMEOUT)
        with pytest.raises(ProcessLookupError):
            os.kill(stand_in.player, 0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
        script.wait(TIMEOUT)


@pytest.mark.parametrize(("voice", "header"), [("emma", "emma"), ('O"Brien', None), ("a\nb: c", None)])
def test_sends_the_name_of_the_voice_for_load_balancers(
    stand_in: StandIn, environment: dict[str, str], voice: str, header: str | None
) -> None:
    run(environment, "-v", voice, "hello")
    assert stand_in.headers[0].get("X-Sonant-Voice") == header
