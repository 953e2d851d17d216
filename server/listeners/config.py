"""Settings of the listeners for protocols beside HTTP."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class WyomingSettings(BaseModel):
    """The listener for the Wyoming protocol of Home Assistant. Needs the `wyoming` extra."""

    model_config = ConfigDict(extra="forbid")

    port: int | None = Field(
        None, ge=0, le=65535, description="Port to listen on; 0 selects a free port. Unset: no listener."
    )
    host: str = Field(
        "127.0.0.1", description="Address to listen on. The default accepts connections from this machine only."
    )
    allow_unauthenticated: bool = Field(
        False,
        description="Allow a `host` that other machines can reach. The protocol has no API keys, so everyone who can "
        "reach the address can use it, even if the server has keys.",
    )


class GrpcSettings(BaseModel):
    """The gRPC listener for clients of Triton Inference Server. Needs the `grpc` extra."""

    model_config = ConfigDict(extra="forbid")

    port: int | None = Field(
        None, ge=0, le=65535, description="Port to listen on; 0 selects a free port. Unset: no listener."
    )
    host: str | None = Field(None, description="Address to listen on. Unset: the address of the HTTP server, `host`.")
