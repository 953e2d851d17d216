"""Parses records of the request link into utterances, text deltas, aborts and probes for the talker."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.config import GenerationDefaults
from engine.checkpoint.folder import Checkpoint
from engine.errors import EngineError, EngineFailed, RequestError
from engine.prompt.builder import Prompt, build_prompt
from engine.prompt.live_text import LiveText
from engine.protocol.messages import RequestKind, unpack_request, unpack_text_delta
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.base import Sampling
from engine.talker.sampling import Draws
from engine.transfer import Endpoint, Kind, Record

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_k": (0, 2**31),
    "top_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
    "subtalker_temperature": (0.0, 100.0),
    "subtalker_top_k": (0, 2**31),
    "subtalker_top_p": (0.0, 1.0),
    "max_new_tokens": (1, 2**31),
    "seed": (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """A request that the talker can start.

    context: codes [R, 16] of the reference recording, which Code2Wav needs as left context. live: more text follows as
    ``TextDelta``.
    """

    stream: int
    prompt: Prompt
    sampling: Sampling
    realtime: bool
    context: NDArray[np.int16] | None
    live: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of a live utterance, as text ids. last: no more text follows."""

    stream: int
    ids: list[int]
    last: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is rejected, with the error."""

    stream: int
    error: EngineError


@dataclass(frozen=True, slots=True)
class Abort:
    """The client aborted a request, or closed a finished one."""

    stream: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A health check that passes through the whole pipeline."""

    stream: int


Intent = Utterance | TextDelta | Refusal | Abort | Probe


class Desk(Protocol):
    """Encodes reference recordings to voices."""

    def submit(self, stream: int, payload: bytes) -> None:
        """Encode the recording of an EncodeRequest and answer on ``stream``."""

    def submit_speaker(self, stream: int, speaker: str) -> None:
        """Answer on ``stream`` with the voice of a built-in speaker."""

    def abort(self, stream: int) -> None:
        """Abort a submitted request: its client no longer waits for the answer."""

    def stats(self) -> dict[str, int]:
        """Return its counters for the statistics."""


class RequestReader:
    """Reads the request link. desk: encodes reference recordings, and sends its own answers."""

    def __init__(self, requests: Endpoint, checkpoint: Checkpoint, context: int, desk: Desk) -> None:
        self._requests = requests
        self._checkpoint = checkpoint
        self._context = context
        self._desk = desk
        self._live: dict[int, LiveText] = {}

    @property
    def alive(self) -> bool:
        """Whether the client is still connected."""
        return self._requests.alive

    def figures(self) -> dict[str, int]:
        """Return the counters of ``desk`` for the statistics."""
        return self._desk.stats()

    def pending(self) -> bool:
        """Return whether ``take`` has something to return."""
        return self._requests.pending()

    def take(self) -> list[Intent]:
        """Return everything that has arrived since the last call, in order."""
        intents = [self._understand(record) for record in self._requests.receive()]
        return [intent for intent in intents if intent is not None]

    def _understand(self, record: Record) -> Intent | None:
        if record.kind is Kind.DATA:
            return self._words(record)
        if record.kind in (Kind.END, Kind.FAIL):
            self._live.pop(record.stream, None)
            self._desk.abort(record.stream)
            return Abort(record.stream)
        if record.kind is not Kind.OPEN:
            return None
        kind, body = unpack_request(record.payload)
        if kind is RequestKind.PROBE:
            return Probe(record.stream)
        if kind is RequestKind.ENCODE:
            self._desk.submit(record.stream, body)
            return None
        if kind is RequestKind.SPEAKER:
            self._desk.submit_speaker(record.stream, body.decode())
            return None
        try:
            return self._utterance(record.stream, SpeechRequest.from_bytes(body))
        except EngineError as error:
            return Refusal(record.stream, error)
        except Exception as error:
            _log.exception("a prompt could not be built")
            return Refusal(record.stream, EngineFailed(f"the prompt could not be built: {error}"))

    def _words(self, record: Record) -> TextDelta | None:
        """Parse more text of a live utterance; None if it has ended or was rejected, or if no word is settled."""
        live = self._live.get(record.stream)
        if live is None:
            return None
        piece, last = unpack_text_delta(record.payload)
        ids = self._checkpoint.tokenizer.encode(live.add(piece, last=last))
        if last:
            del self._live[record.stream]
            ids.append(self._checkpoint.model.text_ids.tts_eos)
        return TextDelta(record.stream, ids, last) if ids else None

    def _live_prompt(self, stream: int, request: SpeechRequest) -> Prompt:
        """Build the prompt from the settled part of a live request's first text, without the end-of-text id."""
        if request.voice is not None and request.voice.codes is not None:
            raise RequestError("live text cannot be spoken in context: clone from the voice alone", param="ref_text")
        live = LiveText(self._checkpoint.tokenizer)
        settled = live.add(request.text)
        if not settled.strip():
            raise RequestError("live text must begin with a whole word and what follows it", param="input")
        opening = replace(request, text=settled, text_layout="streaming")
        prompt = build_prompt(opening, self._checkpoint.model, self._checkpoint.tokenizer)
        self._live[stream] = live
        return replace(prompt, trailing=prompt.trailing[:-1])

    def _utterance(self, stream: int, request: SpeechRequest) -> Utterance:
        if request.live:
            prompt = self._live_prompt(stream, request)
        else:
            prompt = build_prompt(request, self._checkpoint.model, self._checkpoint.tokenizer)
        if len(prompt.text) >= self._context:
            raise RequestError(
                f"the prompt has {len(prompt.text)} positions, and an utterance here {self._context} with its audio",
                code="input_too_long",
                param="input",
            )
        context = None if prompt.codes is None else prompt.codes.astype(np.int16)
        sampling = resolve(request.sampling, self._checkpoint.generation)
        return Utterance(stream, prompt, sampling, request.realtime, context, request.live)


def resolve(params: SamplingParams, defaults: GenerationDefaults) -> Sampling:
    """Fill in a request's sampling parameters: unset ones from the checkpoint, an unset seed at random.

    Raises RequestError for values out of range: they would break a step that the request shares with others.
    """
    for name, (least, most) in _RANGES.items():
        value = getattr(params, name)
        if value is not None and not least <= value <= most:
            raise RequestError(f"{name} must be from {least} to {most}, not {value}", param=name)
    greedy = params.greedy or not defaults.do_sample
    subtalker_greedy = params.greedy or not defaults.subtalker_dosample
    return Sampling(
        codebook0=Draws(
            0.0 if greedy else _warm(_given(params.temperature, defaults.temperature)),
            _given(params.top_k, defaults.top_k),
            _given(params.top_p, defaults.top_p),
        ),
        residual=Draws(
            0.0 if subtalker_greedy else _warm(_given(params.subtalker_temperature, defaults.subtalker_temperature)),
            _given(params.subtalker_top_k, defaults.subtalker_top_k),
            _given(params.subtalker_top_p, defaults.subtalker_top_p),
        ),
        repetition_penalty=_given(params.repetition_penalty, defaults.repetition_penalty),
        max_new_tokens=_given(params.max_new_tokens, defaults.max_new_tokens),
        seed=secrets.randbits(63) if params.seed is None else params.seed,
    )


def _warm(temperature: float) -> float:
    """Return the temperature, or 0 (greedy) if it is too small to divide float32 logits by."""
    return temperature if temperature >= 1e-3 else 0.0


def _given(value: _T | None, default: _T) -> _T:
    return default if value is None else value
