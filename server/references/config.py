"""Settings of reference recordings that are not sent in the request itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from server.references.addresses import parse_entry

MismatchedTranscript = Literal["error", "x_vector", "use"]


class ReferenceSettings(BaseModel):
    """Recordings that requests name by URL or path, and the cache of their voices."""

    model_config = ConfigDict(extra="forbid")

    fetch_urls: bool = Field(True, description="Fetch recordings from http and https URLs.")
    fetch_seconds: float = Field(
        10.0, gt=0, le=600, description="Timeout in seconds for fetching one recording, redirects included."
    )
    private_hosts: tuple[str, ...] = Field(
        (), description="Host names, IP addresses and networks that are not public but may be fetched from."
    )
    folders: tuple[Path, ...] = Field(
        (), description="Folders of this machine from which requests may name files, by path or file:// URL."
    )
    mismatched_transcript: MismatchedTranscript = Field(
        "error",
        description="What to do if `ref_text` is too short or too long for its recording: refuse the request with a "
        "400 (`error`), clone the voice alone (`x_vector`), or use the transcript anyway (`use`).",
    )
    cached_voices: int = Field(
        128,
        ge=0,
        description="Number of voices to keep in memory, so that a recording is not encoded again. A voice takes up to "
        "56 KB for 30 s of recording; 0 disables the cache.",
    )

    @field_validator("private_hosts")
    @classmethod
    def _check_private_hosts(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            parse_entry(entry)
        return entries

    @field_validator("folders")
    @classmethod
    def _expand_folders(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        try:
            return tuple(folder.expanduser().absolute() for folder in folders)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
