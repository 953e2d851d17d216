"""Launches of Triton kernels: run them, or compile their variants ahead."""

from __future__ import annotations

import sys
from concurrent.futures import Executor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, Self

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


def settle_cache_keys(module: str) -> None:
    """Compute the cache keys of a module's ``triton.jit`` functions, in order. Call this at the end of the module.

    Otherwise a kernel's key depends on the order of launches: Triton (seen in 3.6) includes the global constants of
    the functions that a kernel calls only if their own keys were computed before. A process that launches some of the
    kernels would then find none that another one compiled.
    """
    for each in list(vars(sys.modules[module]).values()):
        _ = getattr(each, "cache_key", None)  # a property, which functions of Triton's interpreter lack


class CompileOnly:
    """A ``Launch`` that compiles each kernel variant once and runs nothing. Its tensors may be on any device.

    Used as a context, at the end of which all are compiled. Kernels are compiled in the threads of ``pool``, but one
    after another where Triton is too old. A kernel that cannot be compiled in them is left to its first use.

    load: also load the kernels on the GPU, for which Triton compiles a C function that launches them, with the system's
    C compiler. At the end of the context, raises the first error of a kernel; the others are loaded nevertheless.
    share: (index, number) of this process among those that make the same launches. Each compiles its share of them.
    """

    def __init__(self, pool: Executor, *, load: bool = False, share: tuple[int, int] = (0, 1)) -> None:
        self._pool, self._loads, self._share = pool, load, share
        self._kernels: dict[tuple[object, ...], Any] = {}

    def __enter__(self) -> Self:
        import triton

        mode = getattr(triton, "AsyncCompileMode", None)
        # Without ignore_errors, an error would leave the mode active for all later compilations of the thread.
        self._mode: AbstractContextManager[object] = (
            nullcontext() if mode is None else mode(self._pool, ignore_errors=True)
        )
        self._mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._mode.__exit__(*exception)
        if self._loads and exception[0] is None:
            loading = [self._pool.submit(_load, each) for each in self._kernels.values()]
            wait(loading)
            for each in loading:
                each.result()

    def __call__(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        """Compile the kernel unless this variant is compiled."""
        variant = (id(kernel), *map(_variant, arguments), *constants.values())
        if variant in self._kernels:
            return
        index, number = self._share
        mine = len(self._kernels) % number == index
        self._kernels[variant] = kernel.warmup(*arguments, grid=grid, **constants) if mine else None


def _load(kernel: Any) -> None:
    """Load a kernel that was compiled, or that is a future of Triton. None: another process's, or interpreted."""
    compiled = kernel.result() if hasattr(kernel, "result") else kernel
    if compiled is not None:
        _ = compiled.run  # loads the kernel, and compiles its launcher


def _variant(argument: object) -> object:
    """Return the properties of an argument for which Triton, at least, compiles separate variants."""
    if isinstance(argument, torch.Tensor):
        return argument.dtype
    return (argument == 1, argument % 16 == 0) if isinstance(argument, int) else type(argument)
