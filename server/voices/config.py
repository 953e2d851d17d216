"""Settings of stored voices."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator


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
    max_voices: int = Field(1000, ge=0, description="Maximum number of stored voices; 0 disables storing.")

    @field_validator("folder")
    @classmethod
    def _expand_folder(cls, folder: Path) -> Path:
        try:
            return folder.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{folder}: {error}") from None
