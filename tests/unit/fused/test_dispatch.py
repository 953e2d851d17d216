"""What draws a frame's codes where there is no GPU for the kernels, and how batches are shared out."""

import logging
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import torch

from engine.checkpoint.architecture import Transformer
from engine.errors import EngineFailed, SetupError
from engine.kernels.nvrtc import KernelError
from engine.talker.fused import dispatch as choice
from engine.talker.fused.dispatch import DispatchBySize, first_code_sampler, residual_codes, self_check
from engine.talker.fused.persistent import MAX_ROWS
from engine.talker.gpu_step.graphs import batch_sizes
from engine.talker.gpu_step.sampler import PlainFirstCodes, PlainResidualCodes
from engine.talker.gpu_step.slots import Slots
from tests.support.code_predictors import architecture, predictor_inputs, random_talker, random_weights

SMALL = Transformer(hidden=64, intermediate=96, layers=1, heads=2, kv_heads=1, head_dim=32, rope_theta=1e6, eps=1e-6)
SIZES = {"vocab": 64, "codebooks": 4, "talker_hidden": 64}


class OutOfResources(Exception):
    """As Triton's."""

    def __str__(self):
        return "out of resource: shared memory, Required: {}, Hardware limit: {}".format(*self.args)


def test_a_cpu_has_plain_torch_and_the_log_says_so(caplog):
    caplog.set_level(logging.INFO)
    made = random_talker(SMALL, dtype=torch.float32, **SIZES)
    assert isinstance(residual_codes(*made, [4]), PlainResidualCodes)
    assert "plain torch: there is no GPU" in caplog.text
    slots = Slots(4, 8, architecture(SMALL, **SIZES), text_pad=0, device=torch.device("cpu"), dtype=torch.float32)
    assert isinstance(first_code_sampler(slots), PlainFirstCodes)


class Gpu:
    """Weights that say so, where there is none."""

    device = torch.device("cuda")
    dtype = torch.bfloat16


@pytest.fixture
def gpu(monkeypatch, caplog):
    """A GPU with Triton whose kernels do as they are told: name -> an error, or None."""
    caplog.set_level(logging.INFO)
    told = {"persistent": None, "triton": None}

    class Codes:
        def __init__(self, weights, rows):
            self.tried = []

        def __call__(self, hidden, first, params, rng):
            if told["triton"] is not None:
                raise told["triton"]
            self.tried.append(len(hidden))

    def persistent_codes(weights, batches, *, fp8=False):
        if told["persistent"] is not None:
            raise told["persistent"]
        return ("persistent with fp8", weights) if fp8 else "persistent"

    triton_codes = ModuleType("triton_codes")
    triton_codes.TritonCodes, triton_codes.unsupported = Codes, lambda weights: None
    monkeypatch.setitem(sys.modules, "engine.talker.fused.triton", triton_codes)
    monkeypatch.setattr(choice, "_has_triton", lambda: True)
    monkeypatch.setattr(choice, "persistent_codes", persistent_codes)
    monkeypatch.setattr(choice, "CodePredictor", lambda *_, **__: None)
    monkeypatch.setattr(choice, "PlainResidualCodes", lambda *_: "plain torch")
    packed = random_weights(SMALL, dtype=torch.float32, **SIZES)
    monkeypatch.setattr(choice, "gather", lambda *_: packed)
    return told


def chosen(rows, *, fp8=False):
    return residual_codes(Gpu, None, SimpleNamespace(tables=None), batch_sizes(rows), fp8=fp8)


def test_every_size_of_tritons_launches_runs_once_at_the_start(gpu):
    gpu["persistent"] = KernelError("no GPU of compute capability 9.0")
    assert chosen(40).tried == list(batch_sizes(40))
    gpu["persistent"] = None
    assert chosen(40)._large.tried == [size for size in batch_sizes(40) if size > MAX_ROWS]


@pytest.mark.parametrize("error", [RuntimeError("Failed to find C compiler"), OutOfResources(147456, 101376)])
def test_where_triton_compiles_nothing_plain_torch_draws_and_the_log_says_why(gpu, caplog, error):
    gpu.update({"persistent": KernelError("no GPU of compute capability 9.0"), "triton": error})
    assert chosen(40) == "plain torch"
    assert f"plain torch: {type(error).__name__}: {error}" in caplog.text


