"""Settings of reference recordings that are not sent in the request itself."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from server.references.addresses import parse_entry


class ReferenceSettings(BaseModel):
    """Where recordings may be fetched from, and how many of their voices are kept."""

    model_config = ConfigDict(extra="forbid")

    fetch_urls: bool = Field(True, description="whether http and https addresses are fetched")
    fetch_seconds: float = Field(10.0, gt=0, le=600, description="for one recording, redirects and all")
    private_hosts: tuple[str, ...] = Field(
        (), description="host names, addresses and networks that may be fetched from although they are not public"
    )
    folders: tuple[Path, ...] = Field(
        (), description="folders of this machine whose files a request may name, by path or as file://"
    )
    cached_voices: int = Field(128, ge=0, description="voices of recordings that are kept, so as not to encode again")

    @field_validator("private_hosts")
    @classmethod
    def _names_or_networks(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            parse_entry(entry)
        return entries

    @field_validator("folders")
    @classmethod
    def _of_a_user(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        try:
            return tuple(folder.expanduser().absolute() for folder in folders)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
