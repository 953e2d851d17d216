"""Parses records of the request link into utterances, text deltas, aborts and probes for the talker."""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import time
from collections import deque
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.config import GenerationDefaults
from engine.checkpoint.folder import Checkpoint
from engine.errors import EngineError, EngineFailed, RequestError
from engine.prompt.builder import Prompt, build_prompt, prompt_texts
from engine.prompt.live_text import LiveText
from engine.protocol.messages import RequestKind, pack_request, unpack_request, unpack_text_delta
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.base import Sampling
from engine.talker.sampling_params import CODEBOOK0_PREFIX, RANGES, RESIDUAL_PREFIX, CodebookParams
from engine.transfer import Kind, MultiEndpoint, Record

_log = logging.getLogger(__name__)
_ANNOUNCED_S = 0.002
"""Seconds after its announcement within which a request usually arrives."""
_MAX_TOKENIZED, _MAX_TOKENIZED_BYTES = 32, 16 << 10
"""Maximum number of records whose texts are tokenized at once, and of their bytes, unless the first has more. This
takes about a millisecond, and with long texts and a lexicon up to five."""
_SPEECH_PREFIX = pack_request(RequestKind.SPEECH)
"""How the payload of a speech request begins."""
_SEEDS = random.Random()
"""Seeds of requests without one. The generator of the module ``random`` would repeat them: vLLM seeds it."""
_LOWEST_TEMPERATURE = 1e-3
"""A lower temperature is greedy: logits divided by it could overflow float32."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedUtterance:
    """A validated request with its prompt, which the talker can admit.

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
class Rejection:
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


Intent = PreparedUtterance | TextDelta | Rejection | Abort | Probe


class VoiceEncoder(Protocol):
    """Encodes reference recordings to voices, and answers these requests itself."""

    def submit(self, stream: int, payload: bytes) -> None:
        """Encode the recording of an EncodeRequest and answer on ``stream``."""

    def submit_speaker(self, stream: int, speaker: str) -> None:
        """Answer on ``stream`` with the voice of a built-in speaker."""

    def abort(self, stream: int) -> None:
        """Abort a submitted request: its client no longer waits for the answer."""

    def stats(self) -> dict[str, int]:
        """Return its counters for the statistics."""


