"""``/v1/audio/voices``: lists, stores, deletes and blends voices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response

from engine.protocol.request import EngineInfo
from server.api.json_body import JsonBytes, json_object
from server.api.openapi import BODY_ERRORS, body_of, errors, form_of
from server.api.requests import BlendBody, parse_blend
from server.api.responses import BuiltInVoice, DeletedVoice, StoredVoiceCard, VoiceEmbedding, VoiceList
from server.errors import ApiError
from server.http.clients import client_of
from server.http.disconnect import cancel_on_disconnect
from server.services import Services, ServicesOf
from server.synthesis.admission import Seat
from server.voices import cards
from server.voices.create import origin_of, read_form, voice_from
from server.voices.resolve import blended, reserved_names, voice_not_found
from server.voices.store import VoiceStore, is_name, name_taken
from server.voices.stored_voice import MAX_CONSENT, StoredVoice

router = APIRouter(prefix="/v1/audio/voices")

T = TypeVar("T")

_FIELDS = {
    "name": "1 to 64 of a-z, 0-9, _ and -; the voice's id, too",
    "speaker_embedding": "a JSON list of numbers, instead of audio_sample",
    "ref_text": "what is said in audio_sample: later requests then clone in context",
    "consent": "kept with the voice, such as the id of a consent recording",
    "type": "audio_sample or speaker_embedding; found out when not given",
    "shared": "true or false; with several keys: store it for all of them, not for this key alone (the default)",
}
_EXAMPLE = {"voices": [{"voice": "ava", "weight": 0.7}, {"voice": "emma", "weight": 0.3}], "name": "ava-emma"}
_MAKING_ERRORS = (*BODY_ERRORS, 429, 503, 504)


@router.head("", include_in_schema=False)
@router.get("", response_model=VoiceList, responses=errors(429, 503))
async def list_voices(request: Request, services: ServicesOf) -> Response:
    """List the checkpoint's speakers, then the stored voices that this key may use, oldest first."""
    store, info = _store(request, services), services.engine.info
    with services.voice_listing.seat(client_of(request.scope)) as seat:

        async def listed() -> bytes:
            await seat.turn()
            return await asyncio.to_thread(_listed, store, info, services.created)

        page = await cancel_on_disconnect(request.receive, listed())
    return Response(page, media_type="application/json")


def _listed(store: VoiceStore, info: EngineInfo, created: int) -> bytes:
    speakers = _speakers(info)
    return cards.card_list(
        [cards.built_in_card(speaker, created) for speaker in info.speakers]
        + [cards.stored_card(voice, info) for voice in store.headers() if voice.name not in speakers]
    )


@router.post(
    "",
    response_model=StoredVoiceCard,
    responses=errors(*_MAKING_ERRORS, 409, 507),
    openapi_extra=form_of(_FIELDS, required=["name"]),
)
async def create_voice(request: Request, services: ServicesOf) -> dict[str, Any]:
    """Store a voice under a name. A recording is encoded once, now; requests that use the voice do not encode it."""
    info = services.engine.info
    form = await read_form(request, [*_FIELDS, "prompt"])
    origin = origin_of(form)
    shared = _is_shared(form.flag("shared"), request, services)
    store = _store(request, services)
    name = await _free_name(form.text("name", 256), store, shared, services)
    consent = form.text("consent", MAX_CONSENT)
    voice = await _made(lambda: voice_from(form, info, services.settings, services.references), request, services)
    stored = StoredVoice(
        name=name,
        origin=origin,
        created_at=int(time.time()),
        model=services.settings.model_name,
        embedding=voice.embedding,
        codes=None if voice.codes is None else voice.codes.astype("int16"),
        transcript=voice.transcript,
        consent=consent,
        maker=_owner(request),
        shared=shared,
    )
    await asyncio.to_thread(store.add, stored)
    return cards.stored_card(stored, info)


@router.post(
    "/embedding",
    response_model=VoiceEmbedding,
    responses=errors(*_MAKING_ERRORS),
    openapi_extra=form_of({}, required=["audio_sample"]),
)
async def embed(request: Request, services: ServicesOf) -> dict[str, Any]:
    """Return the speaker embedding of a recording, for the field ``speaker_embedding`` of a speech request."""
    info = services.engine.info
    form = await read_form(request, ())
    voice = await _made(lambda: voice_from(form, info, services.settings, services.references), request, services)
    return cards.embedding_card(voice.embedding.tolist(), services.settings.model_name)


