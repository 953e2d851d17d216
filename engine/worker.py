"""The engine process: ``python -m engine.worker CONFIG REQUESTS_SIDE AUDIO_SIDE``.

It loads the checkpoint, runs stage 1, starts stage 2, and lives as long as its client.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

import torch

from engine.checkpoint import Checkpoint, open_checkpoint
from engine.code2wav import launch
from engine.config import EngineConfig
from engine.device import choose_device, prepare_torch
from engine.errors import EngineError, EngineFailed
from engine.messages import READY
from engine.process import prepare_process
from engine.prompt import languages, tasks
from engine.reference_desk import ReferenceDesk
from engine.reference_encoder import ReferenceEncoder
from engine.request import EngineInfo, SamplingParams
from engine.talker.intake import Intake, resolve
from engine.talker.loading import load_talker, runs_on_vllm
from engine.talker.stage import TalkerStage
from engine.talker.warm_up import warm_up
from engine.transfer import Endpoint, LinkClosed, Side, Wakeup, pair

FRAME_WINDOW = 64
"""Frames that Code2Wav may be behind the talker on one stream: 5 s of audio."""
_LOAD_PATIENCE_S = 600.0
_log = logging.getLogger(__name__)


def main() -> None:
    """Run until the client is gone."""
    given, requests, audio = sys.argv[1:]
    config = EngineConfig.model_validate_json(given)
    prepare_process(config.log_format)
    wakeup = Wakeup()
    with Side.from_argument(requests).attach(wakeup) as endpoint:
        run(config, endpoint, Side.from_argument(audio), wakeup)


def run(config: EngineConfig, requests: Endpoint, audio: Side, wakeup: Wakeup) -> None:
    """Load both stages, tell the client, and step until a neighbour is gone."""
    requests.open(READY)
    frames_side, code2wav_side = pair(window=FRAME_WINDOW)
    frames = frames_side.attach(wakeup)
    join_code2wav: Callable[[], None] | None = None
    try:
        apart = _captures_beside_code2wav(config)
        if not apart:
            join_code2wav = launch.start(config, code2wav_side, audio)
        stage, info = _load(config, requests, frames, wakeup)
        if apart:
            join_code2wav = launch.start(config, code2wav_side, audio)
        launch.await_ready(frames, wakeup, _LOAD_PATIENCE_S)
    except EngineError as error:
        requests.fail(READY, error.to_bytes())
    except Exception as error:
        _log.exception("the engine could not be loaded")
        requests.fail(READY, EngineFailed(f"the engine could not be loaded: {error}").to_bytes())
    else:
        requests.end(READY, info.to_bytes())
        _step_until_alone(stage)
    finally:
        requests.flush(1.0)
        frames.close()
        if join_code2wav is not None:
            join_code2wav()
        else:
            code2wav_side.close()
            audio.close()


def _captures_beside_code2wav(config: EngineConfig) -> bool:
    """Whether the talker captures CUDA graphs in Code2Wav's process: nothing else may use the GPU meanwhile."""
    return config.code2wav.placement == "thread" and runs_on_vllm(config, choose_device(config))


def _step_until_alone(stage: TalkerStage) -> None:
    try:
        stage.run()
    except LinkClosed:
        _log.debug("a neighbour of the talker is gone")


def _load(config: EngineConfig, requests: Endpoint, frames: Endpoint, wakeup: Wakeup) -> tuple[TalkerStage, EngineInfo]:
    started = time.monotonic()
    prepare_torch(config)
    checkpoint = open_checkpoint(config.model)
    device = choose_device(config)
    talker = load_talker(checkpoint, config, device)
    usual = resolve(SamplingParams(), checkpoint.generation)
    warm_up(talker, text_pad=checkpoint.model.text_ids.tts_pad, sampling=usual)
    desk = ReferenceDesk(ReferenceEncoder(checkpoint, device), requests)
    intake = Intake(requests, checkpoint, talker.context, desk)
    _log.info("talker of %s on %s loaded in %.1f s", config.model, device, time.monotonic() - started)
    return TalkerStage(talker, intake, frames=frames, wakeup=wakeup), describe(checkpoint, config, device)


def describe(checkpoint: Checkpoint, config: EngineConfig, device: torch.device) -> EngineInfo:
    """What clients may know of the checkpoint."""
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
    )


if __name__ == "__main__":
    main()
