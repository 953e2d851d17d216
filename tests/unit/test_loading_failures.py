"""Errors while the engine is loaded, as reported to the client; the GPU is simulated."""

import os
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import engine.worker
from engine.code2wav import launch
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.device.memory import GIB
from engine.errors import EngineError, EngineFailed
from engine.protocol.messages import READY
from engine.transfer import Kind, Wakeup, pair

TIMEOUT = 20


class FakeGpuMemory:
    """Memory of a GPU with enough room for Code2Wav."""

    def __init__(self, device, gib):
        pass

    def record(self, part):
        pass

    def log_usage(self):
        pass


@pytest.fixture
def on_a_gpu(monkeypatch, checkpoints):
    """Function: start the engine with Code2Wav in the given placement; returns the error that the client receives."""
    monkeypatch.setattr(engine.worker, "choose_device", lambda config: torch.device("cuda"))
    monkeypatch.setattr(engine.worker, "GpuMemory", FakeGpuMemory)
    monkeypatch.setattr(engine.worker, "precompiling", lambda config, ahead: nullcontext())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (GIB, 140 * GIB))
    monkeypatch.setattr(launch, "start", lambda config, frames, audio, compute, first_frame_slot: lambda: None)
    monkeypatch.setattr(launch, "await_ready", lambda frames, wakeup, timeout: None)

    def start(placement="thread", gpu=None):
        code2wav = Code2WavConfig(placement=placement, gpu=gpu)
        config = EngineConfig(model=str(checkpoints["0b6-base"]), code2wav=code2wav)
        near, far = pair(window=1)
        audio, _ = pair(window=1)
        wakeup, client = Wakeup(), Wakeup()
        with near.attach(wakeup) as requests, far.attach(client) as answers:
            engine.worker.run(config, requests, audio, wakeup)
            records = []
            assert client.wait_for(lambda: records.extend(answers.receive()) or len(records) == 2, TIMEOUT)
        assert [(each.stream, each.kind) for each in records] == [(READY, Kind.OPEN), (READY, Kind.FAIL)]
        return EngineError.from_bytes(records[1].payload)

    return start


def out_of_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def test_out_of_memory_of_the_reference_encoders_is_not_attributed_to_the_talker(on_a_gpu, monkeypatch):
    monkeypatch.setattr(engine.worker, "ReferenceEncoder", out_of_memory)
    error = on_a_gpu()
    assert error.code == "out_of_memory"
    assert error.message.startswith("the GPU has no room for the reference encoders: CUDA out of memory;")
    assert "talker.slots" not in error.message


@pytest.mark.parametrize(("gpu", "shared"), [(None, True), (0, True), (1, False)])
def test_code2wav_on_another_gpu_is_not_suggested_for_lowering(on_a_gpu, monkeypatch, gpu, shared):
    monkeypatch.setattr(engine.worker, "ReferenceEncoder", out_of_memory)
    error = on_a_gpu("process", gpu)
    assert error.code == "out_of_memory"
    assert error.message.startswith("the GPU has no room for the reference encoders: CUDA out of memory")
    assert ("code2wav.streams" in error.message) == shared
    assert ("gpu_memory_gib" in error.message) != shared


@pytest.mark.parametrize("placement", ["thread", "process"])
def test_the_modules_of_the_talker_are_imported_once(placement, on_a_gpu, monkeypatch):
    imported = []
    monkeypatch.setattr(engine.worker, "import_ahead", lambda *_: imported.append(1))
    monkeypatch.setattr(engine.worker, "ReferenceEncoder", out_of_memory)
    on_a_gpu(placement)
    assert len(imported) == 1


def test_an_error_while_loading_code2wav_is_reported(monkeypatch):
    def load(config, compute):
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(launch, "load_decoder", load)
    talker, own_frames = pair(window=1)
    own_audio, client = pair(window=1)
    wakeup = Wakeup()
    with talker.attach(wakeup) as frames, client.attach(Wakeup()):
        thread = threading.Thread(target=launch.serve, args=(EngineConfig(model=""), own_frames, own_audio))
        thread.start()
        with pytest.raises(EngineFailed, match="loading Code2Wav failed: Failed to find C compiler"):
            launch.await_ready(frames, wakeup, TIMEOUT)
    thread.join(TIMEOUT)
    assert not thread.is_alive()


def test_the_reference_encoders_allocate_before_the_talker_takes_the_rest(on_a_gpu, monkeypatch):
    order = []

    class Encoder:
        def __init__(self, checkpoint, device):
            order.append("encoders")

        def capture(self):
            order.append("their batches")
            out_of_memory()

    monkeypatch.setattr(engine.worker, "ReferenceEncoder", Encoder)
    monkeypatch.setattr(engine.worker, "load_talker", lambda *_: order.append("talker"))
    error = on_a_gpu()
    assert order == ["encoders", "their batches"]
    assert "no room for the reference encoders" in error.message


@pytest.mark.parametrize("placement", ["process", "thread"])
def test_a_failure_to_start_code2wav_is_reported_and_its_links_are_closed_once(placement, checkpoints, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("no more processes") if placement == "process" else RuntimeError("no more threads")

    closed, close_descriptor = [], os.close

    def close(descriptor):
        closed.append(descriptor)
        close_descriptor(descriptor)

    near, far = pair(window=1)
    audio, other = pair(window=1)
    wakeup, client = Wakeup(), Wakeup()
    with near.attach(wakeup) as requests, far.attach(client) as answers, monkeypatch.context() as patched:
        patched.setattr(engine.worker, "import_ahead", lambda *_: None)
        patched.setattr("engine.transfer.link.subprocess.Popen", refuse)
        patched.setattr(launch, "threading", SimpleNamespace(Thread=lambda **_: SimpleNamespace(start=refuse)))
        patched.setattr("engine.transfer.link.os.close", close)
        config = EngineConfig(
            model=str(checkpoints["0b6-base"]),
            device="cpu",
            threads=1,
            talker=TalkerConfig(weights="exact"),
            code2wav=Code2WavConfig(placement=placement),
        )
        engine.worker.run(config, requests, audio, wakeup)
        assert client.wait_for(lambda: answers.pending(), TIMEOUT)
        failure = answers.receive()[-1]
    other.close()
    assert b"no more" in failure.payload
    assert {audio.memory, audio.connection} <= set(closed)
    assert len(closed) == len(set(closed))
