"""``sonant serve``, ``say`` and ``doctor``, as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import soundfile as sf

from server.commands.serve import _listen
from server.settings import load_settings
from tests.server.hearing import hear
from tests.server.recordings import tone, wav
from tests.server.serving import PATIENCE, ROOT, SPEECH, Serving, speech, write_config

STEADY = ["--seed", "7", "--max-new-tokens", "24"]


def sonant(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server.cli", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shorter than what the wire takes."""
    path = tmp_path_factory.mktemp("recordings") / "short.wav"
    path.write_bytes(wav(tone(0.7)))
    return path


def dumped(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_say_writes_what_the_server_would_send(pocket: Path, tmp_path: Path, client: httpx.Client) -> None:
    output = tmp_path / "said.wav"
    done = sonant("say", "Hello there.", "-o", output, "--model", pocket, "--voice", "Serena", *STEADY)
    assert done.returncode == 0, done.stderr
    samples, rate = sf.read(output, dtype="int16")
    assert rate == 24_000
    assert samples.tobytes() == client.post(SPEECH, json=speech()).content
    assert "untrained" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(("name", "kind"), [("said.mp3", "mp3"), ("SAID.OGG", "opus"), ("said.flac", "flac")])
def test_the_ending_of_what_is_said_picks_its_format(pocket: Path, tmp_path: Path, name: str, kind: str) -> None:
    output, dump = tmp_path / name, tmp_path / "said.npz"
    arguments = ["-o", output, "--dump", dump, "--model", pocket, "--speed", "2", "--sample-rate", "16000", *STEADY]
    done = sonant("say", "Hello there.", *arguments)
    assert done.returncode == 0, done.stderr
    heard, rate = hear(output.read_bytes(), kind)
    assert rate == 16_000
    assert len(heard) / rate == pytest.approx(len(dumped(dump)["wav"]) / 24_000 / 2, abs=0.08)


def test_a_dump_has_codes_and_samples(pocket: Path, tmp_path: Path) -> None:
    output, dump = tmp_path / "said.wav", tmp_path / "said.npz"
    done = sonant("say", "Hello.", "-o", output, "--dump", dump, "--model", pocket, "--greedy", *STEADY)
    assert done.returncode == 0, done.stderr
    arrays = dumped(dump)
    frames = len(arrays["codes"])
    assert sorted(arrays) == ["codes", "wav"]
    assert (arrays["codes"].dtype, arrays["codes"].shape) == (np.int64, (frames, 16))
    assert (arrays["wav"].dtype, arrays["wav"].shape) == (np.float32, (frames * 1920,))
    assert 0 < frames <= 23


def test_a_dump_of_a_clone_has_its_voice(pocket: Path, tmp_path: Path, recording: Path) -> None:
    dump = tmp_path / "said.npz"
    common = ["say", "Hello.", "--dump", dump, "--model", pocket, "--ref-audio", recording, *STEADY]
    assert sonant(*common, "--ref-text", "one two").returncode == 0
    in_context = dumped(dump)
    assert sonant(*common, "--ref-text", "one two", "--x-vector-only").returncode == 0
    embedding_only = dumped(dump)
    assert in_context["ref_codes"].shape == (9, 16)
    assert in_context["ref_codes"].dtype == np.int64
    assert "ref_codes" not in embedding_only
    assert in_context["spk_embedding"].dtype == np.float32
    np.testing.assert_array_equal(in_context["spk_embedding"], embedding_only["spk_embedding"])


def test_the_text_layout_is_heard(pocket: Path, tmp_path: Path) -> None:
    codes = {}
    for layout in ("streaming", "full"):
        dump = tmp_path / f"{layout}.npz"
        arguments = ["--dump", dump, "--model", pocket, "--greedy", "--text-layout", layout, *STEADY]
        assert sonant("say", "Hello there, all of you.", *arguments).returncode == 0
        codes[layout] = dumped(dump)["codes"]
    assert not np.array_equal(codes["streaming"], codes["full"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--voice", "nobody"], "nobody"),
        (["--language", "klingon"], "klingon"),
        (["--top-p", "1.5"], "top_p"),
        (["--ref-audio", "nowhere.wav"], "nowhere.wav"),
        (["--ref-text", "one two"], "ref_audio"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--speed", "5"], "speed"),
        (["--sample-rate", "96000"], "sample_rate"),
        (["-o", "no/such/folder/x.wav"], "no/such/folder"),
        (["-o", "."], "Is a directory"),
        (["--dump", "/proc/nothing.npz"], "/proc/nothing.npz"),
        (["--model", "./no/such/checkpoint"], "no/such/checkpoint"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_cannot_be_said_is_one_line_and_exit_code_1(
    pocket: Path, tmp_path: Path, arguments: list[str], told: str
) -> None:
    done = sonant("say", "Hello.", "--model", pocket, "-o", tmp_path / "said.wav", *arguments)
    assert done.returncode == 1, done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("sonant say: ")
    assert told in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "said.wav").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["say"],
        ["say", "Hello."],
        ["say", "Hello.", "-o", "x.wav", "--top-k", "many"],
        ["say", "Hello.", "-o", "x.mp4"],
        ["sing"],
        ["serve", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert sonant(*arguments).returncode == 2


def test_serve_names_an_unknown_setting(pocket: Path, tmp_path: Path) -> None:
    done = sonant("serve", "--config", write_config(tmp_path, pocket, colour="blue"))
    assert (done.returncode, done.stderr.strip()) == (1, "sonant serve: colour: unknown setting")


def test_serve_names_an_address_that_is_taken(pocket: Path, tmp_path: Path, serving: Serving) -> None:
    port = serving.url.rpartition(":")[2]
    done = sonant("serve", "--config", write_config(tmp_path, pocket), "--port", port)
    assert done.returncode == 1
    assert port in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_serve_ends_when_the_checkpoint_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = sonant("serve", "--config", write_config(tmp_path, tmp_path / "empty"), "--port", "0")
    assert done.returncode == 1
    assert "config.json" in done.stderr


def test_doctor_reports_on_this_machine() -> None:
    done = sonant("doctor")
    assert done.returncode == 0, done.stderr
    assert "torch" in done.stdout


def test_doctor_stops_quietly_when_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "server.cli", "doctor"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as doctor:
        family = psutil.Process(doctor.pid)
        while not family.children():
            assert doctor.poll() is None
        doctor.send_signal(signal.SIGINT)
        _, told = doctor.communicate(timeout=PATIENCE)
    assert (doctor.returncode, told) == (130, "")


def test_the_version_is_told() -> None:
    done = sonant("--version")
    assert (done.returncode, done.stdout) == (0, f"sonant {version('sonant')}\n")


def test_connections_are_told_not_to_wait_for_more(tmp_path: Path) -> None:
    """Or every reply is 40 ms late."""
    settings = load_settings(flags={"engine": {"model": "org/model"}, "port": 0})
    with _listen(settings) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
