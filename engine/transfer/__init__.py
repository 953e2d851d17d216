"""The chunk transfer adapter: streams between stages, over shared memory, in one process or two."""

from engine.transfer.adapter import Endpoint
from engine.transfer.errors import (
    CreditExceeded,
    LinkClosed,
    LinkCorrupt,
    LinkFull,
    LinkStalled,
    StreamError,
    TransferError,
)
from engine.transfer.link import Side, pair, spawn
from engine.transfer.record import Kind, Record
from engine.transfer.wakeup import Wakeup

__all__ = [
    "CreditExceeded",
    "Endpoint",
    "Kind",
    "LinkClosed",
    "LinkCorrupt",
    "LinkFull",
    "LinkStalled",
    "Record",
    "Side",
    "StreamError",
    "TransferError",
    "Wakeup",
    "pair",
    "spawn",
]
