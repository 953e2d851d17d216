"""Recordings that are spoilt: each is still one within bounds, or refused."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from server.errors import ApiError
from server.references.decoders import decode_reference
from server.settings import Limits


def refused(recordings: Iterable[bytes], limits: Limits) -> int:
    """How many are refused, as they should be; the others are held to the bounds."""
    count = 0
    for data in recordings:
        try:
            reference = decode_reference(data, limits)
        except ApiError as error:
            assert (error.status, error.param) == (400, "ref_audio")
            count += 1
        except MemoryError:  # the decoder's worker makes it a refusal
            count += 1
        else:
            assert 1 <= len(reference.samples) / reference.rate <= 30
            assert np.isfinite(reference.samples).all()
    return count
