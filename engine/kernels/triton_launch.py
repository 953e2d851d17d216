"""Launches of Triton kernels: run them, or compile their variants ahead."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch


class Launch(Protocol):
    """A function that receives each kernel with its arguments: runs or compiles it."""

    def __call__(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        """Handle a launch.

        kernel: a ``triton.jit`` function. constants: compile-time arguments and launch options such as num_warps.
        """


def run(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """``Launch`` that runs the kernel. Triton compiles it first if this variant is new."""
    kernel[grid](*arguments, **constants)


class CompileOnly:
    """A ``Launch`` that compiles each kernel variant once and runs nothing. Its tensors may be meta tensors."""

    def __init__(self) -> None:
        self._compiled: set[tuple[object, ...]] = set()

    def __call__(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        """Compile the kernel unless this variant is compiled."""
        variant = (id(kernel), *map(_variant, arguments), *constants.values())
        if variant not in self._compiled:
            self._compiled.add(variant)
            kernel.warmup(*arguments, grid=grid, **constants)


def parallel_compilation(pool: Executor) -> AbstractContextManager[object]:
    """Return a context in which Triton compiles in ``pool``. Older Triton compiles one kernel after another."""
    import triton

    mode = getattr(triton, "AsyncCompileMode", None)
    return nullcontext() if mode is None else mode(pool)


def _variant(argument: object) -> object:
    """Return the properties of an argument for which Triton, at least, compiles separate variants."""
    if isinstance(argument, torch.Tensor):
        return argument.dtype
    return (argument == 1, argument % 16 == 0) if isinstance(argument, int) else type(argument)
