"""Turns inference requests into speech requests."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from tritonclient.grpc.service_pb2 import ModelInferRequest

from engine.protocol.samples import to_int16
from server.audio.encoders import wav_header
from server.errors import ApiError, shown
from server.request_models.field_names import unknown_fields
from server.request_models.speech import SpeechBody, parse_speech
from server.settings import Settings
from server.triton.model import OUTPUTS, check_version
from server.triton.tensors import Tensor, input_tensors

_TEXT_NAMES = ("target_text", "text")
"""Names of the input ``input`` in other text-to-speech models for Triton."""
_RECORDING, _RECORDING_LENGTH, _TRANSCRIPT = "reference_wav", "reference_wav_len", "reference_text"
"""Inputs of other text-to-speech models for Triton: float32 samples, their number, and what is said in them."""
_RECORDING_RATE = "reference_sample_rate"
_DEFAULT_RECORDING_RATE = 16_000
"""Sample rate in Hz of ``reference_wav`` in these models."""
_LISTS = frozenset({"speaker_embedding"})
"""Speech request fields that are lists."""
_OWN_FIELDS = frozenset({"model", "response_format", "stream", "stream_format", "timestamp_granularities"})
"""Speech request fields that the protocol decides."""
_TRITON_PREFIX = "triton_"
FINAL_RESPONSE = "triton_enable_empty_final_response"


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A validated inference request.

    outputs: the names of the output tensors to send.
    final_response: whether an empty response follows the last audio.
    """

    body: SpeechBody
    outputs: tuple[str, ...]
    final_response: bool


def parse_infer_request(request: ModelInferRequest, settings: Settings, *, stream: bool) -> InferRequest:
    """Validate ``request``. Raises ApiError.

    The fields of a speech request are input tensors with one element, or parameters.
    """
    check_version(request.model_version)
    parameters = {name: _parameter(value) for name, value in request.parameters.items()}
    final_response = parameters.get(FINAL_RESPONSE) is True
    fields: dict[str, Any] = {name: value for name, value in parameters.items() if not name.startswith(_TRITON_PREFIX)}
    tensors = input_tensors(request)
    recording = _recording(tensors, fields.pop(_RECORDING_RATE, _DEFAULT_RECORDING_RATE))
    for name, tensor in tensors.items():
        field = "input" if name in _TEXT_NAMES else name
        if field in fields:
            raise ApiError(f"{shown(field)} is given twice", param=shown(field))
        fields[field] = tensor_list(tensor) if field in _LISTS else _element(name, tensor)
    own = next((name for name in fields if name in _OWN_FIELDS), None)
    if own is not None:
        message = f"unknown parameter '{own}': it is part of the protocol"
        raise ApiError(message, param=own, code="unknown_parameter")
    fixed = {"response_format": "pcm", "stream": stream, "model": request.model_name or None}
    body = parse_speech({**fields, **recording, **fixed}, settings.limits, unknown_fields(settings))
    return InferRequest(body, _outputs(request), final_response)


def _outputs(request: ModelInferRequest) -> tuple[str, ...]:
    names = tuple(output.name for output in request.outputs) or (next(iter(OUTPUTS)),)
    for output in request.outputs:
        if output.name not in OUTPUTS:
            message = f"output '{shown(output.name)}' does not exist; outputs are {', '.join(OUTPUTS)}"
            raise ApiError(message, param="outputs")
        if "shared_memory_region" in output.parameters:
            message = f"output {output.name}: shared memory is not supported"
            raise ApiError(message, param="outputs", code="not_supported")
    return names


def _parameter(value: Any) -> bool | int | float | str | None:
    kind = value.WhichOneof("parameter_choice")
    result: bool | int | float | str | None = None if kind is None else getattr(value, kind)
    return result


def _element(name: str, tensor: Tensor) -> bool | int | float | str:
    """Return the only element of a tensor."""
    if len(tensor) != 1:
        raise ApiError(f"input {shown(name)} must have one element, got {len(tensor)}", param=shown(name))
    if isinstance(tensor, list):
        try:
            return tensor[0].decode()
        except UnicodeDecodeError:
            raise ApiError(f"input {shown(name)} must be UTF-8 text", param=shown(name)) from None
    value: bool | int | float = tensor[0].item()
    return value


def tensor_list(tensor: Tensor) -> list[Any]:
    """Return the elements of a tensor."""
    return tensor if isinstance(tensor, list) else tensor.tolist()


def _recording(tensors: dict[str, Tensor], rate: object) -> dict[str, str]:
    """Remove the reference recording and its transcript from ``tensors``. Return the speech request's fields."""
    samples, length = tensors.pop(_RECORDING, None), tensors.pop(_RECORDING_LENGTH, None)
    transcript = tensors.pop(_TRANSCRIPT, None)
    text = "" if transcript is None else str(_element(_TRANSCRIPT, transcript))
    fields = {"ref_text": text} if text else {}
    if samples is None:
        return fields
    if isinstance(samples, list) or samples.dtype != np.float32:
        raise ApiError(f"input {_RECORDING} must be of type FP32", param=_RECORDING)
    count = len(samples) if length is None else _element(_RECORDING_LENGTH, length)
    if not isinstance(count, int) or not 0 < count <= len(samples):
        message = f"{_RECORDING_LENGTH} must be between 1 and the {len(samples)} samples of {_RECORDING}, got {count}"
        raise ApiError(message, param=_RECORDING_LENGTH)
    if not isinstance(rate, int) or not 8_000 <= rate <= 192_000:
        raise ApiError(f"{_RECORDING_RATE} must be between 8000 and 192000, got {rate}", param=_RECORDING_RATE)
    if not np.isfinite(samples[:count]).all():
        raise ApiError(f"{_RECORDING} must not have NaN or infinite samples", param=_RECORDING)
    file = wav_header(rate, count) + to_int16(samples[:count]).tobytes()
    return {**fields, "ref_audio": "data:audio/wav;base64," + base64.b64encode(file).decode()}
