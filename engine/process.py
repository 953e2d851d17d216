"""What every process of the engine does first."""

from __future__ import annotations

import logging
import signal


def prepare_process() -> None:
    """Log to standard error; leave Ctrl-C to the process that started this one, whose end ends it too."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
