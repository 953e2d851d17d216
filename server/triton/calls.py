"""What every call has: its caller, who needs an API key, and its failure as a gRPC status."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

import grpc
from grpc.aio import ServicerContext

from server.errors import ApiError, Failure
from server.http.clients import address_key
from server.http.keys import bearer_key
from server.keys.valid_keys import Keys

_PEER = re.compile(r"ipv[46]:(?P<host>.*):\d+")
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


def caller_of(context: ServicerContext, keys: Keys) -> Caller:
    """Return the caller. Raises ApiError 401 if the server has keys, and the call has none of them."""
    metadata = {str(name): value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
    peer = _PEER.fullmatch(unquote(context.peer()))
    client = address_key(peer["host"].strip("[]")) if peer else "local"
    if not len(keys):
        return Caller(client, None, None, metadata)
    sent = bearer_key(metadata.get("authorization", ""))
    key = None if sent is None else keys.identify(sent)
    if key is None:
        message = "The API key is missing or not valid: send a valid key as metadata authorization: Bearer KEY."
        raise ApiError(message, status=401, code="invalid_api_key")
    return Caller(key.owner if keys.several else client, key.owner, key.name, metadata)


async def abort(context: ServicerContext, failure: Failure) -> NoReturn:
    """End the call with the status of ``failure``. Its code and parameter are trailing metadata."""
    fields = {"error-code": failure.code, "error-param": failure.param}
    if failure.status in (429, 503):
        fields["retry-after"] = str(failure.retry_after)
    trailing = tuple((name, value) for name, value in fields.items() if value is not None and value.isascii())
    await context.abort(_STATUSES.get(failure.status, grpc.StatusCode.INTERNAL), failure.message, trailing)
    raise AssertionError
