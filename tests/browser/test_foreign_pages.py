"""A page of another origin, or with a rebound host name, can use nothing of a server without keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext

from tests.browser.conftest import OTHER_NAME, POCKET
from tests.server.serving import ScriptedServing, Serving, write_config

ATTACK = """async (server) => {
    const speech = server + "/v1/audio/speech";
    const body = JSON.stringify({ input: "Hello there.", voice: "ava" });
    const json = { "Content-Type": "application/json" };
    const read = async (url, options) => (await fetch(url, options)).status;
    const element = (audio) => new Promise((played, failed) => {
        audio.oncanplay = () => played("played");
        audio.onerror = () => failed(new Error("refused"));
    });
    const socket = (socket) => new Promise((opened, failed) => {
        socket.onopen = () => opened("opened");
        socket.onerror = () => failed(new Error("refused"));
    });
    const attempts = {
        json: () => read(speech, { method: "POST", headers: json, body }),
        text: () => read(speech, { method: "POST", body }),
        blind: () => fetch(speech, { method: "POST", mode: "no-cors", body }).then((sent) => sent.status || "opaque"),
        audio: () => element(new Audio(speech + "?input=Hello&voice=ava")),
        socket: () => socket(new WebSocket(server.replace("http", "ws") + "/v1/audio/speech/stream")),
        models: () => read(server + "/v1/models"),
        voices: () => read(server + "/v1/audio/voices"),
        metrics: () => read(server + "/metrics"),
        delete: () => read(server + "/v1/audio/voices/anna", { method: "DELETE" }),
    };
    const results = {};
    for (const [name, attempt] of Object.entries(attempts)) {
        results[name] = await attempt().catch(() => "refused");
    }
    return results;
}"""


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Another origin</title>")

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def foreign() -> Iterator[str]:
    """The address of a page of another origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server without keys, and with GET for audio elements."""
    with ScriptedServing(write_config(tmp_path_factory.mktemp("foreign"), POCKET, get_speech=True)) as server:
        yield server.ready()


def test_a_page_of_another_origin_can_read_nothing_and_make_no_speech(
    context: BrowserContext, server: Serving, foreign: str
) -> None:
    page = context.new_page()
    page.goto(foreign)
    results = page.evaluate(ATTACK, server.url)
    assert results == dict.fromkeys(results, "refused") | {"blind": "opaque"}
    server.wait_for(r"POST '/v1/audio/speech' .*status=403")
    assert not [line for line in server.lines if "/v1/audio/speech" in line and "status=200" in line]


def test_a_rebound_name_is_refused_on_every_route(context: BrowserContext, server: Serving) -> None:
    page = context.new_page()
    for path in ("/", "/docs", "/v1/models"):
        answer = page.goto(f"http://{OTHER_NAME}:{urlsplit(server.url).port}{path}")
        assert answer is not None
        assert answer.status == 403
