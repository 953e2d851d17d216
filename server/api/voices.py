"""``/v1/audio/voices``: lists, stores, deletes and blends voices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from server.api.json_body import JsonBytes
from server.api.openapi import BODY_ERRORS, VOICE_NOT_OWNED, body_of, errors, form_of
from server.api.responses import BuiltInVoice, DeletedVoice, StoredVoiceCard, VoiceEmbedding, VoiceList
from server.errors import ApiError
from server.http.clients import client_of
from server.http.disconnect import cancel_on_disconnect
from server.request_models.json_object import parse_json_object
from server.request_models.voices import BlendBody, parse_blend
from server.served_model import ServedModel
from server.services import Services, ServicesOf
from server.synthesis.admission_ticket import AdmissionTicket
from server.voices import cards
from server.voices.create import origin_of, read_form, voice_from
from server.voices.names import check_display_name, folded, voice_id
from server.voices.storage_threads import ThreadedVoices
from server.voices.store import name_reserved
from server.voices.stored_voice import MAX_CONSENT, StoredVoice, VoiceHeader

router = APIRouter(prefix="/v1/audio/voices")

T = TypeVar("T")

_FIELDS = {
    "name": "1 to 100 visible characters without +; the voice's id is derived from it",
    "speaker_embedding": "a JSON list of numbers, instead of audio_sample",
    "ref_text": "transcript of audio_sample; requests that use the voice then clone in context",
    "consent": "stored with the voice, such as the id of a consent recording",
    "type": "audio_sample or speaker_embedding; derived from the other fields when omitted",
    "model": "the model that makes the voice; default: the first one that clones voices",
    "shared": "with several API keys: true stores the voice for all keys, false (default) for this key only",
}
ModelName = Annotated[str | None, Query(alias="model", description="name of a model; default: the first one")]
_EXAMPLE = {"voices": [{"voice": "ava", "weight": 0.7}, {"voice": "emma", "weight": 0.3}], "name": "ava-emma"}
_CREATION_ERRORS = (*BODY_ERRORS, 429, 503, 504)


@router.head("", include_in_schema=False)
@router.get("", response_model=VoiceList, responses=errors(400, 404, 429, 503))
async def list_voices(request: Request, services: ServicesOf, model_name: ModelName = None) -> Response:
    """List the model's speakers, then the stored voices that this key may use, oldest first."""
    model = services.model(model_name)
    store, info = model.voices.store(_owner(request)), model.info
    speakers = {speaker.lower() for speaker in info.speakers}

    def list_cards(headers: list[VoiceHeader]) -> bytes:
        built_in = [_built_in_card(speaker, services) for speaker in info.speakers]
        stored = [voice for voice in headers if voice.name not in speakers]
        stored_cards = [_stored_card(voice, model, services) for voice in stored]
        if request.app.has_keys and _owner(request) is None:
            stored_cards = [cards.without_private_fields(card) for card in stored_cards]
        return cards.card_list(built_in + stored_cards)

    with services.voice_listing.ticket(client_of(request.scope)) as ticket:

        async def list_in_turn() -> bytes:
            await ticket.wait_until_running()
            return await asyncio.to_thread(list_cards, await store.headers())

        page = await cancel_on_disconnect(request.receive, list_in_turn())
    return Response(page, media_type="application/json")


@router.post(
    "",
    response_model=StoredVoiceCard,
    responses=errors(*_CREATION_ERRORS, 404, 409, 507),
    openapi_extra=form_of(_FIELDS, required=["name"]),
)
async def create_voice(request: Request, services: ServicesOf) -> dict[str, Any]:
    """Store a voice under a name. A recording is encoded once, now; requests that use the voice do not encode it."""
    services.check_accepting()  # without an engine the request fails before its body is read
    form = await read_form(request, [*_FIELDS, "prompt"])
    model = services.cloning_model(form.text("model", 256))
    origin = origin_of(form)
    shared = _is_shared(form.flag("shared"), request, services)
    store = model.voices.store(_owner(request))
    name = check_display_name(form.text("name", 256))
    await _check_free(name, store, shared, services)
    consent = form.text("consent", MAX_CONSENT)
    voice = await _created(lambda: voice_from(form, model), request, services)
    stored = StoredVoice(
        name=voice_id(name),
        display_name=name,
        origin=origin,
        created_at=int(time.time()),
        model=model.name,
        embedding=voice.embedding,
        codes=None if voice.codes is None else voice.codes.astype("int16"),
        transcript=voice.transcript,
        consent=consent,
        maker=_owner(request),
        shared=shared,
    )
    await store.add(stored)
    return _stored_card(stored, model, services)


@router.post(
    "/embedding",
    response_model=VoiceEmbedding,
    responses=errors(*_CREATION_ERRORS, 404),
    openapi_extra=form_of({"model": _FIELDS["model"]}, required=["audio_sample"]),
)
async def embed(request: Request, services: ServicesOf) -> dict[str, Any]:
    """Return the speaker embedding of a recording, for the field ``speaker_embedding`` of a speech request."""
    services.check_accepting()  # without an engine the request fails before its body is read
    form = await read_form(request, ["model"])
    model = services.cloning_model(form.text("model", 256))
    voice = await _created(lambda: voice_from(form, model), request, services)
    return cards.embedding_card(voice.embedding.tolist(), model.name)


