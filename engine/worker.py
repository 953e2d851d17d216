"""The engine process: ``python -m engine.worker CONFIG REQUESTS_SIDE AUDIO_SIDE PARENT_PID``.

It loads the checkpoint, runs stage 1, starts stage 2, and runs as long as its client.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until the imports are done, whose objects stay: the collections are a fifth of their time

import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import torch

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.cloning.encoder import ReferenceEncoder
from engine.cloning.worker import CloningWorker
from engine.code2wav import launch
from engine.config import EngineConfig
from engine.cpu.plan import CpuPlan, choose_plan
from engine.device.compute_thread import ComputeThread
from engine.device.first_frame import FirstFrameSlot
from engine.device.memory import GpuMemory, out_of_memory
from engine.device.selection import choose_device, prepare_torch
from engine.errors import EngineError, EngineFailed, SetupError
from engine.precompile import precompiling
from engine.prompt.builder import languages, tasks
from engine.protocol.messages import READY
from engine.protocol.request import EngineInfo, SamplingParams
from engine.system.bytecode import warn_without_bytecode
from engine.system.process import (
    exit_immediately,
    freeze_gc,
    prepare_process,
    release_free_memory,
    return_freed_memory,
)
from engine.talker.base import FRAMES_IN_FLIGHT, Talker
from engine.talker.in_compute_thread import ComputeThreadTalker
from engine.talker.loading import import_ahead, load_talker, runs_on_vllm, warm_up
from engine.talker.native.weight_formats import configured_format
from engine.talker.requests import RequestReader, resolve
from engine.talker.stage import TalkerStage
from engine.talker.vllm.talker import VllmTalker
from engine.transfer import LinkClosed, MultiEndpoint, MultiSide, Side, Wakeup, pair

FRAME_WINDOW = 64
"""Credit of a frames stream, in frames: how far Code2Wav may be behind the talker (5 s of audio)."""
_GPU_SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter; 5 ms by default. On a GPU, both stages need it for parts of a
millisecond."""
_log = logging.getLogger(__name__)


def main() -> None:
    """Run until the client disconnects."""
    gc.enable()
    config_json, requests, audio, parent = sys.argv[1:]
    config = EngineConfig.model_validate_json(config_json)
    prepare_process(config.log_format, int(parent))
    wakeup = Wakeup()
    with MultiSide.from_argument(requests).attach(wakeup) as endpoint:
        run(config, endpoint, MultiSide.from_argument(audio), wakeup)


def run(config: EngineConfig, requests: MultiEndpoint, audio: MultiSide, wakeup: Wakeup) -> None:
    """Load both stages, report the result on the READY stream, and step until the client or Code2Wav disconnects.

    wakeup: the condition that ``requests`` is attached to.
    """
    requests.open(READY)
    frames_side, code2wav_side = pair(window=FRAME_WINDOW)
    frames = frames_side.attach(wakeup, reserve=FRAMES_IN_FLIGHT)
    join_code2wav: Callable[[], None] | None = None
    unused: list[Side | MultiSide] = [code2wav_side, audio]
    try:
        return_freed_memory()
        warn_without_bytecode(torch)
        device = choose_device(config)
        checkpoint = open_checkpoint(config.model, verify=config.verify_checksums)
        plan = _choose_plan(checkpoint, config, device)
        config = config if plan is None else plan.applied_to(config)
        prepare_torch(config)
        compute = ComputeThread(plan.threads) if plan is not None and plan.in_turn else None
        memory = GpuMemory(device, config.gpu_memory_gib) if device.type == "cuda" else None
        if device.type == "cuda":
            sys.setswitchinterval(_GPU_SWITCH_INTERVAL_S)
        on_vllm = runs_on_vllm(config, device)
        checkpoint.prefetch(whole=on_vllm)
        in_thread = config.code2wav.placement == "thread"
        if in_thread:
            # Before Code2Wav is loaded: concurrent imports could see partially initialized modules.
            with precompiling(config, ahead=on_vllm) if device.type == "cuda" else nullcontext():
                import_ahead(config, device)
        unused.clear()  # launch.start takes ownership of both sides, even if it fails
        first_frame_slot = FirstFrameSlot() if in_thread and device.type == "cuda" else None
        join_code2wav = launch.start(config, code2wav_side, audio, compute, first_frame_slot)
        if not in_thread:
            import_ahead(config, device)
        if memory is not None:
            # The talker's KV cache gets the memory that is left; and only one stage at a time may capture CUDA graphs.
            launch.await_ready(frames, wakeup, config.load_seconds)
            memory.record("Code2Wav")
        talker, reader, info = _load(checkpoint, config, device, memory, plan, compute, requests)
        if isinstance(talker, VllmTalker):
            talker.first_frame_slot = first_frame_slot
        if memory is None:
            launch.await_ready(frames, wakeup, config.load_seconds)
    except EngineError as error:
        requests.fail(READY, error.to_bytes())
    except torch.OutOfMemoryError as error:
        requests.fail(READY, out_of_memory("the talker", "talker.slots", error).to_bytes())
    except Exception as error:
        _log.exception("loading the engine failed")
        requests.fail(READY, EngineFailed(f"loading the engine failed: {error}").to_bytes())
    else:
        freeze_gc()
        release_free_memory()
        requests.end(READY, info.to_bytes())
        _run_until_disconnected(TalkerStage(talker, reader, frames=frames, wakeup=wakeup))
    finally:
        requests.flush(1.0)
        frames.close()
        for side in unused:
            side.close()
        if join_code2wav is not None:
            join_code2wav()


