"""Dispatch of the fused kernels: fallbacks without a GPU, and the split of batches by size."""

import logging
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import torch

from engine.checkpoint.architecture import Transformer
from engine.errors import EngineFailed, SetupError
from engine.kernels.nvrtc import KernelError
from engine.talker.fused import dispatch
from engine.talker.fused.dispatch import DispatchBySize, first_code_sampler, residual_codes, self_check
from engine.talker.fused.persistent import MAX_ROWS
from engine.talker.gpu_step.frame_sampler import PlainFirstCodes, PlainResidualCodes
from engine.talker.gpu_step.graphs import batch_sizes
from engine.talker.gpu_step.slots import Slots
from tests.support.code_predictors import architecture, predictor_inputs, random_talker, random_weights

SMALL = Transformer(hidden=64, intermediate=96, layers=1, heads=2, kv_heads=1, head_dim=32, rope_theta=1e6, eps=1e-6)
SIZES = {"vocab": 64, "codebooks": 4, "talker_hidden": 64}


class OutOfResources(Exception):
    """Like Triton's exception."""

    def __str__(self):
        return "out of resource: shared memory, Required: {}, Hardware limit: {}".format(*self.args)


def test_a_cpu_uses_plain_torch_and_logs_it(caplog):
    caplog.set_level(logging.INFO)
    talker = random_talker(SMALL, dtype=torch.float32, **SIZES)
    assert isinstance(residual_codes(*talker, [4]), PlainResidualCodes)
    assert "plain torch: there is no GPU" in caplog.text
    slots = Slots(4, 8, architecture(SMALL, **SIZES), text_pad=0, device=torch.device("cpu"), dtype=torch.float32)
    assert isinstance(first_code_sampler(slots), PlainFirstCodes)


class Gpu:
    """Stands in for weights on a GPU."""

    device = torch.device("cuda")
    dtype = torch.bfloat16


@pytest.fixture
def gpu(monkeypatch, caplog):
    """A GPU with Triton whose kernels fail on request: name -> an error, or None."""
    caplog.set_level(logging.INFO)
    errors = {"persistent": None, "batched": KernelError("no GPU of compute capability 9.0"), "triton": None}

    class Codes:
        def __init__(self, weights, rows):
            self.checked = []

        def __call__(self, hidden, first, params, rng):
            if errors["triton"] is not None:
                raise errors["triton"]
            self.checked.append(len(hidden))

    def persistent_codes(weights, batches, *, fp8=False):
        if errors["persistent"] is not None:
            raise errors["persistent"]
        assert fp8
        return "persistent with fp8", weights

    def batched_codes(weights, batches):
        if errors["batched"] is not None:
            raise errors["batched"]
        return f"batched for {batches[0]} to {batches[-1]}"

    triton_codes = ModuleType("triton_codes")
    triton_codes.TritonCodes, triton_codes.unsupported = Codes, lambda weights: None
    monkeypatch.setitem(sys.modules, "engine.talker.fused.triton", triton_codes)
    monkeypatch.setattr(dispatch, "_has_triton", lambda: True)
    monkeypatch.setattr(dispatch, "persistent_codes", persistent_codes)
    monkeypatch.setattr(dispatch, "batched_codes", batched_codes)
    monkeypatch.setattr(dispatch, "CodePredictor", lambda *_, **__: None)
    monkeypatch.setattr(dispatch, "PlainResidualCodes", lambda *_: "plain torch")
    packed = random_weights(SMALL, dtype=torch.float32, **SIZES)
    monkeypatch.setattr(dispatch, "gather", lambda *_: packed)
    return errors


def select(rows, *, fp8=False):
    return residual_codes(Gpu, None, SimpleNamespace(tables=None), batch_sizes(rows), fp8=fp8)


def test_every_triton_launch_size_is_checked_at_startup(gpu, caplog):
    assert select(40).checked == list(batch_sizes(40))
    assert "not sampled by the batched kernel: no GPU of compute capability 9.0" in caplog.text


def test_batches_of_up_to_256_rows_use_the_batched_kernel_and_larger_ones_triton(gpu):
    gpu["batched"] = None
    assert select(40) == "batched for 1 to 40"
    both = select(512)
    assert both._small == "batched for 1 to 256"
    assert both._large.checked == [size for size in batch_sizes(512) if size > 256]


