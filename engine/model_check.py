"""A short real utterance through both models, to show that they make audio. Free of torch."""

from __future__ import annotations

import numpy as np

from engine.errors import EngineFailed
from engine.request import SAMPLES_PER_FRAME, EngineInfo, SamplingParams, SpeechRequest, Voice
from engine.speech_stream import SpeechStream

_FRAMES = 2


def check_request(info: EngineInfo) -> SpeechRequest:
    """Return a greedy utterance of two frames that a checkpoint like ``info`` accepts."""
    sampling = SamplingParams(greedy=True, max_new_tokens=_FRAMES + 1, seed=0)
    if info.speakers:
        return SpeechRequest("Hello.", speaker=info.speakers[0], sampling=sampling)
    if info.embedding_width is not None:
        voice = Voice(np.full(info.embedding_width, info.embedding_width**-0.5, np.float32))
        return SpeechRequest("Hello.", voice=voice, sampling=sampling)
    return SpeechRequest("Hello.", instructions="A calm voice.", sampling=sampling)


async def hear_check(stream: SpeechStream) -> None:
    """Take all audio of a check utterance. Raises EngineError where it fails, or is not of the right size.

    NaN samples fail the stream already in Code2Wav.
    """
    frames = samples = 0
    try:
        async for chunk in stream:
            frames += len(chunk.codes)
            samples += len(chunk.samples)
    except ValueError as error:
        raise EngineFailed(f"the check utterance has a malformed chunk: {error}") from None
    announced = stream.completion.output_tokens
    if not frames or frames != announced or samples != frames * SAMPLES_PER_FRAME:
        raise EngineFailed(f"the check utterance has {samples} samples in {frames} frames of {announced} announced")
