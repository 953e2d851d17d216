"""``sonant bench`` against a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from typer.testing import Result

from tests.server.commands import run_command, run_module
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, Serving, speech

TEXT = "Hello there."


def bench(server: str, *arguments: object) -> Result:
    return run_command("bench", *arguments, SONANT_SERVER=server)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text(TEXT + "\n")
    return path


def read_report(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_measures_reports_and_plots_a_load(serving: Serving, client: httpx.Client, texts: Path, tmp_path: Path) -> None:
    report, plot = tmp_path / "bench.json", tmp_path / "bench.svg"
    common = ["--texts", texts, "--seed", 7, "--frames", 24, "--voice", "serena"]
    options = ["-n", 3, "--warm-up", 1, *common, "--json", report, "--plot", plot]
    done = run_module("server.cli", "bench", *options, SONANT_SERVER=serving.url)
    assert done.returncode == 0, done.stderr
    assert "1 at once" in done.stdout
    assert "first audible sample, ms" in done.stdout
    assert "3 of 3 answered" in done.stdout

    (load,) = read_report(report)["loads"]
    assert load["outcomes"] == {"ok": 3}
    durations = [len(client.post(SPEECH, json=speech(seed=seed)).content) / 48_000 for seed in (7, 8, 9)]
    assert [each["audio"] for each in load["each"]] == pytest.approx(durations)
    assert load["audio_seconds"] == pytest.approx(sum(durations))
    for each in load["each"]:
        times = [each[name] for name in ("connect", "header", "first_byte", "playable", "audible", "total")]
        assert times == sorted(times)
        assert each["heard"] >= each["audible"]
    assert load["first_byte_ms"]["p50"] <= load["first_byte_ms"]["p99"] == load["first_byte_ms"]["max"]

    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_compares_several_loads(serving: Serving, tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    done = bench(serving.url, "--rate", 50, "-c", 2, "-n", 4, "--even", "--frames", 6, "--json", report)
    assert done.exit_code == 0, done.stderr
    loads = read_report(report)["loads"]
    assert [(load["load"], load["kind"], load["asked"]) for load in loads] == [
        ("50 a second", "open", 4),
        ("2 at once", "closed", 4),
    ]
    assert [each["intended"] - loads[0]["each"][0]["intended"] for each in loads[0]["each"]] == pytest.approx(
        [0.0, 0.02, 0.04, 0.06], abs=1e-5
    )
    for name in ("50 a second", "2 at once", "continuity"):
        assert name in done.stdout


def test_measures_cloning(serving: Serving, texts: Path, tmp_path: Path) -> None:
    recording, report = tmp_path / "voice.wav", tmp_path / "bench.json"
    recording.write_bytes(wav(tone(1.5)))
    clone = ["--ref-audio", recording, "--ref-text", "one two three", "--task-type", "Base"]
    done = bench(serving.url, "-n", 2, "--frames", 6, "--texts", texts, *clone, "--json", report)
    assert done.exit_code == 0, done.stdout
    assert read_report(report)["loads"][0]["outcomes"] == {"ok": 2}


def test_understands_wav_streams_and_other_sample_rates(serving: Serving, texts: Path, tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    fields = json.dumps({"response_format": "wav", "sample_rate": 16_000, "seed": 7, "max_new_tokens": 11})
    done = bench(serving.url, "-n", 1, "--texts", texts, "--body", fields, "--json", report)
    assert done.exit_code == 0, done.stdout
    assert read_report(report)["loads"][0]["audio_seconds"] == pytest.approx(0.8)


def test_reports_refusals_and_fails_if_no_request_succeeds(serving: Serving) -> None:
    done = bench(serving.url, "-n", 3, "--voice", "unknown", "--voice", "serena", "--frames", 6)
    assert done.exit_code == 0
    assert "1 of 3 answered" in done.stdout
    assert "404: 2, for example:" in done.stdout
    assert "'unknown'" in done.stdout
    assert bench(serving.url, "-n", 2, "--voice", "unknown").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--plan", "nothing"], "'nothing'"),
        (["--body", "[1]"], "--body"),
        (["--body", "{"], "--body"),
        (["--frames", "many"], "'many'"),
        (["--texts", "nowhere.txt"], "nowhere.txt"),
        (["--ref-audio", "nowhere.wav"], "nowhere.wav"),
        (["--plot", "bench.gif2"], ".gif2"),
        (["--json", "no/such/folder.json"], "no/such/folder.json"),
        (["-s", "nowhere"], "nowhere: not an http"),
        (["-s", "http://127.0.0.1:1"], "no connection to http://127.0.0.1:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_an_invalid_option_is_one_line(arguments: list[str], expected: str) -> None:
    done = run_command("bench", *arguments)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("sonant bench: ")
    assert expected in line
