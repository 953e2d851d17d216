"""From what ``ref_audio`` says to the bytes of a file."""

from __future__ import annotations

import asyncio
import base64
import binascii

from server.references.fetching import Fetcher
from server.references.files import read_file
from server.references.refusals import refusal, too_large, unsupported
from server.settings import Settings


async def read_source(source: str, fetcher: Fetcher, settings: Settings) -> bytes:
    """The file that ``source`` carries or names. Raises ApiError."""
    most = settings.limits.reference_max_bytes
    scheme = source.partition(":")[0].lower()
    if scheme == "data":
        return await asyncio.to_thread(read_data_url, source, most)
    if scheme in ("http", "https"):
        return await fetcher.fetch(source)
    if scheme == "file" or source.startswith("/"):
        return await asyncio.to_thread(read_file, source, settings.references.folders, most)
    raise unsupported("send a 'data:audio/...;base64,' URL, or an http or https address")


def read_data_url(url: str, most_bytes: int) -> bytes:
    """The bytes of a base64 ``data:`` URL, which may have line breaks. Raises ApiError: bad base64, too large."""
    header, comma, text = url.partition(",")
    if not comma or not header.lower().endswith(";base64"):
        raise refusal("a data URL must look like 'data:audio/wav;base64,...'")
    text = text.replace("\r", "").replace("\n", "")
    if len(text) // 4 * 3 > most_bytes + 2:
        raise too_large(most_bytes)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise refusal("the data is not base64") from None
