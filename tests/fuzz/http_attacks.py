"""Attacks with valid HTTP requests whose content is mutated."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.mutation import Mutator
from tests.fuzz.replies import Finding
from tests.fuzz.target import Target

SPEECH = "/v1/audio/speech"
VOICES = "/v1/audio/voices"
Attack = Callable[[Random, Target], None]

_SPEECH_REQUESTS: tuple[dict[str, Any], ...] = (
    {"input": "Hello there.", "response_format": "pcm", "seed": 7, "max_new_tokens": 8},
    {"input": "One. Two. Three.", "split": "sentence", "response_format": "opus", "language": "English"},
    {"input": "Hi.", "stream_format": "sse", "voice": {"id": "ryan"}, "speed": 1.5, "sample_rate": 16_000},
    {"input": "Hi.", "stream": False, "response_format": "flac", "temperature": 0.5, "top_k": 5, "top_p": 0.9},
    {"input": "Hi.", "voices": [{"voice": "ryan", "weight": 0.5}, {"voice": "vivian"}], "response_format": "aac"},
    {"input": "Hi.", "speaker_embedding": [0.1] * 64, "x_vector_only_mode": True, "extra_params": {"seed": 1}},
)
_BLEND = {"voices": [{"voice": "ryan"}, {"voice": "vivian", "weight": 0.2}], "name": "blended", "consent": "c"}
_PATHS = (SPEECH, f"{SPEECH}/batch", f"{SPEECH}/req_1", VOICES, f"{VOICES}/ryan", "/v1/models/pocket", "/", "/ready")
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "QUERY")
_HEADERS = (
    "X-Request-Id Traceparent Accept Authorization Origin Content-Type Content-Encoding Expect Range Cookie Upgrade "
    "If-None-Match X-Forwarded-For Forwarded Accept-Encoding"
).split()
_VALUES = (
    "application/json; charset=utf-7",
    "text/plain;version=99",
    "multipart/form-data; boundary=",
    "100-continue",
    "bytes=0-18446744073709551615",
    "Bearer " + "A" * 2000,
    "http://[::1",
    "00-" + "f" * 32 + "-" + "0" * 16 + "-01",
    "h2c",
    "\xff\xfe",
    "a" * 8000,
)


def speech(random: Random, target: Target) -> None:
    """Send a mutated speech request."""
    target.request(
        "POST", SPEECH, Mutator(random).json(random.choice(_SPEECH_REQUESTS)), Content_Type="application/json"
    )


def batch(random: Random, target: Target) -> None:
    """Send a mutated batch."""
    items = [
        {k: v for k, v in each.items() if not k.startswith("stream")} for each in random.sample(_SPEECH_REQUESTS, 2)
    ]
    body = Mutator(random).json({"items": items, "response_format": "wav", "max_new_tokens": 4})
    target.request("POST", f"{SPEECH}/batch", body, Content_Type="application/json")


def blend(random: Random, target: Target) -> None:
    """Store a mutated blend under one of several names."""
    name = random.choice(("a", "blended", "x_1", "-"))
    target.request(
        "POST", f"{VOICES}/blend", Mutator(random).json({**_BLEND, "name": name}), Content_Type="application/json"
    )


def reference(random: Random, target: Target) -> None:
    """Send a mutated recording of any format in a speech request."""
    data = Mutator(random).recording(random.choice(list(target.files.values())))
    url = "data:audio/wav;base64," + base64.b64encode(data).decode()
    body: dict[str, Any] = {"input": "Hi.", "ref_audio": url, "max_new_tokens": 4, "response_format": "pcm"}
    if random.random() < 0.5:
        body["ref_text"] = "One two three."
    if random.random() < 0.1:
        body["ref_audio"] = Mutator(random).text(url[:60])
    target.request("POST", SPEECH, json.dumps(body).encode(), Content_Type="application/json")


def reference_path(random: Random, target: Target) -> None:
    """Request a file on the server's machine as reference. The server may only read files in the open folder."""
    open_folder = str(target.folder / "open")
    path = random.choice(
        (
            f"{open_folder}/recording.wav",
            f"{open_folder}/../closed/recording.wav",
            f"{target.folder}/closed/recording.wav",
            f"file://{open_folder}/recording.wav",
            f"file://{open_folder}/%2e%2e/closed/recording.wav",
            "/proc/self/environ",
            "/dev/zero",
            "file://localhost/etc/passwd",
        )
    )
    if random.random() < 0.7:
        path = Mutator(random).text(path)
    audio = _clone_of(path, target) if path else None  # an empty field counts as not given
    if audio is not None and audio != _clone_of(f"{open_folder}/recording.wav", target):
        raise Finding(f"the server read {path!r}")


