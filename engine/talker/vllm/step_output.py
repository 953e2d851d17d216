"""Converts the outputs of one vLLM step to codes. Does not import vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineFailed


class StepOutput(NamedTuple):
    """The codes int16 [16] that a request sampled in a step. last: vLLM has finished the request."""

    key: str
    codes: NDArray[np.int16]
    last: bool


def step_outputs(outputs: Sequence[Any]) -> list[StepOutput]:
    """Return the codes of a step's ``EngineCoreOutput`` objects, as rows of one array.

    Raises EngineFailed when an output has no tokens.
    """
    if not outputs:
        return []
    for output in outputs:
        if not output.new_token_ids:
            raise EngineFailed(f"vLLM ended request {output.request_id} without a token: {output.finish_reason}")
    codes = np.concatenate([output.new_logprobs.logprob_token_ids for output in outputs]).astype(np.int16)
    return [StepOutput(output.request_id, row, output.finished) for output, row in zip(outputs, codes, strict=True)]
