"""Kernels for CPUs, in Python that numba compiles with LLVM at the first start on a machine, and then caches.

numba recompiles a cached function only if its own file has changed, not if a function that it calls has. So the cache
has a folder for each state of this package: ``~/.cache/sonant/kernels-DIGEST``, or below ``$XDG_CACHE_HOME``.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import numba

from engine.system.cache_folder import cache_folder

_log = logging.getLogger(__name__)


def _prepare_cache() -> bool:
    """Create the folder of compiled functions. Return whether it can be used; if not, each start compiles them."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    base = cache_folder()
    if base is None:
        _log.warning("compiled CPU kernels are not cached, so every start compiles them again: no home folder")
        return False
    folder = base / f"kernels-{digest.hexdigest()[:16]}"
    try:
        if not folder.exists():
            _log.info("CPU kernels are compiled once for this machine, which takes 6 to 15 s")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning("compiled CPU kernels are not cached, so every start compiles them again: %s", error)
        return False
    if not os.access(folder, os.W_OK):
        _log.warning("compiled CPU kernels are not cached, so every start compiles them again: %s is read-only", folder)
        return False
    numba.config.CACHE_DIR = str(folder)
    return True


CACHE = _prepare_cache()
"""Whether compiled functions are cached: the ``cache`` argument of ``numba.njit``."""
