"""Runs the examples and the dialogue with the installed packages, through the recorder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import soundfile as sf

from scripts.clients.dialogue import TURNS, tokens, words
from scripts.clients.environments import CACHE, Environment
from scripts.clients.page import ADDRESS, example
from scripts.clients.recorder import Exchange, Recorder
from scripts.clients.requests import ClientRequest

_DRIVERS = Path(__file__).with_name("drivers")
_SECONDS = 1800.0
_SPEECH = "/v1/audio/speech"
_AUDIBLE = 0.01
_SUFFIXES = {"python": "py", "js": "mjs"}


@dataclass(frozen=True)
class Run:
    """A run of a client. folder: the audio that it wrote. error: why it failed; empty if it did not."""

    client: str
    version: str
    folder: Path
    exchanges: list[Exchange]
    error: str

    @property
    def texts(self) -> list[str]:
        """The text of each request."""
        return [each.body["input"] for each in self.exchanges]

    def recorded(self, name: str) -> ClientRequest:
        """Return the first request, as ``name``."""
        first = self.exchanges[0]
        return ClientRequest(self.client, name, self.version, "", first.path, first.body, first.headers)


def run_example(environment: Environment, recorder: Recorder) -> Run:
    """Run the client's example of the page. It must write audible audio to a file."""
    folder = _new_folder(environment, "example")
    program = environment.folder / f"example.{_SUFFIXES[environment.client.language]}"  # beside node_modules
    program.write_text(example(environment.client).replace(ADDRESS, recorder.address))
    error = _execute(environment.command(program), folder, environment)
    speech = _speech(recorder)
    return _finished(environment, folder, speech, error or _refusal(speech) or _silence(folder, 1))


def run_dialogue(environment: Environment, recorder: Recorder) -> Run:
    """Speak the dialogue. Each turn must give audible audio, and its words must be requested, in order."""
    folder = _new_folder(environment, "dialogue")
    assert environment.client.dialogue is not None
    driver = environment.command(_DRIVERS / environment.client.dialogue)
    turns = json.dumps([tokens(turn) for turn in TURNS])
    error = _execute([*driver, recorder.address, turns, str(folder)], folder, environment)
    speech = _speech(recorder)
    fault = _refusal(speech) or error or _lost_words(environment, speech) or _silence(folder, len(TURNS))
    return _finished(environment, folder, speech, fault)


def _speech(recorder: Recorder) -> list[Exchange]:
    return [each for each in recorder.take() if each.path == _SPEECH]


def _finished(environment: Environment, folder: Path, speech: list[Exchange], error: str) -> Run:
    name = environment.client.name
    print(f"{name}, {folder.name}: {error or 'works'}", file=sys.stderr, flush=True)
    return Run(name, environment.version, folder, speech, error)


def _new_folder(environment: Environment, name: str) -> Path:
    folder = CACHE / "audio" / environment.client.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _execute(command: list[str], folder: Path, environment: Environment) -> str:
    """Return the last lines that a failed command printed; empty if it succeeded."""
    variables = {**os.environ, "CLIENT_FOLDER": str(environment.folder)}
    try:
        subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.CalledProcessError as error:
        return "; ".join((error.stderr or error.stdout).strip().splitlines()[-3:])
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS:.0f} s"
    return ""


def _refusal(speech: list[Exchange]) -> str:
    refused = [f"{each.status} for {each.body['input']!r}: {each.error}" for each in speech if each.status != 200]
    return refused[0] if refused else ""


def _lost_words(environment: Environment, speech: list[Exchange]) -> str:
    said = [word for each in speech for word in words(each.body["input"])]
    written = [word for turn in TURNS for word in words(turn)]
    same = sorted(said) == sorted(written) if environment.client.concurrent else said == written
    return "" if same else f"spoke {' '.join(said)}"


def _silence(folder: Path, count: int) -> str:
    files = sorted(folder.iterdir())
    silent = [file.name for file in files if abs(sf.read(file)[0]).max(initial=0) < _AUDIBLE]
    if silent:
        return f"no audible audio in {', '.join(silent)}"
    return "" if len(files) == count else f"{len(files)} files with audio instead of {count}"
