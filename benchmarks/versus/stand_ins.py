"""Empty modules that replace what the reference imports only for its 25 Hz models and for reading audio files."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

_NAMES = frozenset({"einops", "gradio", "librosa", "onnxruntime", "sox", "soundfile", "torchaudio"})


def install() -> None:
    """Make the modules importable. Calling any of their functions raises RuntimeError."""
    sys.meta_path.append(_Finder())


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def unavailable(*_: Any, **__: Any) -> NoReturn:
            raise RuntimeError(f"the reference called {self.__name__}.{name}, which is not installed")

        return unavailable


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in _NAMES:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
