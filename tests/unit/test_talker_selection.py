"""Selection of the talker; vLLM is not imported unless it is used."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig, TalkerConfig, VllmConfig
from engine.errors import EngineError, SetupError
from engine.talker.loading import runs_on_vllm
from engine.talker.vllm import installation

CPU, GPU = torch.device("cpu"), torch.device("cuda")
LOAD_TALKER = """
import sys, torch
from engine.checkpoint.folder import open_checkpoint
from engine.config import EngineConfig
from engine.talker.loading import load_talker
load_talker(open_checkpoint(sys.argv[1]), EngineConfig(model=sys.argv[1]), torch.device("cpu"))
import engine.worker
assert "vllm" not in sys.modules
"""


def config(engine, **on_vllm):
    return EngineConfig(model="", talker=TalkerConfig(engine=engine, vllm=VllmConfig(**on_vllm)))


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    """Function: install a given release of vLLM, which raises an error when imported."""

    def install(release):
        (tmp_path / "vllm").mkdir()
        (tmp_path / "vllm" / "__init__.py").write_text("raise RuntimeError('vLLM was imported')")
        if release is not None:
            information = tmp_path / f"vllm-{release}.dist-info"
            information.mkdir()
            (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return tmp_path

    return install


@pytest.fixture
def no_vllm(monkeypatch):
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize(("engine", "device"), [("auto", CPU), ("native", CPU), ("native", GPU)])
def test_native_without_a_gpu_or_on_request(engine, device, vllm):
    vllm("0.32.0")
    assert not runs_on_vllm(config(engine), device)


@pytest.mark.parametrize("engine", ["auto", "vllm"])
def test_vllm_on_a_gpu_if_installed(engine, vllm):
    vllm("0.32.0")
    assert runs_on_vllm(config(engine), GPU)


def test_native_on_a_gpu_without_vllm_unless_vllm_is_requested(no_vllm):
    assert not runs_on_vllm(config("auto"), GPU)
    assert runs_on_vllm(config("vllm"), GPU)


def test_native_with_an_old_vllm_unless_vllm_is_requested(vllm):
    vllm("0.23.1")
    assert not runs_on_vllm(config("auto"), GPU)
    assert runs_on_vllm(config("vllm"), GPU)


def test_vllm_on_a_cpu_is_refused():
    with pytest.raises(SetupError, match="needs a GPU"):
        runs_on_vllm(config("vllm"), CPU)


def test_reproducible_codes_need_vllm_on_a_gpu(vllm):
    vllm("0.32.0")
    with pytest.raises(SetupError, match=r"reproducible needs vLLM .* talker\.engine is native"):
        runs_on_vllm(config("native", reproducible=True), GPU)
    assert runs_on_vllm(config("auto", reproducible=True), GPU)


def test_a_gpu_without_vllm_does_not_fall_back_from_reproducible_codes(no_vllm):
    with pytest.raises(SetupError, match=r"reproducible needs vLLM .* no supported vLLM is installed"):
        runs_on_vllm(config("auto", reproducible=True), GPU)


@pytest.mark.parametrize("engine", ["auto", "native"])
def test_on_a_cpu_codes_are_reproducible_without_vllm(engine, vllm):
    vllm("0.32.0")
    assert not runs_on_vllm(config(engine, reproducible=True), CPU)


@pytest.mark.parametrize(
    ("engine", "device", "why"),
    [
        ("native", GPU, r"talker\.engine is native"),
        ("native", CPU, "there is no GPU"),
        ("auto", CPU, "there is no GPU"),
    ],
)
def test_fp8_needs_vllm(engine, device, why, vllm):
    vllm("0.32.0")
    with pytest.raises(SetupError, match=f"fp8_predictor needs vLLM on a GPU, but {why}"):
        runs_on_vllm(config(engine, fp8_predictor=True), device)


def test_a_missing_vllm_says_what_to_install(no_vllm):
    with pytest.raises(SetupError, match=r"pip install 'sonant\[vllm\]'") as raised:
        installation.require()
    assert raised.value.code == "vllm_missing"
    restored = EngineError.from_bytes(raised.value.to_bytes())
    assert (type(restored), restored.message) == (SetupError, raised.value.message)


def test_an_old_vllm_is_refused(vllm):
    vllm("0.23.1")
    with pytest.raises(SetupError, match=r"0\.23 is older than 0\.24"):
        installation.require()


@pytest.mark.parametrize(
    ("release", "warns"), [("0.24.0", False), ("0.32.1rc2", False), ("0.33.0", True), (None, False)]
)
def test_an_untested_newer_vllm_is_accepted_with_a_warning(release, warns, vllm, caplog):
    vllm(release)
    installation.require()
    assert ("newer" in caplog.text) is warns


def test_vllm_is_not_imported_unless_requested(vllm, checkpoints):
    command = [sys.executable, "-c", LOAD_TALKER, str(checkpoints["0b6-custom_voice"])]
    environment = {"PYTHONPATH": f"{vllm('0.32.0')}:{Path.cwd()}"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
