"""Runs stage 2 as a process: ``python -m engine.code2wav.process CONFIG FRAMES_SIDE AUDIO_SIDE PARENT_PID``."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until the imports are done, whose objects stay: the collections are a fifth of their time

import sys

from engine.code2wav.launch import serve
from engine.config import EngineConfig
from engine.system.process import exit_immediately, prepare_process
from engine.transfer import MultiSide, Side


def main() -> None:
    """Run until the talker's process or the engine client exits."""
    gc.enable()
    config_json, frames, audio, parent = sys.argv[1:]
    config = EngineConfig.model_validate_json(config_json)
    prepare_process(config.log_format, int(parent))
    serve(config, Side.from_argument(frames), MultiSide.from_argument(audio))


if __name__ == "__main__":
    main()
    exit_immediately()
