"""The engine hears of a valid speech request before it is submitted, so that its next step can wait for it."""

from __future__ import annotations

from pathlib import Path

from engine.protocol.engine import OnEngine, ignore_engine
from engine.protocol.request import SpeechRequest
from tests.server.scripted_server import scripted_server
from tests.support.scripted_engine import ScriptedEngine, ScriptedStream


class NotingEngine(ScriptedEngine):
    """Notes how many requests were announced when one is submitted."""

    announced_before = 0

    def submit(self, request: SpeechRequest, *, on_engine: OnEngine = ignore_engine) -> ScriptedStream:
        self.announced_before = self.announced
        return super().submit(request, on_engine=on_engine)


def test_a_valid_request_is_announced_before_it_is_submitted(tmp_path: Path) -> None:
    engine = NotingEngine()
    with scripted_server(tmp_path, engine) as server:
        assert server.post(speed="fast").status_code == 400
        assert engine.announced == 0
        server.speak()
        assert engine.announced_before == engine.announced == 1