@pytest.mark.parametrize("error", [RuntimeError("Failed to find C compiler"), OutOfResources(147456, 101376)])
def test_if_triton_cannot_compile_plain_torch_is_used_and_the_reason_logged(gpu, caplog, error):
    gpu["triton"] = error
    assert select(40) == "plain torch"
    assert f"plain torch: {type(error).__name__}: {error}" in caplog.text


def test_if_triton_cannot_compile_small_batches_still_use_the_batched_kernel(gpu):
    gpu.update({"batched": None, "triton": RuntimeError("Failed to find C compiler")})
    assert select(256) == "batched for 1 to 256"
    both = select(257)
    assert (both._small, both._large) == ("batched for 1 to 256", "plain torch")


def test_fp8_uses_the_persistent_kernel_and_the_same_rounded_weights_for_larger_batches(gpu, monkeypatch, caplog):
    monkeypatch.setattr(dispatch, "round_to_fp8", lambda weights: replace(weights, norm=weights.norm + 1))
    checked_weights = []
    monkeypatch.setattr(dispatch, "self_check", lambda codes, rows, weights: checked_weights.append(weights))
    before = dispatch.gather()
    name, weights = select(40, fp8=True)._small
    assert name == "persistent with fp8"
    assert torch.equal(weights.norm, before.norm + 1)
    assert checked_weights == [weights] * sum(size > MAX_ROWS for size in batch_sizes(40))
    assert "sampled with fp8 weights" in caplog.text


@pytest.mark.parametrize("errors", [{"persistent": KernelError("no H200")}, {"triton": RuntimeError("no compiler")}])
def test_fp8_that_is_unavailable_fails_at_startup_with_the_reason(gpu, errors):
    gpu.update(errors)
    with pytest.raises(SetupError, match=r"fp8_predictor is not possible: .*no (H200|compiler)"):
        select(40, fp8=True)


@pytest.mark.parametrize("outlier", [3e4, float("nan"), float("inf")])
def test_fp8_weights_that_do_not_fit_one_scale_fail_at_startup(gpu, outlier):
    dispatch.gather().heads[-1, -1, -1] = outlier
    with pytest.raises(
        SetupError, match=r"fp8_predictor is not possible: with one scale .* error of \w+ is (\d+|nan)%"
    ):
        select(40, fp8=True)


def test_fp8_needs_a_gpu():
    talker = random_talker(SMALL, dtype=torch.float32, **SIZES)
    with pytest.raises(SetupError, match="there is no GPU"):
        residual_codes(*talker, [4], fp8=True)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), EngineFailed("the GPU is lost")])
def test_errors_that_plain_torch_would_not_avoid_are_raised(gpu, error):
    gpu["triton"] = error
    with pytest.raises(type(error)):
        select(40)


def test_a_kernel_that_fails_while_running_ends_the_engine(gpu, monkeypatch):
    def lost():
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    weights = random_weights(SMALL, dtype=torch.float32, **SIZES)
    with pytest.raises(EngineFailed, match="restart the engine process: CUDA error"):
        self_check(lambda *_: None, 2, weights)


def test_if_triton_cannot_compile_codebook_0_uses_plain_torch(monkeypatch, caplog):
    class Refused:
        def __init__(self, slots):
            pass

        def self_check(self):
            raise RuntimeError("Failed to find C compiler")

    module = ModuleType("first_codes")
    module.FusedFirstCodes = Refused
    monkeypatch.setitem(sys.modules, "engine.talker.fused.triton", module)
    monkeypatch.setattr(dispatch, "_has_triton", lambda: True)
    caplog.set_level(logging.INFO)
    slots = SimpleNamespace(seeds=SimpleNamespace(device=torch.device("cuda")))
    assert isinstance(first_code_sampler(slots), PlainFirstCodes)
    assert "codebook 0 is sampled in plain torch: RuntimeError: Failed to find C compiler" in caplog.text


def test_batches_are_dispatched_by_size():
    weights = random_weights(SMALL, dtype=torch.float32, **SIZES)

    def constant(mark):
        return lambda hidden, first, params, rng: (torch.full((len(hidden), 4), mark), hidden)

    codes = DispatchBySize(constant(1), 2, constant(2))
    assert [int(codes(**predictor_inputs(weights, rows))[0].max()) for rows in (1, 2, 3)] == [1, 1, 2]
