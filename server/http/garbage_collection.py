"""Runs full garbage collections when no listener notices them.

A connection leaves reference cycles behind, among them asyncio's transport, so the objects of ended connections wait
for a full collection. It also traverses the objects of all open connections, and stops the event loop meanwhile: 20 to
60 ms with 1,000 connections on a slow CPU, several times that beside a busy engine. Python would run it at any time,
also while a client that has just begun to listen has 0.1 s of audio.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

INTERVAL_S = 1.0
_DUE, _OVERDUE = 10, 30
"""Collections of the middle generation since the last full one. Python runs a full one after 10."""
_AUDIO_S = 0.5
"""Seconds of audio that every listener must have."""
_NEVER = 2**31 - 1


async def collect_unnoticed(audio_left: Callable[[], float], interval: float = INTERVAL_S) -> None:
    """Run full collections until cancelled, in place of Python.

    One is due as often as by Python's rule, and waits until every listener has enough audio, but not for ever: after
    three times as many new objects it runs anyway.

    Args:
        audio_left: returns the seconds of audio that the listener with the least has.
        interval: seconds between two checks.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*thresholds[:2], _NEVER)
    try:
        while True:
            await asyncio.sleep(interval)
            collections = gc.get_count()[2]
            if collections > _OVERDUE or (collections > _DUE and audio_left() > _AUDIO_S):
                gc.collect()
    finally:
        gc.set_threshold(*thresholds)
