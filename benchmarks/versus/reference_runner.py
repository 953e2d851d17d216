"""Runs the official reference in a comparison: ``python -m benchmarks.versus.reference_runner JOB``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}

import torch
import transformers  # noqa: F401  detects installed packages, so it must be imported before the stand-ins

from benchmarks.versus import stand_ins
from benchmarks.versus.turns import Job, Load, Turn, serve

stand_ins.install()

from qwen_tts import Qwen3TTSModel, Qwen3TTSTokenizer  # noqa: E402

CHUNKS = (1, 13)
"""Chunk sizes, in frames, that Code2Wav is timed with."""
CHUNK_REPEATS = 3
_CODEBOOKS = 16
_WARM_UP_FRAMES = 2
_GREEDY = {"do_sample": False, "subtalker_dosample": False}


class Clock:
    """Wraps a function, and keeps the duration and the result of its last call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0
        self.returned: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function and return its result."""
        started = time.perf_counter()
        self.returned = self._function(*args, **kwargs)
        self.seconds = time.perf_counter() - started
        return self.returned


@contextmanager
def speech(job: Job) -> Iterator[Callable[[], Turn]]:
    """Time the reference from text to the whole waveform. It does not stream: it generates all codes, then decodes."""
    torch.set_num_threads(job.threads)
    model = Qwen3TTSModel.from_pretrained(job.folder, dtype=getattr(torch, job.dtype))
    model.model.generate = talker = Clock(model.model.generate)

    def speak(frames: int) -> Turn:
        started = time.perf_counter()
        model.generate_custom_voice(
            text=job.text, speaker=job.speaker, language=job.language, max_new_tokens=frames + 1, **_GREEDY
        )
        whole = time.perf_counter() - started
        codes = talker.returned[0][0].tolist()
        return Turn({"frame": [talker.seconds / max(1, len(codes))], "first audio": [whole], "whole": [whole]}, codes)

    speak(_WARM_UP_FRAMES)
    yield lambda: speak(job.frames)


@contextmanager
def code2wav(job: Job) -> Iterator[Callable[[], Turn]]:
    """Time independent chunks: the reference decoder keeps no state, and starts each chunk from silence."""
    torch.set_num_threads(job.threads)
    codec = Qwen3TTSTokenizer.from_pretrained(f"{job.folder}/speech_tokenizer", dtype=getattr(torch, job.dtype))
    generator = torch.Generator().manual_seed(0)

    def seconds_per_frame(frames: int) -> float:
        codes = torch.randint(0, 2048, (frames, _CODEBOOKS), generator=generator)
        started = time.perf_counter()
        codec.decode({"audio_codes": [codes]})
        return (time.perf_counter() - started) / frames

    def decode() -> Turn:
        return Turn({f"chunk of {n}": [seconds_per_frame(n) for _ in range(CHUNK_REPEATS)] for n in CHUNKS})

    decode()
    yield decode


KINDS: dict[str, Load] = {"reference": speech, "code2wav": code2wav}

if __name__ == "__main__":
    serve(KINDS)