@router.post(
    "/blend",
    response_model=StoredVoiceCard | VoiceEmbedding,
    responses=errors(*_CREATION_ERRORS, 404, 409),
    openapi_extra=body_of(BlendBody, _EXAMPLE),
)
async def blend_voices(request: Request, services: ServicesOf, raw: JsonBytes) -> dict[str, Any]:
    """Blend several voices. With a name the blend is stored; without one its embedding is returned."""
    services.check_accepting()
    body = await asyncio.to_thread(lambda: parse_blend(parse_json_object(raw)))
    model, owner = services.cloning_model(body.model), _owner(request)
    store = model.voices.store(owner)
    shared = _is_shared(body.shared, request, services)
    name = None if body.name is None else check_display_name(body.name)
    if name is not None:
        await _check_free(name, store, shared, services)
    embedding = await _created(lambda: model.voices.blended(body.voices, owner), request, services)
    if name is None:
        return cards.embedding_card(embedding.tolist(), model.name)
    stored = StoredVoice(
        name=voice_id(name),
        display_name=name,
        origin="blend",
        created_at=int(time.time()),
        model=model.name,
        embedding=embedding,
        consent=body.consent,
        maker=owner,
        shared=shared,
    )
    await store.add(stored)
    return _stored_card(stored, model, services)


@router.head("/{name}", include_in_schema=False)
@router.get("/{name}", response_model=BuiltInVoice | StoredVoiceCard, responses=errors(400, 404, 503))
async def get_voice(name: str, request: Request, services: ServicesOf, model_name: ModelName = None) -> dict[str, Any]:
    """Return one voice, by its id or its name."""
    model, owner = services.model(model_name), _owner(request)
    if speaker := model.voices.speaker(name):
        return _built_in_card(speaker, services)
    stored = await model.voices.store(owner).get(name)
    if stored is None:
        raise await model.voices.not_found(name, owner, "voice_id")
    return _stored_card(stored, model, services)


@router.delete("/{name}", response_model=DeletedVoice, responses=errors(400, 404, 503) | VOICE_NOT_OWNED)
async def delete_voice(name: str, request: Request, services: ServicesOf) -> dict[str, Any]:
    """Delete a stored voice. Requests in flight that use it continue.

    With several API keys a key can delete only voices that it stored.
    """
    model, owner = services.model(), _owner(request)
    if services.models_with_speaker(name):
        message = f"voice '{name}' is built into the checkpoint and cannot be deleted"
        raise ApiError(message, param="voice_id", code="voice_built_in")
    store, identifier = model.voices.store(owner), voice_id(name)
    if identifier != folded(name) and await store.get(name) is None:
        raise await model.voices.not_found(name, owner, "voice_id")
    if not await store.remove(identifier):
        raise await model.voices.not_found(name, owner, "voice_id")
    return cards.deleted_card(identifier)


def _built_in_card(speaker: str, services: Services) -> dict[str, Any]:
    return cards.built_in_card(speaker, services.created, services.models_with_speaker(speaker))


def _stored_card(voice: StoredVoice | VoiceHeader, model: ServedModel, services: Services) -> dict[str, Any]:
    return cards.stored_card(voice, model.info, services.models_with_width(voice.width))


def _owner(request: Request) -> str | None:
    owner: str | None = request.state.record.owner
    return owner


def _is_shared(shared: bool | None, request: Request, services: Services) -> bool:
    """Return whether a new voice is shared by all keys. Raises ApiError if it cannot be private."""
    if shared is None:
        return not services.keys.several
    if not shared and _owner(request) is None:
        message = "shared must be true on a server without API keys, got false; send true, or omit shared"
        raise ApiError(message, param="shared")
    return shared


async def _check_free(name: str, store: ThreadedVoices, shared: bool, services: Services) -> None:
    """Raise ApiError if no voice can be stored under ``name``, before any work is done for the voice."""
    names = {name.lower(), voice_id(name)}
    if any(not model.voices.reserved_names().isdisjoint(names) for model in services.models):
        raise name_reserved(name)
    await store.check_room(voice_id(name), shared=shared)


async def _created(create: Callable[[], Coroutine[Any, Any, T]], request: Request, services: Services) -> T:
    """Wait until the request runs and return the result of ``create``. Raises ApiError 429, 503 or 504.

    Raises ClientDisconnected, and cancels ``create``, when the client disconnects.
    """
    services.admission.check_open()
    with services.voice_creation.ticket(client_of(request.scope)) as ticket:
        return await cancel_on_disconnect(request.receive, _in_turn(create, ticket, services))


async def _in_turn(create: Callable[[], Coroutine[Any, Any, T]], ticket: AdmissionTicket, services: Services) -> T:
    seconds = services.settings.limits.first_sound_seconds
    try:
        async with asyncio.timeout(seconds) as timeout:
            await ticket.wait_until_running()
            created = await create()
            ticket.completed = True
            return created
    except TimeoutError:
        if not timeout.expired():
            raise
        message = f"the voice was not ready within {seconds:g} s (limits.first_sound_seconds); try again later"
        raise ApiError(message, status=504, code="deadline_exceeded") from None
