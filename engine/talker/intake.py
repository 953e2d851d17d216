"""Requests as they come from the client, sorted: utterances for the talker, recordings for the encoder."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint import Checkpoint
from engine.errors import EngineError, EngineFailed, RequestError
from engine.generation_defaults import GenerationDefaults
from engine.messages import Ask, asked
from engine.prompt import Prompt, build_prompt
from engine.request import SamplingParams, SpeechRequest
from engine.talker.base import Sampling
from engine.talker.sampling import Draws
from engine.transfer import Endpoint, Kind, Record

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """A request the talker can start. context: codes [R, 16] that Code2Wav must have heard before."""

    stream: int
    prompt: Prompt
    sampling: Sampling
    realtime: bool
    context: NDArray[np.int16] | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that cannot be done."""

    stream: int
    error: EngineError


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The client has lost interest in a request, or is done with it."""

    stream: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A request for a sign of life from the whole pipeline."""

    stream: int


Intent = Utterance | Refusal | Withdrawal | Probe


class Intake:
    """Reads the request link. encode: does an EncodeRequest, given its stream and payload, and answers it."""

    def __init__(
        self, requests: Endpoint, checkpoint: Checkpoint, context: int, encode: Callable[[int, bytes], None]
    ) -> None:
        self._requests = requests
        self._checkpoint = checkpoint
        self._context = context
        self._encode = encode

    @property
    def alive(self) -> bool:
        """Whether the client is still there."""
        return self._requests.alive

    def pending(self) -> bool:
        """Whether ``take`` has something to return."""
        return self._requests.pending()

    def take(self) -> list[Intent]:
        """Everything that has come since the last call, in order."""
        intents = [self._understand(record) for record in self._requests.receive()]
        return [intent for intent in intents if intent is not None]

    def _understand(self, record: Record) -> Intent | None:
        if record.kind in (Kind.END, Kind.FAIL):
            return Withdrawal(record.stream)
        if record.kind is not Kind.OPEN:
            return None
        kind, body = asked(record.payload)
        if kind is Ask.PROBE:
            return Probe(record.stream)
        if kind is Ask.ENCODE:
            self._encode(record.stream, body)
            return None
        try:
            return self._utterance(record.stream, SpeechRequest.from_bytes(body))
        except EngineError as error:
            return Refusal(record.stream, error)
        except Exception as error:
            _log.exception("a prompt could not be built")
            return Refusal(record.stream, EngineFailed(f"the prompt could not be built: {error}"))

    def _utterance(self, stream: int, request: SpeechRequest) -> Utterance:
        prompt = build_prompt(request, self._checkpoint.model, self._checkpoint.tokenizer)
        if len(prompt.text) >= self._context:
            raise RequestError(
                f"the prompt has {len(prompt.text)} positions, and an utterance here {self._context} with its audio",
                code="input_too_long",
                param="input",
            )
        context = None if prompt.codes is None else prompt.codes.astype(np.int16)
        sampling = resolve(request.sampling, self._checkpoint.generation)
        return Utterance(stream, prompt, sampling, request.realtime, context)


def resolve(params: SamplingParams, defaults: GenerationDefaults) -> Sampling:
    """A request's sampling, with what it leaves open taken from the checkpoint, and a seed of its own if need be."""
    greedy = params.greedy or not defaults.do_sample
    subtalker_greedy = params.greedy or not defaults.subtalker_dosample
    return Sampling(
        codebook0=Draws(
            0.0 if greedy else _given(params.temperature, defaults.temperature),
            _given(params.top_k, defaults.top_k),
            _given(params.top_p, defaults.top_p),
        ),
        residual=Draws(
            0.0 if subtalker_greedy else _given(params.subtalker_temperature, defaults.subtalker_temperature),
            _given(params.subtalker_top_k, defaults.subtalker_top_k),
            _given(params.subtalker_top_p, defaults.subtalker_top_p),
        ),
        repetition_penalty=_given(params.repetition_penalty, defaults.repetition_penalty),
        max_new_tokens=_given(params.max_new_tokens, defaults.max_new_tokens),
        seed=secrets.randbits(63) if params.seed is None else params.seed,
    )


def _given(value: _T | None, default: _T) -> _T:
    return default if value is None else value
