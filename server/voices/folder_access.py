"""Whether voices can be stored in ``voices.folder``, which a mount of a container often does not allow."""

from __future__ import annotations

import os

from server.voices.config import VoiceSettings


def folder_warning(settings: VoiceSettings) -> str | None:
    """Return what is wrong with the folder of the stored voices and how to mend it; None if it can be written."""
    folder = settings.folder.absolute()
    existing = next(each for each in (folder, *folder.parents) if os.access(each, os.F_OK))
    if settings.max_voices == 0 or os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return None
    return (
        f"voices.folder: user {os.getuid()} cannot write {existing}, so storing a voice fails. Let that user write it "
        f"(chown {os.getuid()} FOLDER), set another folder, or set voices.max_voices to 0"
    )
