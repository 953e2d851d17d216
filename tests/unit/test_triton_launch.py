"""Compiling variants of Triton kernels, with a stand-in for Triton."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from engine.kernels.triton_launch import CompileOnly

FLOATS, INTEGERS = torch.zeros(1), torch.zeros(1, dtype=torch.int64)


class Compiled:
    def __init__(self, error=None):
        self.error, self.loaded = error, False

    @property
    def run(self):
        if self.error is not None:
            raise self.error
        self.loaded = True
        return self.run_kernel

    def run_kernel(self):
        raise AssertionError("nothing is run")


class Kernel:
    """A kernel whose variants are compiled to ``compiled``, one after the other."""

    def __init__(self, *compiled):
        self.compiled, self.variants = list(compiled), []

    def warmup(self, *arguments, grid, **constants):
        self.variants.append((arguments, constants))
        return self.compiled.pop(0)


class Mode:
    """Triton's asynchronous compilation."""

    active = False

    def __init__(self, pool, *, ignore_errors=False):
        assert ignore_errors

    def __enter__(self):
        Mode.active = True
        return self

    def __exit__(self, *exception):
        Mode.active = False


@pytest.fixture(params=["asynchronous", "older"])
def pool(request, monkeypatch):
    modes = {"AsyncCompileMode": Mode} if request.param == "asynchronous" else {}
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(**modes))
    with ThreadPoolExecutor(2) as pool:
        yield pool
    assert not Mode.active


def test_each_variant_is_compiled_once(pool):
    kernel = Kernel(*(Compiled() for _ in range(4)))
    with CompileOnly(pool) as launch:
        for argument in (FLOATS, FLOATS.clone(), INTEGERS, 16, 32, 5, 7):
            launch(kernel, (1,), argument, BLOCK=64)
    assert len(kernel.variants) == 4


def test_processes_that_share_the_kernels_compile_each_variant_in_one_of_them(pool):
    arguments = (FLOATS, INTEGERS, 16, 5, FLOATS)
    shares = []
    for index in range(3):
        kernel = Kernel(*(Compiled() for _ in arguments))
        with CompileOnly(pool, load=True, share=(index, 3)) as launch:
            for argument in arguments:
                launch(kernel, (1,), argument)
        shares.append([variant for (variant,), _ in kernel.variants])
    assert shares == [[FLOATS, 5], [INTEGERS], [16]]


def test_kernels_are_loaded_only_on_request(pool):
    compiled = [Compiled(), Compiled()]
    for load, each in zip((False, True), compiled, strict=True):
        with CompileOnly(pool, load=load) as launch:
            launch(Kernel(each), (1,), FLOATS)
        assert each.loaded == load


def test_a_kernel_that_cannot_be_loaded_does_not_stop_the_others(pool):
    bad, good = Compiled(RuntimeError("too much shared memory")), Compiled()
    kernel = Kernel(bad, good)
    with pytest.raises(RuntimeError, match="too much shared memory"), CompileOnly(pool, load=True) as launch:
        launch(kernel, (1,), FLOATS)
        launch(kernel, (1,), INTEGERS)
    assert good.loaded


def test_an_error_of_the_caller_is_raised_and_nothing_is_loaded(pool):
    compiled = Compiled()
    with pytest.raises(torch.OutOfMemoryError), CompileOnly(pool, load=True) as launch:
        launch(Kernel(compiled), (1,), FLOATS)
        raise torch.OutOfMemoryError
    assert not compiled.loaded


def test_the_interpreter_has_nothing_to_load(pool):
    with CompileOnly(pool, load=True) as launch:
        launch(Kernel(None), (1,), FLOATS)
