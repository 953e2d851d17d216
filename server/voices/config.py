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
        description="one file per voice; several servers may share the folder. Created when the first voice is stored",
    )
    max_voices: int = Field(1000, ge=0, description="maximum number of stored voices; 0 disables storing")

    @field_validator("folder")
    @classmethod
    def _expand_user(cls, folder: Path) -> Path:
        try:
            return folder.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{folder}: {error}") from None