def test_where_only_triton_compiles_nothing_small_batches_are_one_launch_still(gpu):
    gpu["triton"] = RuntimeError("Failed to find C compiler")
    assert chosen(16) == "persistent"
    both = chosen(40)
    assert (both._small, both._large) == ("persistent", "plain torch")


def test_eight_bits_are_read_by_one_launch_and_larger_batches_have_the_same_weights(gpu, monkeypatch, caplog):
    monkeypatch.setattr(choice, "round_to_fp8", lambda weights: replace(weights, norm=weights.norm + 1))
    given = []
    monkeypatch.setattr(choice, "self_check", lambda codes, rows, weights: given.append(weights))
    before = choice.gather()
    name, weights = chosen(40, fp8=True)._small
    assert name == "persistent with fp8"
    assert torch.equal(weights.norm, before.norm + 1)
    assert given == [weights] * sum(size > MAX_ROWS for size in batch_sizes(40))
    assert "sampled with fp8 weights" in caplog.text


@pytest.mark.parametrize("made_of", [{"persistent": KernelError("no H200")}, {"triton": RuntimeError("no compiler")}])
def test_where_eight_bits_cannot_be_the_start_ends_with_the_reason(gpu, made_of):
    gpu.update(made_of)
    with pytest.raises(SetupError, match=r"fp8_predictor is not possible: .*no (H200|compiler)"):
        chosen(40, fp8=True)


@pytest.mark.parametrize("spoilt", [3e4, float("nan"), float("inf")])
def test_weights_that_one_scale_does_not_fit_end_the_start(gpu, spoilt):
    choice.gather().heads[-1, -1, -1] = spoilt
    with pytest.raises(
        SetupError, match=r"fp8_predictor is not possible: with one scale .* error of \w+ is (\d+|nan)%"
    ):
        chosen(40, fp8=True)


def test_eight_bits_need_a_gpu():
    made = random_talker(SMALL, dtype=torch.float32, **SIZES)
    with pytest.raises(SetupError, match="there is no GPU"):
        residual_codes(*made, [4], fp8=True)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), EngineFailed("the GPU is lost")])
def test_what_plain_torch_would_meet_too_is_raised(gpu, error):
    gpu.update({"persistent": KernelError("no GPU of compute capability 9.0"), "triton": error})
    with pytest.raises(type(error)):
        chosen(40)


def test_a_kernel_that_fails_while_it_runs_ends_the_engine(gpu, monkeypatch):
    def lost():
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    weights = random_weights(SMALL, dtype=torch.float32, **SIZES)
    with pytest.raises(EngineFailed, match="restart the engine process: CUDA error"):
        self_check(lambda *_: None, 2, weights)


def test_where_triton_compiles_nothing_codebook_0_is_drawn_in_plain_torch(monkeypatch, caplog):
    class Refused:
        def __init__(self, slots):
            pass

        def self_check(self):
            raise RuntimeError("Failed to find C compiler")

    module = ModuleType("first_codes")
    module.FusedFirstCodes = Refused
    monkeypatch.setitem(sys.modules, "engine.talker.fused.triton", module)
    monkeypatch.setattr(choice, "_has_triton", lambda: True)
    caplog.set_level(logging.INFO)
    slots = SimpleNamespace(seeds=SimpleNamespace(device=torch.device("cuda")))
    assert isinstance(first_code_sampler(slots), PlainFirstCodes)
    assert "codebook 0 is sampled in plain torch: RuntimeError: Failed to find C compiler" in caplog.text


def test_batches_up_to_a_limit_have_codes_of_their_own():
    weights = random_weights(SMALL, dtype=torch.float32, **SIZES)

    def marked(mark):
        return lambda hidden, first, params, rng: (torch.full((len(hidden), 4), mark), hidden)

    codes = DispatchBySize(marked(1), 2, marked(2))
    assert [int(codes(**predictor_inputs(weights, rows))[0].max()) for rows in (1, 2, 3)] == [1, 1, 2]