@router.post(
    "/blend",
    response_model=StoredVoiceCard | VoiceEmbedding,
    responses=errors(*_MAKING_ERRORS, 404, 409),
    openapi_extra=body_of(BlendBody, _EXAMPLE),
)
async def blend_voices(request: Request, services: ServicesOf, raw: JsonBytes) -> dict[str, Any]:
    """Blend several voices. With a name the blend is stored; without one its embedding is returned."""
    info, settings = services.engine.info, services.settings
    body = await asyncio.to_thread(lambda: parse_blend(json_object(raw)))
    store, owner = _store(request, services), _owner(request)
    shared = _is_shared(body.shared, request, services)
    name = None if body.name is None else await _free_name(body.name, store, shared, services)
    embedding = await _made(lambda: blended(body.voices, services.engine, settings, owner), request, services)
    if name is None:
        return cards.embedding_card(embedding.tolist(), settings.model_name)
    stored = StoredVoice(
        name=name,
        origin="blend",
        created_at=int(time.time()),
        model=settings.model_name,
        embedding=embedding,
        consent=body.consent,
        maker=owner,
        shared=shared,
    )
    await asyncio.to_thread(store.add, stored)
    return cards.stored_card(stored, info)


@router.head("/{voice_id}", include_in_schema=False)
@router.get("/{voice_id}", response_model=BuiltInVoice | StoredVoiceCard, responses=errors(404, 503))
async def get_voice(voice_id: str, request: Request, services: ServicesOf) -> dict[str, Any]:
    """Return one voice."""
    info = services.engine.info
    if speaker := _speakers(info).get(voice_id.lower()):
        return cards.built_in_card(speaker, services.created)
    store = _store(request, services)
    stored = await asyncio.to_thread(store.get, voice_id.lower())
    if stored is None:
        raise await voice_not_found(voice_id, info, store, "voice_id")
    return cards.stored_card(stored, info)


@router.delete("/{voice_id}", response_model=DeletedVoice, responses=errors(400, 404, 503))
async def delete_voice(voice_id: str, request: Request, services: ServicesOf) -> dict[str, Any]:
    """Delete a stored voice. Requests in flight that use it continue."""
    info = services.engine.info
    if voice_id.lower() in _speakers(info):
        message = f"'{voice_id}' is one of the checkpoint's own voices and cannot be deleted."
        raise ApiError(message, param="voice_id", code="voice_built_in")
    store, name = _store(request, services), voice_id.lower()
    if not await asyncio.to_thread(store.remove, name):
        raise await voice_not_found(voice_id, info, store, "voice_id")
    return cards.deleted_card(name)


def _store(request: Request, services: Services) -> VoiceStore:
    """Return the store of the voices that the request may use: those of its key, and the shared ones."""
    share = services.settings.limits.client_share if services.has_owners else None
    return VoiceStore(services.settings.voices, _owner(request), share)


def _owner(request: Request) -> str | None:
    owner: str | None = request.state.record.owner
    return owner


def _is_shared(asked: bool | None, request: Request, services: Services) -> bool:
    """Return whether a new voice is shared by all keys. Raises ApiError if it cannot be private."""
    if asked is None:
        return not services.has_owners
    if not asked and _owner(request) is None:
        message = "Invalid 'shared': a server without keys shares all voices; leave 'shared' out, or send true."
        raise ApiError(message, param="shared")
    return asked


def _speakers(info: EngineInfo) -> dict[str, str]:
    return {speaker.lower(): speaker for speaker in info.speakers}


async def _free_name(name: str | None, store: VoiceStore, shared: bool, services: Services) -> str:
    """Return ``name`` if a voice can be stored under it. Raises ApiError before any work is done for the voice."""
    if name is None:
        raise ApiError("Missing required parameter: 'name'.", param="name", code="missing_required_parameter")
    if not is_name(name):
        raise ApiError("Invalid 'name': it must be 1 to 64 of a-z, 0-9, _ and -.", param="name")
    if name in reserved_names(services.engine.info, services.settings):
        raise name_taken(name)
    await asyncio.to_thread(store.check_room, name, shared=shared)
    return name


async def _made(make: Callable[[], Coroutine[Any, Any, T]], request: Request, services: Services) -> T:
    """Wait for the request's turn and return the result of ``make``. Raises ApiError 429, 503 or 504.

    Raises ClientDisconnected, and cancels ``make``, when the client disconnects.
    """
    services.admission.check_open()
    with services.voice_making.seat(client_of(request.scope)) as seat:
        return await cancel_on_disconnect(request.receive, _in_turn(make, seat, services))


async def _in_turn(make: Callable[[], Coroutine[Any, Any, T]], seat: Seat, services: Services) -> T:
    patience = services.settings.limits.first_sound_seconds
    try:
        async with asyncio.timeout(patience) as deadline:
            await seat.turn()
            made = await make()
            seat.spoken = True
            return made
    except TimeoutError:
        if not deadline.expired():
            raise
        message = f"The voice was not made within {patience:g} s."
        raise ApiError(message, status=504, code="deadline_exceeded") from None