def _clone_of(path: str, target: Target) -> bytes | None:
    """Return speech with the voice of a file on the server's machine, or None if the server refuses to read it."""
    body = {"input": "Hi.", "ref_audio": path, "max_new_tokens": 4, "seed": 7, "response_format": "pcm"}
    reply = target.request("POST", SPEECH, json.dumps(body).encode(), Content_Type="application/json")
    return reply.body if reply is not None and reply.status == 200 else None


def form(random: Random, target: Target) -> None:
    """Store a voice with a mutated recording, mutated fields or a mutated form."""
    mutator = Mutator(random)
    name = random.choice(("a", "fuzzed", "b-2", "ryan", "../a", "A", mutator.text("a")))
    fields: list[tuple[str, str, bytes]] = [("name", "", name.encode("utf-8", "surrogatepass"))]
    if random.random() < 0.8:
        sample = random.choice(list(target.files.values()))
        sample = mutator.recording(sample) if random.random() < 0.7 else sample
        fields.append(("audio_sample", '; filename="a.wav"', sample))
    else:
        fields.append(("speaker_embedding", "", mutator.json([0.1] * 64)))
    for field in ("ref_text", "consent", "type"):
        if random.random() < 0.3:
            fields.append((field, "", mutator.text(field).encode("utf-8", "surrogatepass")))
    boundary = "----b0"
    body = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"{parameters}\r\n\r\n'.encode() + value + b"\r\n"
        for field, parameters, value in fields
    )
    body += f"--{boundary}--\r\n".encode()
    if random.random() < 0.4:
        tokens = (
            b"\r\n",
            b"--" + boundary.encode(),
            b"; filename*=utf-8''%ff",
            b"Content-Transfer-Encoding: x\r\n",
            b"\0",
        )
        body = mutator.bytes(body, tokens, head=300)
    content_type = (
        f"multipart/form-data; boundary={boundary}" if random.random() < 0.9 else mutator.text("multipart/form-data")
    )
    path = random.choice((VOICES, VOICES, f"{VOICES}/embedding"))
    target.request("POST", path, body, Content_Type=_header(content_type))


def path(random: Random, target: Target) -> None:
    """Send a request with a mutated path, query, method and headers."""
    mutator = Mutator(random)
    target_path = random.choice(_PATHS)
    if random.random() < 0.7:
        target_path += "/" + _quoted(mutator.text(random.choice(("ryan", "a", "..%2f", "%00", "req_1"))))
    if random.random() < 0.4:
        target_path += "?" + _quoted(mutator.text("a=1&b=%ff&b"))
    headers = {name: _header(random.choice((*_VALUES, mutator.text("a")))) for name in random.sample(_HEADERS, 2)}
    body = json.dumps(random.choice(_SPEECH_REQUESTS)).encode() if random.random() < 0.5 else b""
    target.request(
        random.choice(_METHODS), target_path, body, **{name.replace("-", "_"): value for name, value in headers.items()}
    )


def _quoted(text: str) -> str:
    """Quote ``text`` for a request line. The raw HTTP attack covers unquoted bytes."""
    return urllib.parse.quote(text.encode("utf-8", "surrogatepass"), safe="/%&=?.~!$'()*,;:@")


def _header(text: str) -> str:
    return (
        "".join(letter for letter in text if letter >= " " and letter != "\x7f")[:8000]
        .encode("latin-1", "ignore")
        .decode("latin-1")
        .strip()
    )


ATTACKS: dict[str, Attack] = {
    "speech": speech,
    "batch": batch,
    "blend": blend,
    "reference": reference,
    "reference path": reference_path,
    "form": form,
    "path": path,
}
