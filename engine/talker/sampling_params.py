"""Sampling parameters after defaults are filled in, and the tensors that carry them to the kernels.

"Residual" means codebooks 1 to 15; only the API and the checkpoint call them ``subtalker_``.

Ranges, columns and kernel column numbers are derived from ``CodebookParams``. To add a parameter, also edit:

- ``server/request_models/speech.py``: the field of the HTTP API. If codebooks 1 to 15 have the parameter too, add a
  second field with the prefix ``subtalker_``, here and in the next three files.
- ``server/cli/say.py``: the command line option.
- ``engine/protocol/request.py``: the field of ``SamplingParams``.
- ``engine/checkpoint/config.py``: the default that a checkpoint sets, in ``GenerationDefaults``.
- ``engine/talker/sampling.py``, ``engine/talker/fused/launches/sampling.py``,
  ``engine/talker/fused/cuda/sampling.h``: the formula, in torch, Triton and CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def _param(default: float, minimum: float, maximum: float) -> Any:
    """Return a field whose ``default`` turns the parameter off. Values are from ``minimum`` to ``maximum``."""
    return field(default=default, metadata={"range": (minimum, maximum)})


@dataclass(frozen=True, slots=True)
class CodebookParams:
    """How the codes of a group of codebooks are sampled. The type of a field is the type of its column.

    temperature: 0 is greedy. repetition_penalty: only codebook 0 has one.
    """

    temperature: float = _param(1.0, 0.0, 100.0)
    top_k: int = _param(0, 0, 2**31)
    top_p: float = _param(1.0, 0.0, 1.0)
    repetition_penalty: float = _param(1.0, 0.01, 100.0)


CODEBOOK0_PREFIX, RESIDUAL_PREFIX = "", "subtalker_"
"""Prefixes of the request's parameters for codebook 0, and for codebooks 1 to 15."""
RANGES: dict[str, tuple[float, float]] = {
    **{
        prefix + each.name: each.metadata["range"]
        for prefix in (CODEBOOK0_PREFIX, RESIDUAL_PREFIX)
        for each in fields(CodebookParams)
    },
    "max_new_tokens": (1, 2**31),
    "seed": (-(2**63), 2**63 - 1),
}
"""Smallest and largest value of each of a request's parameters. The HTTP API allows less."""

_TYPES = get_type_hints(CodebookParams)
INT_COLUMNS = tuple(name for name, kind in _TYPES.items() if kind is int)
"""Names of the columns of ``SamplingTensors.int_params``, in order."""
FLOAT_COLUMNS = tuple(name for name, kind in _TYPES.items() if kind is float)
"""Names of the columns of ``SamplingTensors.float_params``, in order."""
COLUMN_INDEX = {name: number for columns in (INT_COLUMNS, FLOAT_COLUMNS) for number, name in enumerate(columns)}
"""Parameter name -> index of its column in ``int_params`` or in ``float_params``, whichever has it."""


class SamplingTensors(NamedTuple):
    """The ``CodebookParams`` of each row of a batch, or of each slot, as contiguous tensors.

    int_params: int64 [len(INT_COLUMNS), rows]. float_params: float32 [len(FLOAT_COLUMNS), rows].
    """

    int_params: Tensor
    float_params: Tensor

    @classmethod
    def of(cls, params: Sequence[CodebookParams], device: torch.device) -> SamplingTensors:
        """Return the parameters of ``params``, one row each."""
        ints, floats = host_columns(params)
        return cls(torch.from_numpy(ints).to(device), torch.from_numpy(floats).float().to(device))

    def column(self, name: str) -> Tensor:
        """Return the parameter ``name`` of every row, [rows]."""
        return (self.int_params if name in INT_COLUMNS else self.float_params)[COLUMN_INDEX[name]]

    def gather(self, rows: Tensor) -> SamplingTensors:
        """Return the parameters of ``rows``, int64 [n], as new tensors."""
        return SamplingTensors(self.int_params.index_select(1, rows), self.float_params.index_select(1, rows))

    def assign(self, rows: Tensor, params: SamplingTensors) -> None:
        """Set the parameters of ``rows``, int64 [n], to those of ``params``, which has n rows."""
        self.int_params.index_copy_(1, rows, params.int_params)
        self.float_params.index_copy_(1, rows, params.float_params)


def host_columns(params: Sequence[CodebookParams]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the columns of ``params`` on the host: [len(INT_COLUMNS), n] and [len(FLOAT_COLUMNS), n]."""
    ints = [[getattr(each, name) for each in params] for name in INT_COLUMNS]
    floats = [[getattr(each, name) for each in params] for name in FLOAT_COLUMNS]
    return np.array(ints, np.int64), np.array(floats, np.float64)
