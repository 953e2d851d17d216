"""Regular expressions that are compiled on first use, because compiling all of them at import would take too long."""

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
        """Compile the expression and set its methods as attributes of this object, so that this is called once."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(*self._source)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return an expression that is compiled when one of its methods is first used."""
    expression = _Lazy(pattern, flags)
    _ALL.append(expression)
    return cast("re.Pattern[str]", expression)


def compile_all() -> None:
    """Compile every expression now, so that no request waits for it."""
    for each in _ALL:
        each.search  # noqa: B018 - looking it up compiles it
