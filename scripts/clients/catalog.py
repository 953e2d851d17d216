"""The clients that ``make test-clients`` installs and runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["python", "js"]


@dataclass(frozen=True)
class Client:
    """A client package.

    name: heading of its section in ``docs/guides/clients.md``, whose first block in ``language`` is run.
    packages: requirements for pip or npm; the table shows the version of the first one.
    dialogue: file in ``drivers/`` that speaks the dialogue with the client's sentence splitter.
    concurrent: it requests the sentences of a turn at the same time, and plays them in order.
    runs_example: whether its section has an example that can be run.
    """

    name: str
    language: Language
    packages: tuple[str, ...]
    dialogue: str | None = None
    concurrent: bool = False
    runs_example: bool = True

    @property
    def folder(self) -> str:
        """Name of the folder of its environment."""
        return self.name.lower().replace(" ", "-").replace("(", "").replace(")", "")


CLIENTS = (
    Client("OpenAI (Python)", "python", ("openai",)),
    Client("OpenAI (JavaScript)", "js", ("openai",)),
    Client("LiveKit Agents", "python", ("livekit-agents", "livekit-plugins-openai"), dialogue="livekit_dialogue.py"),
    Client("Pipecat", "python", ("pipecat-ai", "openai"), dialogue="pipecat_dialogue.py"),
    Client("openai-agents", "python", ("openai-agents[voice]",), dialogue="openai_agents_dialogue.py", concurrent=True),
    Client("Vercel AI SDK", "js", ("ai", "@ai-sdk/openai")),
    Client("LiteLLM", "python", ("litellm",)),
    Client("Open WebUI", "js", ("open-webui",), dialogue="open_webui_dialogue.mjs", runs_example=False),
)
"""Open WebUI's Python package contains its web page, whose sentence splitter is JavaScript. Its 400 dependencies are
not installed, and the request of its server is replayed."""