class RequestReader:
    """Reads the request link. context: maximum number of positions of an utterance, prompt and frames together."""

    def __init__(self, requests: MultiEndpoint, checkpoint: Checkpoint, context: int, encoder: VoiceEncoder) -> None:
        self._requests = requests
        self._checkpoint = checkpoint
        self._context = context
        self._encoder = encoder
        self._live: dict[int, LiveText] = {}
        self._records: deque[Record] = deque()
        self._tokenized: deque[tuple[Record, SpeechRequest | None]] = deque()
        """The next records, with the speech requests that they open. The complete texts of these are tokenized."""

    @property
    def alive(self) -> bool:
        """Whether the client is still connected."""
        return self._requests.alive

    def stats(self) -> dict[str, int]:
        """Return the counters of the voice encoder for the statistics."""
        return self._encoder.stats()

    def pending(self) -> bool:
        """Return whether ``take`` has a record to parse."""
        return bool(self._tokenized) or bool(self._records) or self._requests.pending()

    def announced(self) -> bool:
        """Return whether a request was announced that usually arrives soon. False while ``pending``."""
        if self.pending():
            return False
        announced = self._requests.announced
        return announced > 0 and 0 <= time.monotonic() - announced < _ANNOUNCED_S

    def take(self) -> Intent | None:
        """Parse the next record that has arrived. Return None if it asks nothing of the talker, or if there is none.

        Tokenizes the texts of several records at a time.
        """
        if not self._tokenized:
            self._tokenize_next()
        return self._parse(*self._tokenized.popleft()) if self._tokenized else None

    def _tokenize_next(self) -> None:
        """Read the next records, and tokenize the texts of their speech requests in one call."""
        if not self._records:
            self._records.extend(self._requests.receive())
        size = 0
        while self._records and len(self._tokenized) < _MAX_TOKENIZED:
            size += len(self._records[0].payload)
            if self._tokenized and size > _MAX_TOKENIZED_BYTES:
                break
            record = self._records.popleft()
            self._tokenized.append((record, _speech_request(record)))
        requests = [request for _, request in self._tokenized if request is not None and not request.live]
        model, tokenizer = self._checkpoint.model, self._checkpoint.tokenizer
        try:
            tokenizer.encode_ahead(text for request in requests for text in prompt_texts(request, model))
        except Exception as error:
            _log.warning("tokenizing %d requests together failed, so each is tokenized alone: %s", len(requests), error)

    def _parse(self, record: Record, speech: SpeechRequest | None) -> Intent | None:
        if record.kind is Kind.DATA:
            return self._text_delta(record)
        if record.kind in (Kind.END, Kind.FAIL):
            self._live.pop(record.stream, None)
            self._encoder.abort(record.stream)
            return Abort(record.stream)
        if record.kind is not Kind.OPEN:
            return None
        try:
            if speech is not None:
                return self._utterance(record.stream, speech)
            return self._request(record.stream, *unpack_request(record.payload))
        except EngineError as error:
            return Rejection(record.stream, error)
        except Exception as error:
            _log.exception("parsing the request of stream %d failed", record.stream)
            return Rejection(record.stream, EngineFailed(f"parsing the request failed: {error}"))

    def _request(self, stream: int, kind: RequestKind, body: bytes) -> Intent | None:
        if kind is RequestKind.SPEECH:
            return self._utterance(stream, SpeechRequest.from_bytes(body))
        if kind is RequestKind.PROBE:
            return Probe(stream)
        if kind is RequestKind.ENCODE:
            self._encoder.submit(stream, body)
        else:
            self._encoder.submit_speaker(stream, body.decode())
        return None

    def _text_delta(self, record: Record) -> TextDelta | None:
        """Parse more text of a live utterance; None if it has ended or was rejected, or if no word is complete."""
        live = self._live.get(record.stream)
        if live is None:
            return None
        piece, last = unpack_text_delta(record.payload)
        before = live.returned
        ids = self._checkpoint.tokenizer.encode(live.add(piece, last=last), before=before)
        if last:
            del self._live[record.stream]
            ids.append(self._checkpoint.model.text_ids.tts_eos)
        return TextDelta(record.stream, ids, last) if ids else None

    def _live_prompt(self, stream: int, request: SpeechRequest) -> Prompt:
        """Build the prompt from the complete words of a live request's first text, without the end-of-text id."""
        if request.voice is not None and request.voice.codes is not None:
            message = "live text does not support in-context cloning: omit ref_text to clone from the voice's embedding"
            raise RequestError(message, param="ref_text")
        live = LiveText(self._checkpoint.tokenizer)
        complete = live.add(request.text)
        if not complete.strip():
            message = f"live text must start with a complete word and the character after it, got {request.text[:40]!r}"
            raise RequestError(message, param="input")
        first = replace(request, text=complete, text_layout="streaming")
        prompt = build_prompt(first, self._checkpoint.model, self._checkpoint.tokenizer)
        self._live[stream] = live
        return replace(prompt, trailing=prompt.trailing[:-1])

    def _utterance(self, stream: int, request: SpeechRequest) -> PreparedUtterance:
        if request.live:
            prompt = self._live_prompt(stream, request)
        else:
            checkpoint = self._checkpoint
            prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer, checkpoint.profile.text_layout)
        if len(prompt.text) >= self._context:
            raise RequestError(
                f"the prompt has {len(prompt.text)} positions, but prompt and audio together may have at most "
                f"{self._context} (talker.context): shorten the input",
                code="input_too_long",
                param="input",
            )
        context = None if prompt.codes is None else prompt.codes.astype(np.int16)
        sampling = resolve(request.sampling, self._checkpoint.generation)
        return PreparedUtterance(stream, prompt, sampling, request.realtime, context, request.live)


def _speech_request(record: Record) -> SpeechRequest | None:
    """Return the speech request that a record opens. None if it opens none, or a malformed one, which is rejected."""
    if record.kind is Kind.OPEN and record.payload.startswith(_SPEECH_PREFIX):
        with contextlib.suppress(Exception):
            return SpeechRequest.from_bytes(unpack_request(record.payload)[1])
    return None


def resolve(params: SamplingParams, defaults: GenerationDefaults) -> Sampling:
    """Fill in a request's sampling parameters: unset ones from the checkpoint, an unset seed at random.

    Raises RequestError for values out of range: they would break a step that the request shares with others.
    """
    for name, (minimum, maximum) in RANGES.items():
        value = getattr(params, name, None)
        if value is not None and not minimum <= value <= maximum:
            raise RequestError(f"{name} must be between {minimum} and {maximum}, got {value}", param=name)
    greedy = params.greedy or not defaults.do_sample
    residual_greedy = params.greedy or not defaults.subtalker_dosample
    shared = replace(params, max_new_tokens=None, seed=None)
    return Sampling(
        codebook0=_codebook_params(shared, defaults, CODEBOOK0_PREFIX, greedy=greedy),
        residual=_codebook_params(shared, defaults, RESIDUAL_PREFIX, greedy=residual_greedy),
        max_new_tokens=defaults.max_new_tokens if params.max_new_tokens is None else params.max_new_tokens,
        seed=_SEEDS.getrandbits(63) if params.seed is None else params.seed,
    )


@functools.lru_cache(maxsize=64)  # most requests have the same
def _codebook_params(
    params: SamplingParams, defaults: GenerationDefaults, prefix: str, *, greedy: bool
) -> CodebookParams:
    """Return the parameters with ``prefix``: the request's, else the checkpoint's, else those that are off."""
    found: dict[str, Any] = {}
    for each in fields(CodebookParams):
        name = prefix + each.name
        given = getattr(params, name, None)
        value = getattr(defaults, name, None) if given is None else given
        if value is not None:
            found[each.name] = value
    resolved = CodebookParams(**found)
    return replace(resolved, temperature=0.0) if greedy or resolved.temperature < _LOWEST_TEMPERATURE else resolved
