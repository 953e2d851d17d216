"""The lines of a mixed load: utterances with named voices and clones, with complete text and with live text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from benchmarks.lib.recording import TRANSCRIPT, synthetic_recording
from engine.client.client import EngineClient
from engine.protocol.request import SAMPLE_RATE, EngineInfo, SamplingParams, SpeechRequest, Voice
from server.bench.workload import FRAMES_PER_CHARACTER, SENTENCES

_PITCHES = (110.0, 160.0, 220.0)
_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Line:
    """An utterance to request. request: with the complete text. pieces: that text in pieces, for live requests."""

    kind: str
    request: SpeechRequest
    pieces: Sequence[str] = ()


async def synthetic_voices(engine: EngineClient, info: EngineInfo) -> list[Voice]:
    """Return voices of synthetic recordings, with and without codes; none if the checkpoint cannot clone."""
    if info.embedding_width is None:
        return []
    voices = []
    for pitch in _PITCHES:
        samples = synthetic_recording(_SECONDS, pitch)
        for codes in (False, True)[: 1 + info.in_context]:
            transcript = TRANSCRIPT if codes else None
            voices.append(await engine.encode_reference(samples, SAMPLE_RATE, codes=codes, transcript=transcript))
    return voices


def lines_of(info: EngineInfo, voices: Sequence[Voice], count: int, *, max_frames: int, seed: int = 1) -> list[Line]:
    """Return ``count`` lines of up to ``max_frames`` frames, alternating between all kinds the checkpoint supports."""
    random = Random(seed)
    x_vectors = [voice for voice in voices if voice.codes is None]
    in_context = [voice for voice in voices if voice.codes is not None]
    kinds = ["named", "live", "batch"] if info.speakers else []
    kinds += ["x-vector", "live clone"] if x_vectors else []
    kinds += ["in context"] if in_context else []
    lines = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        text = " ".join(random.sample(SENTENCES, random.choice((1, 1, 2))))
        frames = min(max_frames, max(8, round(FRAMES_PER_CHARACTER * len(text))))
        request = SpeechRequest(
            text, language="english", sampling=SamplingParams(seed=1000 + number, max_new_tokens=frames + 1)
        )
        if kind in ("named", "live", "batch"):
            request = replace(request, speaker=random.choice(info.speakers), realtime=kind != "batch")
        else:
            request = replace(request, voice=random.choice(in_context if kind == "in context" else x_vectors))
        live = kind.startswith("live")
        lines.append(Line(kind, replace(request, live=live), _pieces(text, random) if live else ()))
    return lines


def _pieces(text: str, random: Random) -> list[str]:
    """Split the text as a language model streams it: a few characters at a time, at first a word and one letter."""
    begin = text.index(" ") + 2
    pieces, rest = [text[:begin]], text[begin:]
    while rest:
        size = random.randint(1, 12)
        pieces.append(rest[:size])
        rest = rest[size:]
    return pieces
