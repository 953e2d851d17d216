"""The limits of gRPC connections: in total, by address, and of their memory."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from server.errors import ApiError
from server.http.connection_table import ConnectionTable
from server.triton.relay import Relay
from tests.server.scripted_listeners import TIMEOUT, ListeningServer, listening_server
from tests.server.test_triton import address_of

LIMIT = 16
MOST = 5
"""Connections within LIMIT. Each counts as three."""


class Client:
    """A client with a connection of its own."""

    def __init__(self, server: ListeningServer) -> None:
        self._channel = grpc.aio.insecure_channel(address_of(server), [("grpc.use_local_subchannel_pool", 1)])
        self._stub = GRPCInferenceServiceStub(self._channel)

    async def is_live(self) -> bool:
        return bool((await self._stub.ServerLive(service_pb2.ServerLiveRequest())).live)

    async def begin(self) -> Client:
        """Open a stream and get the first response to a request. The stream stays open."""
        request = service_pb2.ModelInferRequest(model_name="model")
        request.inputs.add(name="input", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"Hello there.")
        self._call = self._stub.ModelStreamInfer()
        await self._call.write(request)
        assert not (await self._call.read()).error_message
        return self

    async def close(self) -> None:
        await self._channel.close()
        self.__dict__.clear()  # a reference to the call would keep the connection open


async def until_open(server: ListeningServer, count: int) -> None:
    async with asyncio.timeout(TIMEOUT):
        while len(server.connections) != 3 * count:
            await asyncio.sleep(0.005)


async def refusal(server: ListeningServer) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await Client(server).begin()
    return refused.value


async def test_connections_are_limited_in_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"max_connections": LIMIT}
    async with (
        asyncio.timeout(TIMEOUT),
        listening_server(tmp_path, monkeypatch, grpc={"port": 0}, limits=limits) as server,
    ):
        idle = [Client(server) for _ in range(2 * MOST)]
        for client in idle:  # the first ones are closed in favor of the others
            assert await client.is_live()
        await until_open(server, MOST)
        streams = [await Client(server).begin() for _ in range(MOST)]
        refused = await refusal(server)
        assert refused.code() == grpc.StatusCode.UNAVAILABLE
        assert "503" in str(refused.details())
        await streams.pop().close()
        await until_open(server, MOST - 1)
        streams.append(await Client(server).begin())
        for each in streams:
            await each.close()
        for client in idle:
            await client.close()
        await until_open(server, 0)


async def test_connections_are_limited_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"max_connections": LIMIT, "connection_share": 0.5}
    async with (
        asyncio.timeout(TIMEOUT),
        listening_server(tmp_path, monkeypatch, grpc={"port": 0}, limits=limits) as server,
    ):
        streams = [await Client(server).begin() for _ in range(2)]
        assert (await refusal(server)).code() == grpc.StatusCode.UNAVAILABLE
        assert (await server.client.get("/health")).status_code == 200
        for each in streams:
            await each.close()


@asynccontextmanager
async def relayed(serve: Any) -> AsyncIterator[tuple[Relay, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection through a relay to a stand-in for gRPC's listener, which calls ``serve`` with its streams."""
    upstream = await asyncio.start_server(serve, "127.0.0.1", 0)
    bound = socket.create_server(("127.0.0.1", 0))
    relay = Relay(bound, ConnectionTable(LIMIT, 1.0))
    await relay.start(upstream.sockets[0].getsockname()[1])
    try:
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            yield relay, reader, writer
            writer.close()
    finally:
        relay.close()
        upstream.close()


async def test_bytes_pass_unchanged_in_both_directions() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            writer.write(data)
            await writer.drain()
        writer.close()

    sent = os.urandom(8 * 1024 * 1024)
    async with relayed(echo) as (_, reader, writer):
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent


async def test_a_client_that_does_not_read_pauses_the_reading_from_grpc() -> None:
    """So the memory of a connection is bounded."""
    block, count = bytes(1024 * 1024), 64

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(count):
            writer.write(block)
            await writer.drain()

    async with relayed(flood) as (relay, reader, writer):
        writer.transport.pause_reading()
        while not relay._clients:
            await asyncio.sleep(0.005)
        (client,) = relay._clients.values()
        assert client.other is not None
        while client.other.transport.is_reading():
            await asyncio.sleep(0.005)
        assert client.transport.get_write_buffer_size() < len(block)
        writer.transport.resume_reading()
        await reader.readexactly(count * len(block))


async def test_only_relayed_connections_are_served() -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    with pytest.raises(ApiError, match="internal") as refused:
        Relay(bound, ConnectionTable(LIMIT, 1.0)).host_of("ipv4:127.0.0.1:1")
    assert refused.value.status == 403
    bound.close()
