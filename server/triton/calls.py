"""What every call has: its caller, who needs an API key, and its failure as a gRPC status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import grpc
from grpc.aio import ServicerContext

from server.errors import ApiError, Failure
from server.http.clients import address_key
from server.http.keys import bearer_key
from server.keys.key_file import ApiKey
from server.keys.valid_keys import Keys

_STATUSES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.ABORTED,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call.

    client: identifies the client for limits, as ``clients.client_of`` does for HTTP.
    owner: the owner of the API key; decides which voices and outcomes the call may use. key: the name of the key.
    """

    client: str
    owner: str | None
    key: str | None
    metadata: dict[str, str]


def caller_of(context: ServicerContext, keys: Keys, host: str) -> Caller:
    """Return the caller. Raises ApiError 401 if the server has keys, and the call has none of them.

    host: the address of the client.
    """
    metadata = text_metadata(context.invocation_metadata())
    client = address_key(host)
    key = key_of(metadata, keys)
    if key is None:
        return Caller(client, None, None, metadata)
    return Caller(key.owner if keys.several else client, key.owner, key.name, metadata)


def text_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """Return the metadata of a call whose values are text."""
    return {str(name): value for name, value in metadata or () if isinstance(value, str)}


def key_of(metadata: Mapping[str, str], keys: Keys) -> ApiKey | None:
    """Return the key of a call; None on a server without keys. Raises ApiError 401."""
    if not keys.required:
        return None
    sent = bearer_key(metadata.get("authorization", ""))
    key = None if sent is None else keys.identify(sent)
    if key is None:
        message = "The API key is missing or not valid: send a valid key as metadata authorization: Bearer KEY."
        raise ApiError(message, status=401, code="invalid_api_key")
    return key


async def abort(context: ServicerContext, failure: Failure) -> NoReturn:
    """End the call with the status of ``failure``. Its code and parameter are trailing metadata."""
    fields = {"error-code": failure.code, "error-param": failure.param}
    if failure.status in (429, 503):
        fields["retry-after"] = str(failure.retry_after)
    trailing = tuple((name, value) for name, value in fields.items() if value is not None and value.isascii())
    await context.abort(_STATUSES.get(failure.status, grpc.StatusCode.INTERNAL), failure.message, trailing)
    raise AssertionError
