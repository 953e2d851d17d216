"""Multipart bodies that bring a voice."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from server.errors import ApiError, ClientLeft, shown

log = logging.getLogger("sonant")

_KIND = "multipart/form-data"
_MOST_PARTS = 16
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class VoiceForm:
    """The texts of a form by name, and the recording in it."""

    texts: dict[str, str]
    audio_sample: bytes | None

    def text(self, name: str, most: int) -> str | None:
        """A field's text; None where it is missing or blank. Raises ApiError where it is too long."""
        text = self.texts.get(name, "").strip()
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ApiError(f"Invalid '{name}': it is no text.", param=name) from None
        if len(text) > most:
            message = f"Invalid '{name}': {len(text)} characters; at most {most} are accepted."
            raise ApiError(message, param=name, code="string_above_max_length")
        return text or None

    def flag(self, name: str) -> bool | None:
        """A field that says "true" or "false"; None where it is missing or blank. Raises ApiError."""
        text = self.text(name, 64)
        if text is None:
            return None
        if text.lower() not in _FLAGS:
            raise ApiError(f"Invalid '{name}': it must be 'true' or 'false', not '{text}'.", param=name)
        return _FLAGS[text.lower()]


async def read_form(request: Request, names: Collection[str]) -> VoiceForm:
    """The form that a request's body is, with no field beside ``names`` and ``audio_sample``. Raises ApiError."""
    _check_headers(request)
    texts: dict[str, str] = {}
    sample: bytes | None = None
    try:
        async with request.form(max_files=1, max_fields=_MOST_PARTS) as form:
            for name, value in form.multi_items():
                _check_field(name, value, names, taken=name in texts or (name == "audio_sample" and sample is not None))
                if isinstance(value, UploadFile):
                    sample = await value.read()
                else:
                    texts[name] = value
    except ClientDisconnect:
        raise ClientLeft from None
    except OSError as error:  # an upload above 1 MB is spooled to the folder for temporary files
        log.warning("an upload could not be stored temporarily: %s", error)
        message = "The server has no room for this upload; its folder for temporary files is full or not writable."
        raise ApiError(message, status=507, code="insufficient_storage") from None
    except HTTPException as error:
        raise ApiError(f"The body is not a valid form: {error.detail}", code="invalid_multipart") from None
    return VoiceForm(texts, sample)


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        named = f"not '{shown(kind)}'" if kind else "and its Content-Type must say so"
        raise ApiError(f"The body must be {_KIND}, {named}.", status=415, code="unsupported_media_type")


def _check_field(name: str, value: UploadFile | str, names: Collection[str], *, taken: bool) -> None:
    param = shown(name)
    if name != "audio_sample" and name not in names:
        raise ApiError(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    if taken:
        raise ApiError(f"'{param}' is given twice.", param=param)
    if isinstance(value, UploadFile) != (name == "audio_sample"):
        wanted = "a file" if name == "audio_sample" else "a text, not a file"
        raise ApiError(f"Invalid '{param}': it must be {wanted}.", param=param, code="invalid_type")
