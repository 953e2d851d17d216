"""Spans as received by an OpenTelemetry collector."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.server.serving import ROOT, SPEECH, TIMEOUT, ScriptedServing, speech, write_config

service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(ThreadingHTTPServer):
    """An OTLP collector that keeps the spans it receives."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list = []

    @property
    def variables(self) -> dict[str, str]:
        address = f"http://127.0.0.1:{self.server_port}"
        return {"SONANT_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": address, "NO_PROXY": "127.0.0.1"}


class Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = service.ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in body.resource_spans:
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(TIMEOUT)


def test_each_speech_request_is_a_span_of_the_trace_of_its_client(
    pocket: Path, tmp_path: Path, collector: Collector
) -> None:
    with ScriptedServing(write_config(tmp_path, pocket), **collector.variables).ready() as server:
        with server.client() as client:
            client.get("/v1/models")
            client.post(SPEECH, json=speech(voice="ryan"), headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
            client.post(SPEECH, json=speech(voice="nobody"), headers={"traceparent": "nonsense", "X-Request-Id": "no"})
        server.wait_for("id=no ")
        server.process.terminate()
        assert server.process.wait(TIMEOUT) == 0
    completed, refused = collector.spans
    assert (completed.trace_id.hex(), completed.parent_span_id.hex()) == (TRACE, PARENT)
    attributes = {each.key: each.value for each in completed.attributes}
    assert attributes["sonant.outcome"].string_value == "completed"
    assert attributes["sonant.voice"].string_value == "ryan"
    assert attributes["sonant.audio"].double_value > 0
    assert [event.name for event in completed.events] == ["first_audio", "onset"]
    assert completed.start_time_unix_nano < completed.events[0].time_unix_nano <= completed.end_time_unix_nano
    assert refused.trace_id.hex() != TRACE
    assert not refused.parent_span_id


def test_an_unreachable_collector_does_not_affect_requests(pocket: Path, tmp_path: Path, collector: Collector) -> None:
    nowhere = {**collector.variables, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with ScriptedServing(write_config(tmp_path, pocket), **nowhere).ready() as server:
        with server.client() as client:
            assert client.post(SPEECH, json=speech()).status_code == 200
        server.process.terminate()
        assert server.process.wait(TIMEOUT) == 0


def test_serve_names_the_missing_packages_for_tracing(pocket: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, pocket, tracing=True)
    without = "import sys; sys.modules['opentelemetry.sdk'] = None; from server.cli.main import main; main()"
    command = [sys.executable, "-c", without, "serve", "--config", str(config), "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 1
    assert "sonant[otel]" in done.stderr
    assert "Traceback" not in done.stderr
