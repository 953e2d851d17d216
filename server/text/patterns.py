"""Regular expressions that are compiled when they are first used: all of them at import would take too long."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")
_ALL: list[_Lazy] = []


class _Lazy:
    """Has the methods of a compiled expression."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Compile the expression; from then on its methods are attributes of this object and cost nothing."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(*self._source)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return an expression that is compiled when one of its methods is first used."""
    made = _Lazy(pattern, flags)
    _ALL.append(made)
    return cast("re.Pattern[str]", made)


def compile_all() -> None:
    """Compile every expression, so that no text waits for it."""
    for each in _ALL:
        each.search  # noqa: B018 - looking it up compiles it
