"""What can go wrong on a link, as types."""

from __future__ import annotations


class TransferError(Exception):
    """Base of every failure of a link."""


class LinkClosed(TransferError):
    """The link is closed, or the peer has closed it or died."""


class LinkStalled(TransferError):
    """The peer lives but has taken nothing for too long. The record was not sent; nothing has changed."""


class LinkFull(TransferError):
    """More bytes than ``backlog`` would be queued behind a full ring. The record was not sent; nothing has changed."""


class LinkCorrupt(TransferError):
    """The peer wrote something that the protocol does not allow."""


class StreamError(TransferError):
    """The caller's mistake: an operation that the stream's state does not allow."""


class CreditExceeded(StreamError):
    """More units than the stream's credit. Look at ``credit()`` first."""
