"""Settings of stored voices."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator


def _data_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data) / "sonant" / "voices"


class VoiceSettings(BaseModel):
    """Where voices are stored, and how many."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    folder: Path = Field(
        default_factory=_data_folder,
        description="one file a voice; several servers may share it. Made when the first voice is stored",
    )
    max_voices: int = Field(1000, ge=0, description="stored voices at most; 0 stores none")

    @field_validator("folder")
    @classmethod
    def _of_a_user(cls, folder: Path) -> Path:
        try:
            return folder.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{folder}: {error}") from None
