"""The public Python API of the engine: what ``import engine`` exports, and the example in its docstring."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import engine
from engine.client.client import EngineClient

ROOT = Path(__file__).parents[2]


def example() -> str:
    _, _, code = (engine.__doc__ or "").partition("::\n")
    return textwrap.dedent(code)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_exported_name_can_be_imported():
    assert engine.EngineClient is EngineClient
    assert all(hasattr(engine, name) for name in engine.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Engine'"):
        _ = engine.Engine


def test_the_example_prints_chunks_of_whole_frames():
    samples = [int(line.split()[0]) for line in run(example()).splitlines()]
    assert samples
    assert all(count > 0 and count % 1920 == 0 for count in samples)


def test_the_public_api_does_not_import_torch():
    assert run("import sys; from engine import *; print('torch' in sys.modules)") == "False\n"


def test_a_submodule_does_not_import_the_public_api():
    assert run("import sys, engine.protocol.request; print('engine.client' in sys.modules)") == "False\n"
