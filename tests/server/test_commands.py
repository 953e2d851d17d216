"""``sonant serve``, ``say`` and ``doctor``, as processes."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import soundfile as sf

from server.cli.serve import _listen
from server.settings import load_settings
from tests.server.commands import ran
from tests.server.hearing import hear
from tests.server.recordings import tone, wav
from tests.server.serving import PATIENCE, ROOT, SPEECH, Serving, speech, write_config

STEADY = ["--seed", "7", "--max-new-tokens", "24"]


def sonant(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return ran("server.cli", *arguments, **variables)


def sonants(commands: Mapping[str, Sequence[object]]) -> dict[str, subprocess.CompletedProcess[str]]:
    """Several, two at a time."""
    with ThreadPoolExecutor(2) as running:
        return dict(zip(commands, running.map(lambda command: sonant(*command), commands.values()), strict=True))


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


def test_the_ending_of_what_is_said_picks_its_format(pocket: Path, tmp_path: Path) -> None:
    kinds = {"said.mp3": "mp3", "SAID.OGG": "opus", "said.flac": "flac"}
    common = ["say", "Hello there.", "--model", pocket, "--speed", "2", "--sample-rate", "16000", *STEADY]
    done = sonants({name: [*common, "-o", tmp_path / name, "--dump", tmp_path / f"{name}.npz"] for name in kinds})
    for name, kind in kinds.items():
        assert done[name].returncode == 0, done[name].stderr
        heard, rate = hear((tmp_path / name).read_bytes(), kind)
        assert rate == 16_000
        said = dumped(tmp_path / f"{name}.npz")["wav"]
        assert len(heard) / rate == pytest.approx(len(said) / 24_000 / 2, abs=0.08)


def test_a_dump_of_a_clone_has_its_voice(pocket: Path, tmp_path: Path, recording: Path) -> None:
    common = ["say", "Hello.", "--model", pocket, "--ref-audio", recording, "--ref-text", "one two", *STEADY]
    options = {"in context": [], "embedding only": ["--x-vector-only"]}
    done = sonants({name: [*common, "--dump", tmp_path / f"{name}.npz", *more] for name, more in options.items()})
    assert [each.returncode for each in done.values()] == [0, 0], done
    in_context, embedding_only = (dumped(tmp_path / f"{name}.npz") for name in options)
    assert in_context["ref_codes"].shape == (9, 16)
    assert in_context["ref_codes"].dtype == np.int64
    assert "ref_codes" not in embedding_only
    assert in_context["spk_embedding"].dtype == np.float32
    np.testing.assert_array_equal(in_context["spk_embedding"], embedding_only["spk_embedding"])


def test_a_dump_has_codes_and_samples_by_the_text_layout(pocket: Path, tmp_path: Path) -> None:
    common = ["say", "Hello there, all of you.", "--model", pocket, "--greedy", *STEADY]
    layouts = ("streaming", "full")
    done = sonants({each: [*common, "--dump", tmp_path / f"{each}.npz", "--text-layout", each] for each in layouts})
    assert [each.returncode for each in done.values()] == [0, 0], done
    arrays, full = (dumped(tmp_path / f"{layout}.npz") for layout in layouts)
    assert not np.array_equal(arrays["codes"], full["codes"])
    frames = len(arrays["codes"])
    assert sorted(arrays) == ["codes", "wav"]
    assert (arrays["codes"].dtype, arrays["codes"].shape) == (np.int64, (frames, 16))
    assert (arrays["wav"].dtype, arrays["wav"].shape) == (np.float32, (frames * 1920,))
    assert 0 < frames <= 23


def test_a_long_text_is_said_sentence_by_sentence(pocket: Path, tmp_path: Path, client: httpx.Client) -> None:
    text = "Good morning to all of you. This is the second of them. And here it comes to an end."
    output, dump = tmp_path / "said.wav", tmp_path / "said.npz"
    common = ["-o", output, "--dump", dump, "--model", pocket, "--voice", "Serena", *STEADY]
    done = sonant("say", text, "--split", *common)
    assert done.returncode == 0, done.stderr
    samples, _ = sf.read(output, dtype="int16")
    assert samples.tobytes() == client.post(SPEECH, json=speech(input=text, split="sentence")).content
    assert len(dumped(dump)["codes"]) * 1920 == len(samples) > 24 * 1920, "more than one sentence may have"


UNSAYABLE = {
    "--voice nobody": "nobody",
    "--language klingon": "klingon",
    "--top-p 1.5": "top_p",
    "--ref-audio nowhere.wav": "nowhere.wav",
    "--ref-text one": "ref_audio",
    "--config nowhere.yaml": "nowhere.yaml",
    "--speed 5": "speed",
    "--sample-rate 96000": "sample_rate",
    "-o no/such/folder/x.wav": "no/such/folder",
    "-o .": "Is a directory",
    "--dump /proc/nothing.npz": "/proc/nothing.npz",
    "--model ./no/such/checkpoint": "no/such/checkpoint",
}
"""Arguments, and what is told of them."""


@pytest.fixture(scope="module")
def unsaid(
    pocket: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, subprocess.CompletedProcess[str]]]:
    """Where nothing may have been written, and how each of them ended."""
    output = tmp_path_factory.mktemp("unsaid") / "said.wav"
    common = ["say", "Hello.", "--model", pocket, "-o", output]
    return output, sonants({arguments: [*common, *arguments.split()] for arguments in UNSAYABLE})


@pytest.mark.parametrize("arguments", UNSAYABLE)
def test_what_cannot_be_said_is_one_line_and_exit_code_1(
    unsaid: tuple[Path, dict[str, subprocess.CompletedProcess[str]]], arguments: str
) -> None:
    done = unsaid[1][arguments]
    assert done.returncode == 1, done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("sonant say: ")
    assert UNSAYABLE[arguments] in last
    assert "Traceback" not in done.stderr
    assert not unsaid[0].exists()


def test_wrong_usage_is_exit_code_2() -> None:
    wrong = {
        "nothing to say": ["say"],
        "nowhere to say it": ["say", "Hello."],
        "no number": ["say", "Hello.", "-o", "x.wav", "--top-k", "many"],
        "no format": ["say", "Hello.", "-o", "x.mp4"],
        "no command": ["sing"],
        "an argument too many": ["serve", "x"],
    }
    assert {name: done.returncode for name, done in sonants(wrong).items()} == dict.fromkeys(wrong, 2)


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
