"""Names of request fields: other names of known fields, and what happens to unknown ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from server.errors import ApiError, shown_value
from server.request_models.base import RequestModel
from server.request_models.spellings import boolean
from server.settings import Settings

CLIENT_FIELDS = frozenset(
    {
        # Kokoro-FastAPI
        "download_format",
        "lang_code",
        "normalization_options",
        "return_download_link",
        "return_timestamps",
        "volume_multiplier",
        # LiteLLM, Open WebUI and other proxies
        "metadata",
        "params",
        "stream_options",
        "user",
        # LocalAI
        "backend",
        # Chatterbox servers
        "cfg_weight",
        "exaggeration",
        "streaming_buffer_size",
        "streaming_chunk_size",
        "streaming_quality",
        "streaming_strategy",
        # vllm-omni, sglang-omni and mlx-audio
        "split_granularity",
        "stage_params",
        "stream_audio",
        "stream_codec_output",
        "streaming_interval",
        "suppress_bootstrap_silence",
    }
)
"""Fields that well-known clients send and that this server does not need. They are dropped silently."""

_MAX_REPORTED = 16
_NOT_IN_HEADER = re.compile(r"[^\w.-]", re.ASCII)
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """What happens to unknown fields.

    dropped: those that are dropped silently.
    ignore: whether the others are dropped and reported to the client; otherwise they are refused.
    """

    dropped: frozenset[str] = CLIENT_FIELDS
    ignore: bool = False

    def drop(
        self, model: type[RequestModel], fields: dict[str, Any], ignored: list[str], place: str = ""
    ) -> dict[str, Any]:
        """Return ``fields`` without those that are dropped. Appends the names to report to ``ignored``.

        place: what precedes the names, such as ``extra_params.``.
        """
        kept = {name: value for name, value in fields.items() if name in model.model_fields or name not in self.dropped}
        if not self.ignore:
            return kept
        ignored.extend(f"{place}{name}" for name in kept if name not in model.model_fields)
        return {name: value for name, value in kept.items() if name in model.model_fields}


REFUSED = UnknownFields()
"""Unknown fields are refused, except for those of well-known clients."""


def unknown_fields(settings: Settings) -> UnknownFields:
    """Return what the settings say about unknown fields."""
    return UnknownFields(CLIENT_FIELDS | {*settings.ignored_fields}, settings.unknown_fields == "ignore")


def own_names(fields: dict[str, Any]) -> dict[str, Any]:
    """Return ``fields`` with the names of this API: ``voice`` for ``speaker``, ``ref_audio`` for ``references``.

    Raises ApiError if a value is given under both names.
    """
    renamed = dict(fields)
    if (speaker := renamed.pop("speaker", None)) not in (None, ""):
        _set(renamed, "voice", speaker, "speaker")
    if (references := renamed.pop("references", None)) not in (None, "", []):
        reference = references[0] if isinstance(references, list) and len(references) == 1 else references
        has_known_fields = isinstance(reference, dict) and reference.keys() <= {"audio_path", "text"}
        if not has_known_fields or not reference.get("audio_path"):
            message = 'references must be a list of one object such as {"audio_path": ..., "text": ...}, got '
            raise ApiError(message + shown_value(references), param="references", code="invalid_type")
        _set(renamed, "ref_audio", reference["audio_path"], "references")
        _set(renamed, "ref_text", reference.get("text"), "references")
    if boolean(renamed.pop("word_timestamps", None)) not in (None, "", False):
        message = "word_timestamps is not supported: send timestamp_granularities: ['word']"
        raise ApiError(message, param="word_timestamps", code="not_supported")
    return renamed


def _set(fields: dict[str, Any], name: str, value: object, other: str) -> None:
    given = fields.get(name)
    if given not in (None, "") and value not in (None, "", given):
        message = (
            f"{other} is another name of {name}, got both: {shown_value(value)} and {shown_value(given)}; send one"
        )
        raise ApiError(message, param=other)
    fields[name] = value if given in (None, "") else given


def ignored_header(names: Iterable[str]) -> dict[str, str]:
    """Return the header that reports the ignored fields ``names``; none if there are none."""
    safe = sorted({_NOT_IN_HEADER.sub("?", name[:_MAX_NAME]) for name in names})
    listed = [*safe[:_MAX_REPORTED], *(["..."] if len(safe) > _MAX_REPORTED else [])]
    return {"X-Ignored-Fields": ", ".join(listed)} if listed else {}
