"""Attacks with raw bytes and with WebSocket frames."""

from __future__ import annotations

import base64
import json
import socket
from contextlib import suppress
from random import Random
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from tests.fuzz.http_attacks import SPEECH, VOICES, Attack
from tests.fuzz.mutation import Mutator
from tests.fuzz.replies import Finding, check_error, parse_replies
from tests.fuzz.target import TIMEOUT, Target, read_all, reset, send

_JSON = json.dumps({"input": "Hi.", "response_format": "pcm", "max_new_tokens": 8}).encode()
_TOKENS = (
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"Content-Length: 99999999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 1, 2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    b"Host: a\r\nHost: b\r\n",
    b" folded: x\r\n",
    b"X: " + b"a" * 70_000,
    b"HTTP/9.9",
    b"HTTP/1.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"ffffffffffffffffff\r\n",
    b"-1\r\n",
    b"0\r\n\r\n",
    b"5;a=\0\r\nhello\r\n",
)
_CONFIG = {"type": "session.config", "voice": "ryan", "response_format": "pcm", "max_new_tokens": 12, "seed": 3}
_MESSAGES: tuple[dict[str, Any], ...] = (
    _CONFIG,
    {"type": "input.text", "text": "Hello there, you. "},
    {"type": "input.text", "text": "And more of it. "},
    {"type": "input.done"},
    {"type": "cancel"},
)
_KEY = base64.b64encode(bytes(16)).decode()


def raw_http(random: Random, target: Target) -> None:
    """Send mutated bytes of one or more requests, then read the replies, disconnect, or reset the connection."""
    requests = b"".join(_request(random, target) for _ in range(random.choice((1, 1, 1, 2, 3))))
    data = Mutator(random).bytes(requests, _TOKENS, head=300) if random.random() < 0.9 else requests
    data = data[: random.randint(0, len(data))] if random.random() < 0.3 else data
    with target.connect() as connection:
        split_at = random.randint(0, len(data))
        sent = send(connection, data[:split_at]) and send(connection, data[split_at:])
        ending = random.choice(("read", "read", "close", "half-close", "reset"))
        if ending == "reset":
            reset(connection)
            return
        if ending == "close":
            return
        if ending == "half-close" and sent:
            with suppress(OSError):  # the server has already disconnected
                connection.shutdown(socket.SHUT_WR)
        received, _ = read_all(connection)
    parse_replies(received, complete=False)


def _request(random: Random, target: Target) -> bytes:
    method, path = random.choice(
        (("POST", SPEECH), ("POST", f"{VOICES}/blend"), ("GET", "/v1/models"), ("GET", "/health"))
    )
    lines = [f"{method} {path} HTTP/1.1", f"Host: {target.host}", "Content-Type: application/json"]
    if random.random() < 0.9:
        lines.append("Connection: close")
    if random.random() < 0.4:
        chunks = b"5\r\n" + _JSON[:5] + b"\r\n" + f"{len(_JSON) - 5:x}\r\n".encode() + _JSON[5:] + b"\r\n0\r\n\r\n"
        return "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode() + chunks
    return "\r\n".join([*lines, f"Content-Length: {len(_JSON)}", "", ""]).encode() + _JSON


def live_messages(random: Random, target: Target) -> None:
    """Send mutated messages of a live session, in random order."""
    mutator = Mutator(random)
    messages = [_CONFIG, *random.choices(_MESSAGES, k=random.randint(1, 6))]
    frames = []
    for message in messages:
        mutated = random.random() < 0.3
        data = mutator.json(message) if mutated else json.dumps(message).encode()
        frames.append(Frame(random.choice((Opcode.TEXT, Opcode.TEXT, Opcode.BINARY)), data))
    frames.append(Frame(Opcode.CLOSE, b"\x03\xe8"))
    _session(target, b"".join(frame.serialize(mask=True) for frame in frames), read_to_end=random.random() < 0.8)


def live_frames(random: Random, target: Target) -> None:
    """Send invalid WebSocket frames: fragments, reserved bits, wrong lengths, pings, no mask."""
    data = b""
    for _ in range(random.randint(1, 6)):
        payload = json.dumps(random.choice(_MESSAGES)).encode()
        opcode = random.choice(list(Opcode))
        frame = Frame(opcode, payload[: random.choice((0, 2, 125, 1000))], fin=random.random() < 0.7)
        frame.rsv1 = random.random() < 0.05
        data += _serialized(frame, mask=random.random() < 0.9)
    data = Mutator(random).bytes(data, (b"\x81\xff" + b"\xff" * 8, b"\x89\x7f", b"\x00\x80\0\0\0\0"), head=len(data))
    _session(target, data, read_to_end=random.random() < 0.7)


def _serialized(frame: Frame, *, mask: bool) -> bytes:
    """Serialize a frame, including control frames that RFC 6455 forbids: too long, or fragmented."""
    head = (0x80 if frame.fin else 0) | (0x40 if frame.rsv1 else 0) | frame.opcode
    length = len(frame.data)
    size = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big")
    key = bytes(4) if mask else b""
    return bytes([head, size[0] | (0x80 if mask else 0)]) + size[1:] + key + bytes(frame.data)


def _session(target: Target, data: bytes, *, read_to_end: bool) -> None:
    """Open a session, send ``data``, then read to the end or reset the connection."""
    with target.connect() as connection:
        received = _shake_hands(connection, target)
        send(connection, data)
        if not read_to_end:
            reset(connection)
            return
        more, ending = read_all(connection, TIMEOUT)
    if ending == "quiet":
        raise Finding(f"the session did not end: {data[:200]!r}")
    _check_frames(received + more)


def _shake_hands(connection: socket.socket, target: Target) -> bytes:
    head = (
        f"GET {SPEECH}/stream HTTP/1.1\r\nHost: {target.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {_KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    connection.sendall(head.encode())
    received = b""
    connection.settimeout(TIMEOUT)
    while b"\r\n\r\n" not in received:
        data = connection.recv(1)
        if not data:
            raise Finding(f"no handshake: {received!r}")
        received += data
    return b""


def _check_frames(data: bytes) -> None:
    """Check that the server sent valid frames and documented messages. Raises Finding."""
    protocol = Protocol(Side.CLIENT, max_size=None)
    protocol.receive_data(data)
    if protocol.parser_exc is not None and not isinstance(protocol.parser_exc, EOFError):
        raise Finding(f"invalid frames: {protocol.parser_exc!r}")
    for frame in protocol.events_received():
        if isinstance(frame, Frame) and frame.opcode is Opcode.TEXT:
            _check_event(json.loads(bytes(frame.data)))


def _check_event(event: dict[str, Any]) -> None:
    kind = event.pop("type", None)
    if kind == "error":
        check_error(event)
    elif kind not in ("audio.start", "audio.done"):
        raise Finding(f"undocumented event: {kind} {event}")


ATTACKS: dict[str, Attack] = {"raw http": raw_http, "live messages": live_messages, "live frames": live_frames}
