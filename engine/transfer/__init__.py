"""Streams between stages over shared memory, within one process or between two."""

from engine.transfer.endpoint import Endpoint
from engine.transfer.link import Side, pair, spawn
from engine.transfer.loop_wakeup import LoopWakeup
from engine.transfer.multi_endpoint import Joiner, MultiEndpoint, MultiSide, first_stream, multi_pair
from engine.transfer.records import (
    CreditExceeded,
    Kind,
    LinkClosed,
    LinkCorrupt,
    LinkFull,
    LinkStalled,
    Record,
    StreamError,
    TransferError,
    rows_of,
)
from engine.transfer.wakeup import Wakeup

__all__ = [
    "CreditExceeded",
    "Endpoint",
    "Joiner",
    "Kind",
    "LinkClosed",
    "LinkCorrupt",
    "LinkFull",
    "LinkStalled",
    "LoopWakeup",
    "MultiEndpoint",
    "MultiSide",
    "Record",
    "Side",
    "StreamError",
    "TransferError",
    "Wakeup",
    "first_stream",
    "multi_pair",
    "pair",
    "rows_of",
    "spawn",
]
