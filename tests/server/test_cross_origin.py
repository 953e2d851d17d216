"""Pages of other origins use the server exactly if the setting cors.allow_origins lets them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from server.app import create_app
from server.http.cors_settings import CorsSettings
from server.package_data import DEFAULT_CONFIG
from server.settings import SettingsError, load_settings
from tests.server.serving import SPEECH, ScriptedServing, Serving, speech, write_config
from tests.server.test_bad_input import check

ALLOWED = [
    "http://localhost:3000",
    "https://*.example.org",
    "http://127.0.0.1:*",
    "chrome-extension://*",
    "app://.",
    "tauri://localhost",
    "null",
]
PAGES = [
    "http://localhost:3000",
    "https://chat.example.org",
    "https://a.b.example.org",
    "http://127.0.0.1:5173",
    "chrome-extension://abcdefghijklmnop",
    "app://.",
    "tauri://localhost",
    "null",
]
FOREIGN = [
    "http://localhost:3001",
    "https://example.org",
    "https://example.org.evil.example",
    "http://chat.example.org",
    "https://chat.example.org:8443",
    "https://evil.example/.example.org",
    "http://127.0.0.1",
    "app://other",
    "file://",
]
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def open_server(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server without keys that pages of some other origins may use."""
    config = write_config(tmp_path_factory.mktemp("cors"), pocket, cors={"allow_origins": ALLOWED})
    with ScriptedServing(config) as server:
        yield server.ready()


def preflight(client: httpx.Client, origin: str, **headers: str) -> httpx.Response:
    """What a browser asks before a page of ``origin`` may send a speech request."""
    return client.options(SPEECH, headers={"Origin": origin, **PREFLIGHT, **headers})


@pytest.mark.parametrize("origin", PAGES)
def test_an_allowed_page_speaks_and_reads_the_answer(open_server: Serving, origin: str) -> None:
    with open_server.client() as client:
        answer = preflight(client, origin)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == origin
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "authorization" in answer.headers["access-control-allow-headers"]
        reply = client.post(SPEECH, json=speech(max_new_tokens=2), headers={"Origin": origin})
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == origin
    assert "X-Request-Id" in reply.headers["access-control-expose-headers"]


@pytest.mark.parametrize("origin", FOREIGN)
def test_any_other_page_is_refused_with_the_name_of_the_setting(open_server: Serving, origin: str) -> None:
    with open_server.client() as client:
        for answer in (preflight(client, origin), client.post(SPEECH, json=speech(), headers={"Origin": origin})):
            check(answer, 403, None, "foreign_origin")
            assert "cors.allow_origins" in answer.json()["error"]["message"]
            assert "access-control-allow-origin" not in answer.headers
        assert "access-control-allow-origin" not in client.get("/v1/models", headers={"Origin": origin}).headers


def test_by_default_only_the_servers_own_pages_are_allowed(client: httpx.Client, serving: Serving) -> None:
    check(preflight(client, "http://localhost:3000"), 403, None, "foreign_origin")
    assert client.post(SPEECH, json=speech(max_new_tokens=2), headers={"Origin": serving.url}).status_code == 200


def test_an_error_can_be_read_by_an_allowed_page(open_server: Serving) -> None:
    with open_server.client() as client:
        answer = client.post(SPEECH, json={"input": ""}, headers={"Origin": PAGES[0]})
    assert answer.status_code == 400
    assert answer.headers["access-control-allow-origin"] == PAGES[0]


def test_a_public_page_may_ask_for_a_server_on_the_private_network(open_server: Serving) -> None:
    with open_server.client() as client:
        answer = preflight(client, PAGES[1], **{"Access-Control-Request-Private-Network": "true"})
    assert answer.headers["access-control-allow-private-network"] == "true"


def test_a_rebound_host_name_is_refused_even_for_an_allowed_page(open_server: Serving) -> None:
    with open_server.client() as client:
        check(preflight(client, PAGES[0], Host="rebound.example"), 403, None, "foreign_host")


def test_the_same_list_decides_for_live_sessions(open_server: Serving) -> None:
    address = open_server.url.replace("http", "ws", 1) + f"{SPEECH}/stream"
    with connect(address, origin=PAGES[0]) as session:
        assert session.response is not None and session.response.status_code == 101
    with pytest.raises(InvalidStatus) as refused:
        connect(address, origin=FOREIGN[0])
    assert refused.value.response.status_code == 403


async def test_a_page_sends_its_key_after_a_preflight_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SONANT_API_KEY", "some-secret")
    monkeypatch.setenv("SONANT_CORS__ALLOW_ORIGINS", '["*"]')
    app = create_app(load_settings(DEFAULT_CONFIG, {"voices": {"folder": str(tmp_path)}}))
    page = {"Origin": "https://page.example"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://speech.example") as client:
        assert (await client.options(SPEECH, headers={**page, **PREFLIGHT})).status_code == 200
        refused = await client.get("/v1/models", headers=page)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, page["Origin"])


@pytest.mark.parametrize("origins", [["*"], ["https://*"], ["http://*:8080"], ["https://*.*"]])
def test_every_page_needs_a_key_or_an_explicit_flag(origins: list[str], tmp_path: Path) -> None:
    flags = {"voices": {"folder": str(tmp_path)}, "cors": {"allow_origins": origins}}
    with pytest.raises(SettingsError, match=r"cors\.allow_any_page"):
        create_app(load_settings(DEFAULT_CONFIG, flags))
    create_app(load_settings(DEFAULT_CONFIG, {**flags, "cors": {"allow_origins": origins, "allow_any_page": True}}))


@pytest.mark.parametrize(
    "origin",
    ["localhost:3000", "http://localhost/", "https://*example.org", "https://a*.example.org", "http://a:8*", "", "**"],
)
def test_an_origin_that_browsers_never_send_or_that_is_ambiguous_is_refused(origin: str) -> None:
    with pytest.raises(ValidationError, match="an origin is a scheme"):
        CorsSettings(allow_origins=(origin,))
