"""Requests that a checkpoint cannot serve: the field in error, and what would work."""

import numpy as np
import pytest

from engine.errors import RequestError
from engine.protocol.request import Voice
from tests.unit.prompt_requests import FIVE_FRAMES, prompt_of, voice

NAN = np.full(64, np.nan, np.float32)
REFUSED = {
    "unknown speaker": ("pocket", {"speaker": "nobody"}, "voice_not_found", "voice", "vivian"),
    "speaker of a base model": ("0b6-base", {"speaker": "ryan"}, "voice_not_found", "voice", "ref_audio"),
    "speaker of voice design": (
        "1b7-voice_design",
        {"speaker": "ryan"},
        "voice_not_found",
        "voice",
        "description",
    ),
    "no voice": ("pocket", {}, "invalid_value", "voice", "vivian"),
    "no voice of a base model": ("0b6-base", {}, "invalid_value", "voice", "speaker_embedding"),
    "unknown language": ("1b7-voice_design", {"language": "klingon"}, "invalid_value", "language", "english"),
    "a dialect as language": (
        "pocket",
        {"speaker": "eric", "language": "sichuan_dialect"},
        "invalid_value",
        "language",
        "auto",
    ),
    "clone without encoder": (
        "0b6-custom_voice",
        {"voice": voice()},
        "unsupported_task",
        "task_type",
        "clone",
    ),
    "width": ("0b6-base", {"voice": voice(65)}, "invalid_value", "speaker_embedding", "64"),
    "not finite": ("0b6-base", {"voice": Voice(NAN)}, "invalid_value", "speaker_embedding", "finite"),
    "no transcript": (
        "0b6-base",
        {"voice": voice(codes=FIVE_FRAMES)},
        "invalid_value",
        "ref_text",
        "transcript",
    ),
    "blank transcript": (
        "0b6-base",
        {"voice": voice(codes=FIVE_FRAMES, transcript=" \n")},
        "invalid_value",
        "ref_text",
        "transcript",
    ),
    "codes of another codec": (
        "0b6-base",
        {"voice": voice(codes=FIVE_FRAMES + 200, transcript="one")},
        "invalid_value",
        "voice",
        "0..255",
    ),
    "codes below zero": (
        "0b6-base",
        {"voice": voice(codes=FIVE_FRAMES - 1, transcript="one")},
        "invalid_value",
        "voice",
        "0..255",
    ),
    "too few codebooks": (
        "0b6-base",
        {"voice": voice(codes=FIVE_FRAMES[:, :8], transcript="one")},
        "invalid_value",
        "voice",
        "16",
    ),
    "no frames": (
        "0b6-base",
        {"voice": voice(codes=FIVE_FRAMES[:0], transcript="one")},
        "invalid_value",
        "voice",
        "one frame",
    ),
    "blank": ("1b7-voice_design", {"text": " \n\t"}, "invalid_value", "input", "text to speak"),
    "empty": ("1b7-voice_design", {"text": ""}, "invalid_value", "input", "text to speak"),
    "no utf-8": ("1b7-voice_design", {"text": "\udc00"}, "invalid_value", "input", "surrogate"),
    "instructions without utf-8": (
        "1b7-voice_design",
        {"instructions": "\udc00"},
        "invalid_value",
        "instructions",
        "surrogate",
    ),
}


@pytest.mark.parametrize(("variant", "fields", "code", "param", "reason"), REFUSED.values(), ids=REFUSED)
def test_refuses_what_the_checkpoint_cannot_do(opened, variant, fields, code, param, reason):
    with pytest.raises(RequestError) as caught:
        prompt_of(opened[variant], **({"text": "Hello"} | fields))
    assert (caught.value.code, caught.value.param) == (code, param)
    assert reason in caught.value.message
