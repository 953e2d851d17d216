"""Corrupt recordings: each must be refused or decode within the bounds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from server.errors import ApiError
from server.limits import Limits
from server.references.decoders import decode_reference


def count_refusals(recordings: Iterable[bytes], limits: Limits) -> int:
    """Count the refused recordings; assert that the others are within the bounds."""
    count = 0
    for data in recordings:
        try:
            reference = decode_reference(data, limits)
        except ApiError as error:
            assert (error.status, error.param) == (400, "ref_audio")
            count += 1
        except MemoryError:  # the decoder worker turns this into a refusal
            count += 1
        else:
            assert 1 <= len(reference.samples) / reference.rate <= 30
            assert np.isfinite(reference.samples).all()
    return count
