"""Settings of limits: sizes, counts, shares and timeouts."""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from server.restart_settings import NEEDS_RESTART


class Limits(BaseModel):
    """Limits for one request, for one client and for the whole server."""

    model_config = ConfigDict(extra="forbid")

    max_input_chars: int = Field(
        4096, ge=1, description="Maximum characters of `input` with `split: none` or `stream: false`, and of live text."
    )
    max_split_chars: int = Field(
        200_000, ge=1, description="Maximum characters of `input` of a streamed request, unless `split` is `none`."
    )
    max_turns: int = Field(256, ge=1, description="Maximum turns of an `input` of several speakers.")
    max_batch_items: int = Field(64, ge=1, description="Maximum items of a batch.")
    max_batch_bytes: int = Field(
        64 * 1024 * 1024,
        ge=1,
        description="Maximum bytes of audio of a batch. The server keeps them in memory until the batch is complete.",
    )
    max_instructions_chars: int = Field(2000, ge=1, description="Maximum characters of `instructions`.")
    max_body_bytes: int = Field(
        16 * 1024 * 1024,
        ge=1024,
        description="Maximum bytes of a request body, or of a WebSocket message.",
        json_schema_extra=NEEDS_RESTART,
    )
    max_bodies_bytes: int = Field(
        256 * 1024 * 1024,
        ge=1024,
        description="Maximum bytes of all request bodies and complete responses in memory. Beyond it, a body of more "
        "than 64 KiB gets a 503. Smaller bodies are counted, but always accepted, so the total can exceed this number.",
        json_schema_extra=NEEDS_RESTART,
    )
    max_connections: int | None = Field(
        None,
        ge=16,
        description="Maximum open connections of all protocols; a gRPC connection counts as three. Unset: what the "
        "open-file limit allows, at most 4096.",
        json_schema_extra=NEEDS_RESTART,
    )
    connection_share: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Fraction of the connections that one address may have. Set it to 1 behind a reverse proxy, where "
        "all clients have the proxy's address.",
        json_schema_extra=NEEDS_RESTART,
    )
    client_share: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Fraction of the queue, live sessions, body bytes, kept outcomes and (with several keys) stored "
        "voices that one client may use. Running requests are not capped, but the newest request of a client above "
        "this share ends with `seat_recalled` when another client has waited for half of `first_sound_seconds`.",
        json_schema_extra=NEEDS_RESTART,
    )
    max_running: int | None = Field(
        None,
        ge=1,
        description="Maximum speech requests of a model that run at once. Unset: `engine.talker.slots`, times the "
        "number of its engines; each of several HTTP processes may then run more than its share. Above it, the "
        "additional requests wait in the engine, first come, first served, where the order between clients does not "
        "apply. Below it, slots stay unused.",
    )
    max_waiting: int = Field(
        56,
        ge=0,
        description="Maximum speech requests in the queue of a model. The server answers the next one with 429.",
    )
    max_live_sessions: int = Field(
        256,
        ge=1,
        description="Maximum open live sessions. The server refuses the next one with 429.",
        json_schema_extra=NEEDS_RESTART,
    )
    contended_wait_seconds: float = Field(
        10.0,
        ge=0,
        le=86_400,
        description="While requests wait in the queue, a client may lag behind real-time playback by this many "
        "seconds, by reading or sending text slowly. Beyond that its request ends with `client_too_slow`.",
    )
    first_sound_seconds: float = Field(
        120.0,
        gt=0,
        le=86_400,
        description="Timeout in seconds for the first audible audio, including the time in the queue; then the request "
        "fails with 504. Half of it is the wait after which `client_share` recalls a request. It also limits the "
        "creation of a stored voice.",
    )
    restart_wait_seconds: float | None = Field(
        None,
        ge=0,
        le=86_400,
        description="Seconds that an accepted request without audible audio waits for the restart of its engine if no "
        "other engine of the model works; then it fails with 503. 0 is for servers behind a load balancer that tries "
        "another server after a 503. Unset: `first_sound_seconds`.",
    )
    request_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Timeout in seconds for the header of a request, and again for its body.",
        json_schema_extra=NEEDS_RESTART,
    )
    stalled_seconds: float = Field(
        60.0,
        ge=0.1,
        le=86_400,
        description="Timeout in seconds for a client that reads nothing. It then counts as disconnected. A small value "
        "disconnects players that pause.",
        json_schema_extra=NEEDS_RESTART,
    )
    live_idle_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Timeout in seconds for the next message of a live session, which then ends. Every message and the "
        "end of an utterance restart it; pings do not. It does not run from `input.done` to the end of the utterance.",
    )
    live_seconds: float = Field(3600.0, gt=0, le=86_400, description="Maximum duration of a live session in seconds.")
    drain_seconds: float = Field(
        30.0,
        ge=0,
        le=86_400,
        description="Seconds that accepted requests may take to finish when the server is told to stop. The rest is "
        "cancelled.",
        json_schema_extra=NEEDS_RESTART,
    )
    http_stall_seconds: float = Field(
        30.0,
        ge=1,
        le=86_400,
        description="Timeout in seconds for the event loop of the HTTP process. The supervisor kills and restarts a "
        "process whose event loop has not run for this time. If it is shorter than a pause under load, the server "
        "restarts for no reason and all its requests fail.",
        json_schema_extra=NEEDS_RESTART,
    )
    max_outcomes: int = Field(
        10_000,
        ge=0,
        description="Number of ended requests that `GET /v1/audio/speech/{id}` reports. Each is kept for one hour.",
        json_schema_extra=NEEDS_RESTART,
    )
    reference_min_seconds: float = Field(1.0, ge=0, description="Minimum duration of a recording to clone, in seconds.")
    reference_max_seconds: float = Field(
        30.0, gt=0, description="Maximum duration of a recording to clone, in seconds."
    )
    reference_max_bytes: int = Field(
        10 * 1024 * 1024, ge=1, description="Maximum bytes of the file of a recording to clone."
    )

    def of_process(self, processes: int) -> Limits:
        """Return the limits of each of ``processes`` HTTP processes: its share, rounded up, of those for the server."""
        if processes == 1:
            return self
        bodies = max(self.max_bodies_bytes / processes, self.max_body_bytes / self.client_share)
        share = {
            "max_waiting": math.ceil(self.max_waiting / processes),
            "max_live_sessions": math.ceil(self.max_live_sessions / processes),
            "max_outcomes": math.ceil(self.max_outcomes / processes),
            "max_bodies_bytes": math.ceil(bodies),
        }
        if self.max_connections is not None:
            share["max_connections"] = max(16, math.ceil(self.max_connections / processes))
        return self.model_copy(update=share)

    @model_validator(mode="after")
    def _check_bodies(self) -> Self:
        if self.max_bodies_bytes * self.client_share < self.max_body_bytes:
            raise ValueError(
                f"max_bodies_bytes times client_share must be at least max_body_bytes, got {self.max_bodies_bytes} * "
                f"{self.client_share:g} < {self.max_body_bytes}"
            )
        return self
