"""The objects of stored voices in a bucket of S3, Google Cloud Storage or Azure, and a cache of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from server.errors import ApiError
from server.settings import SettingsError
from server.voices.stored_voice import MAX_BYTES

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

log = logging.getLogger("sonant.voices")

STALE_SECONDS = 5.0
"""How long a cached voice is used without asking the bucket whether it still exists."""
_READERS = 8
_MAX_CACHED = 1024
_TIMEOUT_SECONDS = 10
_CONNECT_SECONDS = 3
_CLIENT_OPTIONS = ("allow_http", "allow_invalid_certificates", "proxy_url")
"""obstore reads these from the environment only if it gets no other client options, such as timeouts."""
_PREFIXES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}


@dataclass(slots=True)
class _Cached:
    """The content of an object. checked: when the bucket last confirmed it, in monotonic seconds."""

    etag: str | None
    data: bytes
    checked: float


class VoiceObjects:
    """Reads, creates and deletes objects. Every method blocks, and raises ApiError 503 if the bucket cannot be used.

    Objects are never replaced, so the content under an ETag does not change. Thread-safe.

    readers: threads for the objects of a list.
    clock: returns monotonic seconds.
    """

    def __init__(self, bucket: ObjectStore, clock: Callable[[], float] = time.monotonic) -> None:
        import obstore

        self._obstore: Any = obstore
        self._bucket, self._clock = bucket, clock
        self.readers = ThreadPoolExecutor(_READERS, "voice-list")
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, _Cached] = OrderedDict()

    def paths(self) -> dict[str, str | None]:
        """Return the ETags of all objects, by path. Always asks the bucket."""
        with self._errors("listed"):
            batches = self._obstore.list(self._bucket)
            return {each["path"]: each["e_tag"] for batch in batches for each in batch}

    def get(self, path: str, etag: str | None = None) -> bytes | None:
        """Return the content of an object, or None if it does not exist.

        It is at most ``STALE_SECONDS`` old; with ``etag``, the current ETag from a list, it is current.
        """
        with self._lock:
            cached = self._cache.get(path)
            if cached is not None:
                self._cache.move_to_end(path)
        if cached is not None:
            if etag is not None and cached.etag == etag:
                return cached.data
            if etag is None and self._clock() - cached.checked < STALE_SECONDS:
                return cached.data
        return self._fetch(path, cached)

    def create(self, path: str, data: bytes) -> bool:
        """Create an object durably, in one request. Return whether it did not exist."""
        with self._errors("written"):
            try:
                self._obstore.put(self._bucket, path, data, mode="create", use_multipart=False)
            except self._obstore.exceptions.AlreadyExistsError:
                return self._fetch(path, None) == data  # a repeated request whose first answer was lost
        return True

    def delete(self, path: str) -> None:
        """Delete an object. No-op if it does not exist."""
        self._forget(path)
        with self._errors("written"), suppress(FileNotFoundError):
            self._obstore.delete(self._bucket, path)

    def _fetch(self, path: str, cached: _Cached | None) -> bytes | None:
        options = {} if cached is None or cached.etag is None else {"if_none_match": cached.etag}
        started = self._clock()
        with self._errors("read"):
            try:
                found = self._obstore.get(self._bucket, path, options=options)
                data = bytes(found.bytes()) if found.meta["size"] <= MAX_BYTES else b""  # no voice is that large
                current = _Cached(found.meta["e_tag"], data, started)
            except FileNotFoundError:
                self._forget(path)
                return None
            except self._obstore.exceptions.NotModifiedError:
                assert cached is not None
                current = _Cached(cached.etag, cached.data, started)
        with self._lock:
            self._cache[path] = current
            self._cache.move_to_end(path)
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return current.data

    def _forget(self, path: str) -> None:
        with self._lock:
            self._cache.pop(path, None)

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Convert the bucket's errors to ApiError 503 and log their reason."""
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError) as error:
            log.error("voices.url cannot be %s: %s", action, str(error).partition("\n")[0])
            message = f"the stored voices cannot be {action} at the moment; try again later"
            raise ApiError(message, status=503, code="voice_storage_failed") from None


@lru_cache(maxsize=2)  # a reload may change the URL while requests still use the old one
def open_bucket(url: str) -> VoiceObjects:
    """Return the objects under ``url``, the same for each call with it.

    Credentials come from the environment, as the cloud's own tools read them, and so do ``AWS_ENDPOINT_URL``,
    ``AWS_ALLOW_HTTP`` and the other ``_CLIENT_OPTIONS``.

    Raises SettingsError if the package obstore is not installed, or the URL or the credentials are not valid.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise SettingsError("voices.url: the package obstore is not installed; pip install 'sonant[objects]'") from None
    options: Any = {
        **_client_options(_PREFIXES[url.partition(":")[0]]),
        "timeout": timedelta(seconds=_TIMEOUT_SECONDS),
        "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
    }
    retries: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=_TIMEOUT_SECONDS)}
    try:
        bucket = from_url(url, client_options=options, retry_config=retries)
    except (BaseError, ValueError) as error:
        raise SettingsError(f"voices.url: {str(error).partition(chr(10))[0]}") from None
    return VoiceObjects(bucket)


def _client_options(prefix: str) -> dict[str, str]:
    """Return the client options that the environment sets, as ``AWS_ALLOW_HTTP=true`` does."""
    names = {option: prefix + option.upper() for option in _CLIENT_OPTIONS}
    return {option: os.environ[name] for option, name in names.items() if os.environ.get(name)}
