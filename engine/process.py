"""What every process of the engine does first."""

from __future__ import annotations

import logging
import signal


def prepare_process() -> None:
    """Log to standard error; leave Ctrl-C and SIGTERM to the process that started this one, whose end ends it too.

    A service manager sends SIGTERM to every process of a service, and running utterances are to end first.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
