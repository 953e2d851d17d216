"""Convolutions with 16-bit integers equal those in float32 except for rounding, with every instruction set."""

import numpy as np
import pytest
import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from engine.kernels.compiled.convolution import ACTIVATION_LIMIT, TAP_LIMIT
from engine.kernels.compiled.integer_dots import PAIR_DOTS, cpu_features
from engine.kernels.compiled.simd import I32, load_f32, sine_squared, store_f32, to_f32
from engine.models.code2wav_blocks import SnakeBeta, StreamConv, StreamState
from engine.models.compiled_convolutions import CompiledConvolutions, Convolution, _rounded
from engine.models.weights import Weights

CPU = torch.device("cpu")
NEEDED = {"avx512vnni": {"avx512bw", "avx512vnni"}, "avx512": {"avx512bw"}, "avx2": {"avx2"}, "generic": set()}


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def decibels(approximate, exact):
    return 20 * torch.log10(exact.norm() / (approximate - exact).norm()).item()


def run(stage, x):
    state = StreamState([torch.zeros((len(x), *each.shape), dtype=each.dtype) for each in stage.states])
    return stage(x, state)


def snake(channels):
    tensors = {"snake.alpha": normal(channels, seed=3), "snake.beta": normal(channels, seed=4)}
    return SnakeBeta(Weights(tensors, CPU, torch.float32), "snake")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("activated", [False, True])
@pytest.mark.parametrize(("inputs", "taps", "dilation"), [(96, 7, 9), (72, 7, 1), (1536, 2, 1), (32, 1, 1)])
def test_a_convolution_equals_the_one_in_float32(inputs, taps, dilation, activated, threads):
    weight, bias = normal(1, inputs, taps, seed=1), normal(1, seed=2)
    activation = snake(inputs) if activated else None
    exact = StreamConv(weight, bias, columns=16, dilation=dilation, activation=activation)
    compiled = CompiledConvolutions([Convolution(weight, bias, activation, dilation)], threads)
    x = 5 * normal(2, 21, inputs)
    assert decibels(run(compiled, x), run(exact, x)) > 60


def test_threads_chunks_and_batches_do_not_change_the_result():
    wide = Convolution(normal(400, 40, 7) / 17, normal(400), snake(40), dilation=3)
    upsampling = Convolution(normal(2 * 24, 400, 2) / 28, normal(2 * 24), snake(400), rate=2)
    inner = Convolution(normal(24, 24, 3) / 8, normal(24))
    outer = Convolution(normal(24, 24, 1) / 5, normal(24), snake(24), adds=True)
    x = normal(3, 22, 40)
    whole = run(CompiledConvolutions([wide, upsampling, inner, outer], 1), x)
    assert whole.shape == (3, 44, 24)
    for threads in (1, 2, 3):
        stage = CompiledConvolutions([wide, upsampling, inner, outer], threads)
        for columns in (22, 4, 1):
            state = [torch.zeros((3, *each.shape), dtype=each.dtype) for each in stage.states]
            pieces = []
            for chunk in x.split(columns, 1):
                stream_state = StreamState(state)
                pieces.append(stage(chunk, stream_state))
                state = stream_state.next
            assert torch.equal(torch.cat(pieces, 1), whole)
        assert torch.equal(run(stage, x[1:2]), whole[1:2])


def test_a_convolution_that_adds_uses_the_input_of_the_one_before_it():
    weight, zeros = normal(16, 16, 1), torch.zeros(16)
    nothing = Convolution(torch.zeros(16, 16, 1), zeros)
    x = normal(1, 5, 16)
    y = run(CompiledConvolutions([Convolution(weight, zeros), nothing, Convolution(weight, zeros, adds=True)], 1), x)
    assert decibels(y, x @ weight[:, :, 0].T) > 60


def test_the_largest_sums_of_products_do_not_overflow():
    weight = torch.ones(1, 1536, 1)
    compiled = CompiledConvolutions([Convolution(weight, torch.zeros(1))], 1)
    x = torch.ones(1, 9, 1536)
    assert torch.allclose(run(compiled, x), torch.full((1, 9, 1), 1536.0), rtol=1e-3)
    assert torch.allclose(run(compiled, -x), torch.full((1, 9, 1), -1536.0), rtol=1e-3)
    assert ACTIVATION_LIMIT * TAP_LIMIT < 2**31


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_column_that_is_not_finite_makes_the_output_nan(value):
    compiled = CompiledConvolutions([Convolution(normal(1, 32, 3), torch.zeros(1))], 1)
    x = normal(1, 12, 32)
    x[0, 4, 7] = value
    assert run(compiled, x).isnan().nonzero()[:, 1].tolist() == [4, 5, 6]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_makes_its_output_not_finite(value):
    weight = normal(4, 32, 3)
    weight[2, 7, 1] = value
    convolution = Convolution(weight, torch.zeros(4))
    assert _rounded(convolution)[1].isfinite()[:4].tolist() == [True, True, False, True]
    finite = run(CompiledConvolutions([convolution], 1), normal(1, 12, 32)).isfinite()
    assert finite.sum((0, 1)).tolist() == [12, 12, 0, 12]


def test_columns_of_zeros_stay_zero():
    compiled = CompiledConvolutions([Convolution(normal(1, 32, 3), torch.zeros(1))], 1)
    assert not run(compiled, torch.zeros(1, 12, 32)).any()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            each, marks=pytest.mark.skipif(not NEEDED[each] <= cpu_features(), reason=f"this CPU has no {each}")
        )
        for each in PAIR_DOTS
    ],
)
def test_every_instruction_set_gives_the_exact_product(name):
    @intrinsic
    def product(context, weights, pair):
        def generate(context, builder, signature, args):
            activations = builder.load(builder.inttoptr(args[1], ir.IntType(32).as_pointer()), align=1)
            return PAIR_DOTS[name](builder, ir.Constant(I32.llvm, [5] * 16), args[0], activations)

        return I32(types.intp, types.intp), generate

    @njit
    def store(weights, pair, out):
        store_f32(out, to_f32(product(weights, pair)))

    generator = np.random.default_rng(0)
    weights = generator.integers(-32_767, 32_768, (16, 2)).astype(np.int16)
    weights[0], weights[1] = 32_767, -32_767
    pair, out = np.array([ACTIVATION_LIMIT, -ACTIVATION_LIMIT], np.int16), np.empty(16, np.float32)
    store(weights.ctypes.data, pair.ctypes.data, out.ctypes.data)
    exact = 5 + weights.astype(np.int64) @ pair.astype(np.int64)
    assert np.array_equal(out, exact.astype(np.float32))


def test_the_square_of_the_sine_is_accurate():
    @njit
    def squares(x, out):
        for offset in range(0, 4 * len(x), 64):
            store_f32(out.ctypes.data + offset, sine_squared(load_f32(x.ctypes.data + offset)))

    x = np.concatenate([np.linspace(-10, 10, 4096), np.linspace(-1e4, 1e4, 4096)]).astype(np.float32)
    out = np.empty_like(x)
    squares(x, out)
    assert np.abs(out - np.sin(x.astype(np.float64)) ** 2).max() < 2**-21
