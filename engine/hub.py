"""A checkpoint's folder from its name: a local folder, or the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from engine.checksums import SUMS_FILE
from engine.errors import CheckpointError

FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/model.safetensors",
)
"""Every file of a checkpoint that is loaded, and so verified and downloaded; SHA256SUMS is downloaded with them."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def find_folder(name: str) -> Path:
    """The local folder ``name``, else the hub's repository of that name, downloaded where it is not yet.

    Raises CheckpointError saying what to do.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"{name} is a file; give the checkpoint's folder")
    if not _HUB_NAME.fullmatch(name):
        raise CheckpointError(f"there is no folder {name}, and it is no hub name such as Qwen/Qwen3-TTS-12Hz-0.6B-Base")
    return _download(name)


def _download(name: str) -> Path:
    # Imported here: it takes a quarter of a second, which a local folder need not wait for.
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[*FILES, SUMS_FILE]))
    except Exception as error:  # the hub's own, its HTTP library's and the system's errors
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(
            f"there is no folder {name}, and the Hugging Face hub could not give it ({reason[0]}). Check "
            "the name; without a connection, download it elsewhere and give the folder; if it is private, "
            "set HF_TOKEN"
        ) from error
