"""What every process does first, and once it has loaded everything."""

from __future__ import annotations

import gc
import signal

from engine.logs import LogFormat, set_up_logging


def prepare_process(log_format: LogFormat) -> None:
    """Log to standard error; leave Ctrl-C and SIGTERM to the process that started this one, whose end ends it too.

    A service manager sends SIGTERM to every process of a service, and running utterances are to end first.
    """
    set_up_logging(log_format)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def keep_what_is_loaded() -> None:
    """Spare the garbage collector what is there now, for good.

    Whenever a quarter as much has been made since, it would look through all of it, and stop every thread meanwhile.
    """
    gc.collect()
    gc.freeze()