def _choose_plan(checkpoint: Checkpoint, config: EngineConfig, device: torch.device) -> CpuPlan | None:
    """Return how to use a CPU, or None for a GPU.

    Raises SetupError if the configured format of the weights does not run.
    """
    if device.type != "cpu":
        packing = checkpoint.model.packing
        configured_format(config, device, None if packing is None else packing.weights)
        return None
    prepare_torch(config)
    with ThreadPoolExecutor(1) as measuring:  # the OpenMP team of the measurement ends with its thread
        return measuring.submit(choose_plan, config, checkpoint.model, checkpoint.codec.decoder).result()


def _run_until_disconnected(stage: TalkerStage) -> None:
    try:
        stage.run()
    except LinkClosed:
        _log.debug("a link of the talker was closed")


def _load(
    checkpoint: Checkpoint,
    config: EngineConfig,
    device: torch.device,
    memory: GpuMemory | None,
    plan: CpuPlan | None,
    compute: ComputeThread | None,
    requests: MultiEndpoint,
) -> tuple[Talker, RequestReader, EngineInfo]:
    started = time.monotonic()
    prepare_torch(config)
    encoder = _load_encoder(checkpoint, config, device, memory)
    defaults, pad = resolve(SamplingParams(), checkpoint.generation), checkpoint.model.text_ids.tts_pad
    if compute is None:
        talker = load_talker(checkpoint, config, device, memory)
        factor = warm_up(talker, text_pad=pad, sampling=defaults)
    else:
        talker = compute.run(load_talker, checkpoint, config, device)
        if plan is not None and plan.compiled:
            compute.run(torch.set_num_threads, 1)  # idle members of torch's team would spin beside the compiled one
        factor = compute.run(warm_up, talker, text_pad=pad, sampling=defaults)
        talker = ComputeThreadTalker(talker, compute)
    checkpoint.verify()
    if memory is not None:
        memory.log_usage()
    voice_encoder = CloningWorker(encoder, requests)
    reader = RequestReader(requests, checkpoint, talker.context, voice_encoder)
    _log.info("talker of %s on %s loaded in %.1f s", config.model, device, time.monotonic() - started)
    info = describe(checkpoint, config, device)
    if plan is not None and factor is not None:
        factor = plan.real_time_factor(factor)
        info = replace(info, weights=plan.weights, real_time_factor=round(factor, 3))
        _log.info("talker.weights: %s; expected real-time factor of one utterance: %.2f", plan.weights, factor)
    return talker, reader, info


def _load_encoder(
    checkpoint: Checkpoint, config: EngineConfig, device: torch.device, memory: GpuMemory | None
) -> ReferenceEncoder:
    try:
        encoder = ReferenceEncoder(checkpoint, device)
        if memory is not None:
            encoder.capture()
    except torch.OutOfMemoryError as error:
        raise _encoders_out_of_memory(config, error) from error
    if memory is not None:
        memory.record("reference encoders")
    return encoder


def _encoders_out_of_memory(config: EngineConfig, error: torch.OutOfMemoryError) -> SetupError:
    """Return the error for reference encoders that do not fit on the talker's GPU.

    The talker's GPU is GPU 0. Only Code2Wav can be loaded there before the encoders. If it runs on another GPU,
    lowering its streams does not help.
    """
    if config.code2wav.gpu in (None, 0):
        return out_of_memory("the reference encoders", "code2wav.streams", error)
    reason = str(error).partition(". ")[0]
    return SetupError(
        f"the GPU has no room for the reference encoders: {reason}. Raise gpu_memory_gib if it is set, or stop other "
        "processes on the GPU",
        code="out_of_memory",
    )


def describe(checkpoint: Checkpoint, config: EngineConfig, device: torch.device) -> EngineInfo:
    """Return the description of the checkpoint for clients."""
    model = checkpoint.model
    return EngineInfo(
        model=config.model,
        tasks=tuple(tasks(model)),
        speakers=tuple(model.talker.speakers),
        languages=tuple(languages(model)),
        embedding_width=None if model.speaker_encoder is None else model.speaker_encoder.width,
        in_context=model.speaker_encoder is not None and checkpoint.codec.encoder is not None,
        trained=model.trained,
        context=config.talker.context,
        device=str(device),
        profile=checkpoint.profile,
    )


if __name__ == "__main__":
    main()
    exit_immediately()
