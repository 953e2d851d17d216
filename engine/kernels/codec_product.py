"""Every product of Code2Wav on a GPU in one Triton launch: causal convolution or linear layer, and what follows it.

Columns of a stream lie one after another, channels innermost, and before them what the layer remembers of the stream.
Then a causal convolution is a matrix product whose rows overlap in memory: nothing is copied to run it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.triton_parts import rounded

NOTHING: tl.constexpr = tl.constexpr(0)
SNAKE: tl.constexpr = tl.constexpr(1)
GELU: tl.constexpr = tl.constexpr(2)


@triton.jit
def sine_squared(x):
    """sin(x)^2 in float32, by reduction to half a period: within 1e-6 as far as x itself is exact, and at most 1."""
    turns = tl.floor(x * 0.3183098861837907 + 0.5)
    rest = (x - turns * 3.140625) - turns * 9.6765358979311599796e-4
    z = rest * rest
    p = -2.505210838544172e-8
    p = p * z + 2.755731922398589e-6
    p = p * z - 1.984126984126984e-4
    p = p * z + 8.333333333333333e-3
    p = p * z - 1.666666666666667e-1
    sine = rest + rest * z * p
    return tl.minimum(sine * sine, 1.0)


@triton.jit
def activated(y, n, inside, frequency_ptr, gain_ptr, ACTIVATION: tl.constexpr):
    """SnakeBeta or GELU of y [BM, BN], whose columns are n."""
    if ACTIVATION == SNAKE:
        frequency = tl.load(frequency_ptr + n, mask=inside, other=0.0)
        gain = tl.load(gain_ptr + n, mask=inside, other=0.0)
        y += sine_squared(y * frequency[None, :]) * gain[None, :]
    if ACTIVATION == GELU:
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    return y


@triton.jit(do_not_specialize=["dilation", "length", "rows"])
def causal_product(
    x_ptr, w_ptr, bias_ptr, scale_ptr, residual_ptr, raw_ptr, act_ptr, frequency_ptr, gain_ptr,
    rows, length, N, K, inputs, dilation, x_stream, residual_stream, raw_stream, act_stream,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr, SCALE: tl.constexpr,
    RESIDUAL: tl.constexpr, RAW: tl.constexpr, ACT: tl.constexpr, ACTIVATION: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = x W + bias, then scaled and added to a residual, kept as it is (RAW), activated (ACT), or both.

    x: [streams, length + history, inputs]; w: [K = taps * inputs, N]; y: [streams, length, N], rows of N elements;
    *_stream: elements from a stream to the next; rows: streams * length.
    """
    blocks = tl.cdiv(N, BN)
    at = tl.program_id(0)
    n = (at % blocks) * BN + tl.arange(0, BN)
    m = (at // blocks) * BM + tl.arange(0, BM)
    inside = n < N
    used = m < rows
    row = tl.minimum(m, rows - 1)
    stream, column = row // length, row % length
    x_rows = x_ptr + (stream * x_stream + column * inputs)[:, None]
    w_columns = w_ptr + (n % N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        offsets = (k // inputs) * (dilation * inputs) + k % inputs
        if EVEN:
            a = tl.load(x_rows + offsets[None, :])
            b = tl.load(w_columns + k[:, None] * N)
        else:
            a = tl.load(x_rows + offsets[None, :], mask=k[None, :] < K, other=0.0)
            b = tl.load(w_columns + k[:, None] * N, mask=k[:, None] < K, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    y = total + tl.load(bias_ptr + n, mask=inside, other=0.0)[None, :]
    shown = used[:, None] & inside[None, :]
    if SCALE:
        y *= tl.load(scale_ptr + n, mask=inside, other=0.0)[None, :]
    if RESIDUAL:
        place = (stream * residual_stream + column * N)[:, None] + n[None, :]
        y += tl.load(residual_ptr + place, mask=shown, other=0.0).to(tl.float32)
    if RAW:
        place = (stream * raw_stream + column * N)[:, None] + n[None, :]
        tl.store(raw_ptr + place, rounded(y, raw_ptr), mask=shown)
    if ACT:
        place = (stream * act_stream + column * N)[:, None] + n[None, :]
        y = activated(y, n, inside, frequency_ptr, gain_ptr, ACTIVATION)
        tl.store(act_ptr + place, rounded(y, act_ptr), mask=shown)
