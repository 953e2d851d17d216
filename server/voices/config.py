"""Settings of stored voices."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

_URL = re.compile(r"(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[^\s?#]*)?")


def _data_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data) / "sonant" / "voices"


class VoiceSettings(BaseModel):
    """Stored voices."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    folder: Path = Field(
        default_factory=_data_folder,
        description="Folder of the stored voices, one file for each. Several servers may share it. It is created "
        "when the first voice is stored.",
    )
    url: str | None = Field(
        None,
        description="Bucket for the stored voices in place of the folder, so that servers on several machines share "
        "them: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. Needs the `objects` extra. "
        "Credentials come from the environment, such as `AWS_ACCESS_KEY_ID`.",
    )
    max_voices: int = Field(1000, ge=0, description="Maximum number of stored voices; 0 disables storing.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not _URL.fullmatch(url):
            raise ValueError(
                "must be s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; the prefix may be missing, "
                f"got {url!r}"
            )
        return url

    @field_validator("folder")
    @classmethod
    def _expand_folder(cls, folder: Path) -> Path:
        try:
            return folder.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{folder}: {error}") from None
