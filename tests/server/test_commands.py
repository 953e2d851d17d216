"""The commands ``sonant serve``, ``say`` and ``doctor``."""

from __future__ import annotations

import re
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

from server.cli.main import main
from server.listeners.sockets import listen
from server.long_text.pieces import SENTENCE_PAUSE
from tests.server.audio_decoding import decode_audio
from tests.server.commands import FAST_START, run_command, run_module
from tests.server.recordings import tone, wav
from tests.server.serving import ROOT, SPEECH, TIMEOUT, Serving, speech, write_config
from tests.support.scripted_engine import ScriptedEngine, info

SAMPLING = ["--seed", "7", "--max-new-tokens", "24"]


def run_sonant(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_module("server.cli", *arguments, **FAST_START)


def say(*arguments: object, typed: str | None = None) -> None:
    """Run ``sonant say``, which succeeds."""
    done = run_command("say", *arguments, typed=typed, **FAST_START)
    assert done.exit_code == 0, done.stderr


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording shorter than the API accepts."""
    path = tmp_path_factory.mktemp("recordings") / "short.wav"
    path.write_bytes(wav(tone(0.7)))
    return path


def load_dump(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_say_writes_the_audio_of_the_server(pocket: Path, tmp_path: Path, client: httpx.Client) -> None:
    output = tmp_path / "said.wav"
    done = run_sonant("say", "Hello there.", "-o", output, "--model", pocket, "--voice", "Serena", *SAMPLING)
    assert done.returncode == 0, done.stderr
    samples, rate = sf.read(output, dtype="int16")
    assert rate == 24_000
    assert samples.tobytes() == client.post(SPEECH, json=speech()).content
    assert "untrained" in done.stderr
    assert not done.stdout


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    """The engine of ``sonant say``, which starts no process."""
    engine = ScriptedEngine(description=info(trained=False))
    monkeypatch.setattr("server.cli.offline.EngineClient", lambda _: engine)
    return engine


def test_say_reads_standard_input(scripted: ScriptedEngine, tmp_path: Path) -> None:
    say("-", "-o", tmp_path / "said.wav", typed="Hello there.\n")
    assert [stream.request.text for stream in scripted.streams] == ["Hello there."]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(("name", "kind"), [("said.mp3", "mp3"), ("SAID.OGG", "opus"), ("said.flac", "flac")])
def test_say_selects_the_format_by_the_file_extension(tmp_path: Path, name: str, kind: str) -> None:
    output, dump = tmp_path / name, tmp_path / "said.npz"
    say("Hello there.", "-o", output, "--dump", dump, "--speed", "2", "--sample-rate", "16000")
    decoded, rate = decode_audio(output.read_bytes(), kind)
    assert rate == 16_000
    assert len(decoded) / rate == pytest.approx(len(load_dump(dump)["wav"]) / 24_000 / 2, abs=0.08)


def test_the_dump_of_a_clone_contains_its_voice(pocket: Path, tmp_path: Path, recording: Path) -> None:
    dumps = []
    for name, more in (("in-context", []), ("embedding-only", ["--x-vector-only"])):
        reference = ["--ref-audio", recording, "--ref-text", "one two", *more]
        say("Hello.", "--model", pocket, "--dump", tmp_path / f"{name}.npz", *reference, *SAMPLING)
        dumps.append(load_dump(tmp_path / f"{name}.npz"))
    in_context, embedding_only = dumps
    assert in_context["ref_codes"].shape == (9, 16)
    assert in_context["ref_codes"].dtype == np.int64
    assert "ref_codes" not in embedding_only
    assert in_context["spk_embedding"].dtype == np.float32
    np.testing.assert_array_equal(in_context["spk_embedding"], embedding_only["spk_embedding"])


def test_the_dump_contains_codes_and_samples_for_each_text_layout(pocket: Path, tmp_path: Path) -> None:
    dumps = []
    for layout in ("streaming", "full"):
        dump = ["--dump", tmp_path / f"{layout}.npz"]
        say("Hello there, all of you.", "--model", pocket, "--greedy", "--text-layout", layout, *dump, *SAMPLING)
        dumps.append(load_dump(tmp_path / f"{layout}.npz"))
    arrays, full = dumps
    assert not np.array_equal(arrays["codes"], full["codes"])
    frames = len(arrays["codes"])
    assert sorted(arrays) == ["codes", "wav"]
    assert (arrays["codes"].dtype, arrays["codes"].shape) == (np.int64, (frames, 16))
    assert (arrays["wav"].dtype, arrays["wav"].shape) == (np.float32, (frames * 1920,))
    assert 0 < frames <= 23


def test_say_splits_a_long_text_into_sentences(pocket: Path, tmp_path: Path, client: httpx.Client) -> None:
    text = "Good morning to all of you. This is the second of them. And here it comes to an end."
    output, dump = tmp_path / "said.wav", tmp_path / "said.npz"
    common = ["-o", output, "--dump", dump, "--model", pocket, "--voice", "Serena", *SAMPLING]
    say(text, "--split", "sentence", *common)
    samples, _ = sf.read(output, dtype="int16")
    assert samples.tobytes() == client.post(SPEECH, json=speech(input=text, split="sentence")).content
    pauses = 2 * round(SENTENCE_PAUSE * 24_000)
    assert len(load_dump(dump)["codes"]) * 1920 + pauses == len(samples) > 24 * 1920, (
        "more than the limit of one sentence"
    )


def test_say_speaks_a_script_of_several_speakers(pocket: Path, tmp_path: Path, client: httpx.Client) -> None:
    output, script = tmp_path / "said.wav", tmp_path / "script.txt"
    script.write_text("# a greeting\nVivian: Good morning: how are you?\n\nRyan:   Fine, thank you.\n")
    say("--script", script, "-o", output, "--model", pocket, *SAMPLING)
    turns = [{"voice": "vivian", "input": "Good morning: how are you?"}, {"voice": "ryan", "input": "Fine, thank you."}]
    samples, _ = sf.read(output, dtype="int16")
    assert samples.tobytes() == client.post(SPEECH, json=speech(input=turns)).content


FAILING_ARGUMENTS = {
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
}
"""Arguments, and a part of the error message."""


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("arguments", FAILING_ARGUMENTS)
def test_a_failing_say_prints_one_line_and_exits_with_1(tmp_path: Path, arguments: str) -> None:
    fails_with_one_line(FAILING_ARGUMENTS[arguments], tmp_path / "said.wav", arguments)


def test_say_names_a_checkpoint_that_cannot_be_loaded(tmp_path: Path) -> None:
    fails_with_one_line("no/such/checkpoint", tmp_path / "said.wav", "--model ./no/such/checkpoint")


def fails_with_one_line(expected: str, output: Path, arguments: str) -> None:
    done = run_command("say", "Hello.", "-o", output, *arguments.split(), **FAST_START)
    assert done.exit_code == 1, done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("sonant say: ")
    assert expected in last
    assert not output.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["say"], id="no text"),
        pytest.param(["say", "Hello."], id="no output"),
        pytest.param(["say", "Hello.", "--script", "x.txt", "-o", "x.wav"], id="text and script"),
        pytest.param(["say", "Hello.", "-o", "x.wav", "--top-k", "many"], id="not a number"),
        pytest.param(["say", "Hello.", "-o", "x.mp4"], id="unknown format"),
        pytest.param(["sing"], id="unknown command"),
        pytest.param(["serve", "x"], id="extra argument"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sonant", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2


def test_serve_names_an_unknown_setting(pocket: Path, tmp_path: Path) -> None:
    done = run_command("serve", "--config", write_config(tmp_path, pocket, colour="blue"))
    assert (done.exit_code, done.stderr.strip()) == (1, "sonant serve: colour: unknown setting")


def test_serve_names_an_address_in_use(pocket: Path, tmp_path: Path, serving: Serving) -> None:
    port = serving.url.rpartition(":")[2]
    done = run_sonant("serve", "--config", write_config(tmp_path, pocket), "--port", port)
    assert done.returncode == 1
    assert port in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_serve_exits_if_the_checkpoint_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run_sonant("serve", "--config", write_config(tmp_path, tmp_path / "empty"), "--port", "0")
    assert done.returncode == 1
    assert "config.json" in done.stderr
    assert "serves" not in done.stderr


def test_doctor_reports_on_this_machine() -> None:
    done = run_sonant("doctor")
    assert done.returncode == 0, done.stderr
    assert "torch" in done.stdout
    assert re.search(
        r"pocket \(included\): exact \d+ ms.* a real-time factor of 0\.\d\d, faster than real time", done.stdout
    )
    assert re.search(r"0\.6B: exact \d+ ms.* per frame of 80 ms", done.stdout)
    assert "engine.talker.weights: auto selects" in done.stdout


def test_doctor_exits_quietly_when_interrupted() -> None:
    command = [sys.executable, "-m", "server.cli", "doctor"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as doctor:
        family = psutil.Process(doctor.pid)
        while not family.children():
            assert doctor.poll() is None
        doctor.send_signal(signal.SIGINT)
        report, errors = doctor.communicate(timeout=TIMEOUT)
    assert (doctor.returncode, report, errors) == (130, "", "")


def test_prints_the_version() -> None:
    done = run_sonant("--version")
    assert (done.returncode, done.stdout) == (0, f"sonant {version('sonant')}\n")


def test_connections_set_tcp_nodelay() -> None:
    """Without it, replies are 40 ms late."""
    with listen("127.0.0.1", 0, 60.0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
