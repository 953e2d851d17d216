"""The thread that aligns: one of low priority, with a single-threaded BLAS."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

log = logging.getLogger("sonant")

_NICENESS = 10
"""Where cores are short, speech comes first."""
_SET_THREADS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")
"""Names of the function of OpenBLAS in numpy's wheels, and elsewhere."""


def aligner_threads() -> ThreadPoolExecutor:
    """Return the executor of all alignments. Its thread starts with its first task."""
    return ThreadPoolExecutor(1, "aligner", initializer=_prepare_thread)


def _prepare_thread() -> None:
    """Lower the priority of the calling thread (on Linux each thread has its own), and let numpy use no others.

    OpenBLAS divides even small products among threads for all cores, whose synchronization takes three times the CPU
    time of the products.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        limit_blas_threads()
    except OSError:
        log.debug("the aligner's thread is not limited", exc_info=True)


def limit_blas_threads() -> int:
    """Make numpy's OpenBLAS use one thread in this process. Return the number of libraries that were found."""
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())
    found = 0
    for path in sorted({path for path in mapped if "openblas" in Path(path).name}):
        library = ctypes.CDLL(path)
        name = next((name for name in _SET_THREADS if hasattr(library, name)), None)
        if name is not None:
            getattr(library, name)(1)
            found += 1
    return found
