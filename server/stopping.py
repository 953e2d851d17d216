"""How the server ends: running utterances may finish, and a second Ctrl-C stops at once."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from server.commands.console import note


class Server(uvicorn.Server):
    """Says what it waits for when it is told to stop. ``running``: how many utterances are being spoken."""

    def __init__(self, config: uvicorn.Config, running: Callable[[], int]) -> None:
        super().__init__(config)
        self._running = running

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come. The second Ctrl-C is not kept, which would raise it again after the end."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for what runs, or break it off; then end the engine, also when forced."""
        if count := self._running():
            spoken = "1 utterance is" if count == 1 else f"{count} utterances are"
            note(f"{spoken} being finished; Ctrl-C stops now")
        await super().shutdown(sockets)
        if self.force_exit:
            await self._break_off()
            await self.lifespan.shutdown()

    async def _break_off(self) -> None:
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def untold(entry: logging.LogRecord) -> bool:
    """A filter for uvicorn's log: not what the line of the request has told already, with its ``error=``."""
    error = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and "without completing response" not in entry.getMessage()
