"""Reads the input tensors of an inference request."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from server.errors import ApiError, shown

_DTYPES = {
    "BOOL": "?",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FP32": "<f4",
    "FP64": "<f8",
}
"""numpy's names of the data types, except for BYTES."""
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
}
"""The field of ``InferTensorContents`` for each data type."""
_LENGTH = struct.Struct("<I")

Tensor = NDArray[Any] | list[bytes]
"""A numeric tensor, flattened, or the elements of a tensor of type BYTES."""


def input_tensors(request: ModelInferRequest) -> dict[str, Tensor]:
    """Return the input tensors of ``request`` by name. Raises ApiError."""
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        message = f"raw_input_contents must have one item per input, got {len(raw)} for {len(request.inputs)} inputs"
        raise ApiError(message, param="raw_input_contents")
    tensors: dict[str, Tensor] = {}
    for index, described in enumerate(request.inputs):
        name = shown(described.name)
        if described.name in tensors:
            raise ApiError(f"input {name} is given twice", param=name)
        if "shared_memory_region" in described.parameters:
            message = f"input {name}: shared memory is not supported; send the data in the request"
            raise ApiError(message, param=name, code="not_supported")
        if described.datatype not in _CONTENTS:
            allowed = ", ".join([*_DTYPES, "BYTES"])
            raise ApiError(f"input {name}: datatype must be one of {allowed}, got '{described.datatype}'", param=name)
        tensor = _from_raw(name, described.datatype, raw[index]) if raw else _from_contents(described)
        if len(tensor) != (count := math.prod(described.shape)):
            message = f"input {name}: shape {list(described.shape)} has {count} elements, but got {len(tensor)}"
            raise ApiError(message, param=name)
        tensors[described.name] = tensor
    return tensors


def _from_contents(described: ModelInferRequest.InferInputTensor) -> Tensor:
    contents: InferTensorContents = described.contents
    values = list(getattr(contents, _CONTENTS[described.datatype]))
    return values if described.datatype == "BYTES" else np.array(values, _DTYPES[described.datatype])


def _from_raw(name: str, datatype: str, raw: bytes) -> Tensor:
    if datatype == "BYTES":
        return list(_byte_elements(name, raw))
    try:
        return np.frombuffer(raw, _DTYPES[datatype])
    except ValueError:
        message = f"input {name}: {len(raw)} bytes are not a whole number of {datatype} elements"
        raise ApiError(message, param=name) from None


def _byte_elements(name: str, raw: bytes) -> Iterator[bytes]:
    """Yield the elements of a BYTES tensor: each has its length before it, in four bytes."""
    start = 0
    while start < len(raw):
        if len(raw) - start < _LENGTH.size:
            raise _truncated(name)
        (length,) = _LENGTH.unpack_from(raw, start)
        start += _LENGTH.size
        if length > len(raw) - start:
            raise _truncated(name)
        yield raw[start : start + length]
        start += length


def _truncated(name: str) -> ApiError:
    return ApiError(f"input {name}: each element of BYTES must follow its length in four bytes", param=name)
