"""Warns when Python cannot keep the bytecode of its modules, so that every start compiles them again."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType

_log = logging.getLogger(__name__)


def warn_without_bytecode(module: ModuleType) -> None:
    """Log a warning if Python has not kept the bytecode of ``module``, a large package that was imported just now.

    Python compiles a module at its first import and keeps the result beside it (``__pycache__``), for later starts.
    """
    cached = None if module.__spec__ is None else module.__spec__.cached
    if cached is None or Path(cached).exists():
        return
    if sys.dont_write_bytecode:
        advice = "unset PYTHONDONTWRITEBYTECODE"
    else:
        advice = f"{Path(cached).parent} is not writable; set PYTHONPYCACHEPREFIX to a folder that is kept"
    _log.warning("Python compiles all modules at every start, which takes seconds: %s", advice)
