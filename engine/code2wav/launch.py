"""Starts stage 2 as a thread of the talker's process or as a process of its own, as configured."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import torch

from engine.code2wav.early_decoding import EarlyDecoding
from engine.code2wav.gpu import GraphedDecoder
from engine.code2wav.loading import load_decoder
from engine.code2wav.stage import Code2WavStage
from engine.config import EngineConfig
from engine.device.compute_thread import ComputeThread
from engine.device.first_frame import FirstFrameSlot
from engine.device.memory import out_of_memory
from engine.errors import EngineError, EngineFailed
from engine.protocol.messages import READY
from engine.system.gpus import with_gpu
from engine.system.process import freeze_gc
from engine.transfer import Endpoint, Kind, LinkClosed, MultiEndpoint, MultiSide, Side, Wakeup, spawn

_EXIT_TIMEOUT_S = 10.0
_log = logging.getLogger(__name__)


def start(
    config: EngineConfig,
    frames: Side,
    audio: MultiSide,
    compute: ComputeThread | None = None,
    first_frame_slot: FirstFrameSlot | None = None,
) -> Callable[[], None]:
    """Start stage 2 on its sides of the two links. Return a function that waits until stage 2 has ended.

    compute: the thread to compute in, for ``placement: thread``. first_frame_slot: where the talker
    hands over first frames, for a GPU and the same placement.

    Stage 2 ends when either link is closed. The returned function waits up to ``_EXIT_TIMEOUT_S`` seconds, then kills a
    process that is still running. Takes ownership of both sides, and closes them on failure too. Raises OSError or
    RuntimeError when the process or the thread cannot be started.
    """
    if config.code2wav.placement == "thread":
        thread = threading.Thread(
            target=serve, args=(config, frames, audio, compute, first_frame_slot), name="code2wav", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            frames.close()
            audio.close()
            raise
        return lambda: thread.join(_EXIT_TIMEOUT_S)
    environment = dict(os.environ)
    if config.code2wav.gpu is not None:
        environment = with_gpu(config.code2wav.gpu, environment, "code2wav.gpu")
        config = config.model_copy(update={"device": "cuda"})
    command = [sys.executable, "-m", "engine.code2wav.process", config.model_dump_json()]
    command += [frames.to_argument(), audio.to_argument(), str(os.getpid())]
    process = spawn(command, [frames, audio], env=environment)
    return lambda: _wait(process)


def serve(
    config: EngineConfig,
    frames_side: Side,
    audio_side: MultiSide,
    compute: ComputeThread | None = None,
    first_frame_slot: FirstFrameSlot | None = None,
) -> None:
    """Load stage 2, report the result on stream READY of the frames link, and run until either link is closed."""
    wakeup = Wakeup()
    with frames_side.attach(wakeup) as frames, audio_side.attach(wakeup) as audio:
        try:
            frames.open(READY)
            _run(config, frames, audio, wakeup, compute, first_frame_slot)
        except LinkClosed:
            _log.debug("a link of Code2Wav was closed")
        except Exception:
            _log.exception("Code2Wav stopped")


def _run(
    config: EngineConfig,
    frames: Endpoint,
    audio: MultiEndpoint,
    wakeup: Wakeup,
    compute: ComputeThread | None,
    first_frame_slot: FirstFrameSlot | None,
) -> None:
    try:
        decoder = load_decoder(config, compute)
    except EngineError as error:
        frames.fail(READY, error.to_bytes())
    except torch.OutOfMemoryError as error:
        frames.fail(READY, out_of_memory("Code2Wav", "code2wav.streams", error).to_bytes())
    except Exception as error:
        _log.exception("loading Code2Wav failed")
        frames.fail(READY, EngineFailed(f"loading Code2Wav failed: {error}").to_bytes())
    else:
        freeze_gc()
        frames.end(READY)
        early = None
        if first_frame_slot is not None and isinstance(decoder, GraphedDecoder) and config.code2wav.first_frames == 1:
            early = EarlyDecoding(decoder, first_frame_slot)
        Code2WavStage(decoder, config.code2wav, frames=frames, audio=audio, wakeup=wakeup, early=early).run()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_ready(frames: Endpoint, wakeup: Wakeup, timeout: float) -> None:
    """Wait until stage 2 is loaded. Called on the talker's side.

    Raises the error that stopped it from loading. Raises EngineFailed when stage 2 exits, or when it is not loaded
    within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while wakeup.wait_for(lambda: frames.pending() or not frames.alive, deadline - time.monotonic()):
        for record in frames.receive():
            if record.kind is Kind.END:
                return
            if record.kind is Kind.FAIL and record.payload:
                raise EngineError.from_bytes(record.payload)
        if not frames.alive:
            raise EngineFailed("Code2Wav exited while it was loading")
    raise EngineFailed(f"Code2Wav was not loaded within {timeout:.0f} s")
