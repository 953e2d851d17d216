"""The speech engine: turns text into codec frames and samples. Never imports ``server``.

The public Python API needs no torch in the calling process::

    import asyncio
    from engine import EngineClient, EngineConfig, SpeechRequest

    async def main() -> None:
        engine = EngineClient(EngineConfig(model="models/pocket"))
        await engine.start()
        await engine.wait_ready()
        async for chunk in engine.submit(SpeechRequest("Hello.", speaker="ava")):
            print(f"{len(chunk.samples)} samples at 24 kHz")
        await engine.close()

    asyncio.run(main())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.client.client import EngineClient
    from engine.config import EngineConfig
    from engine.protocol.request import AudioChunk, SpeechRequest, Voice

__all__ = ["AudioChunk", "EngineClient", "EngineConfig", "SpeechRequest", "Voice"]

_MODULES = {
    "AudioChunk": "engine.protocol.request",
    "EngineClient": "engine.client.client",
    "EngineConfig": "engine.config",
    "SpeechRequest": "engine.protocol.request",
    "Voice": "engine.protocol.request",
}


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__`` on first use, so that importing a submodule of ``engine`` does not import them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
