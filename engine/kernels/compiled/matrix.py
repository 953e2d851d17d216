"""Weight matrices in tiles of 16 outputs, and their products with a few rows.

A product reads every weight once. Each lane of a vector is one output, so the sums need no horizontal additions. A row
has the same bits alone and beside other rows: the order of its sums does not depend on them.
"""

from __future__ import annotations

from numba import njit

from engine.kernels.compiled import CACHE
from engine.kernels.compiled.integer_dots import (
    INT4_GROUP_BYTES,
    INT8_GROUP_BYTES,
    int4_dots,
    int8_dot,
    int8_dot_four,
)
from engine.kernels.compiled.simd import (
    LANES,
    absolute,
    add,
    div,
    exp,
    fma,
    high_bf16,
    largest,
    load_bf16,
    load_f32,
    load_i32,
    load_splat,
    low_bf16,
    maximum,
    mul,
    splat,
    store_f32,
    store_i8,
    store_i16,
    to_f32,
    to_nearest,
    total,
)
from engine.kernels.quantization import GROUP

FLOAT, INT8, INT4, BFLOAT16 = 0, 1, 2, 3
"""The formats of a matrix: float32, or integers with float32 scales per output, or with bfloat16 scales and offsets per
group of 32 inputs, or bfloat16, of which a word of 32 bits has the weights of two neighboring inputs."""
INT4_LIMIT, INT8_LIMIT = 127, 16_383
"""Largest activations as integers. They have a scale for each group of 32."""
_LINE = 4 * LANES
_SCALES_BYTES = 2 * LANES

_int4_dot, _int4_dot_four = int4_dots()


@njit(nogil=True, cache=CACHE)
def normalize(x, width, weight, epsilon, y):
    """RMSNorm of a row (SPEC 2). Arrays have a multiple of 16 values, those after ``width`` are zero."""
    source, gain, target = x.ctypes.data, weight.ctypes.data, y.ctypes.data
    squares = splat(0.0)
    for offset in range(0, 4 * len(x), _LINE):
        value = load_f32(source + offset)
        squares = fma(value, value, squares)
    factor = splat(1 / (total(squares) / width + epsilon) ** 0.5)
    for offset in range(0, 4 * len(x), _LINE):
        store_f32(target + offset, mul(mul(load_f32(source + offset), factor), load_f32(gain + offset)))


@njit(nogil=True, cache=CACHE)
def quantize(x, codes, scales, sums, kind):
    """Round a row float32 [32 * groups] to integers with a scale for each group.

    codes: address of int8 or int16 [32 * groups], for a matrix of format ``kind``. scales: float32 [groups]. sums: the
    sums of the rounded values, float32 [groups].
    """
    limit = INT4_LIMIT if kind == INT4 else INT8_LIMIT
    source = x.ctypes.data
    for group in range(len(x) // GROUP):
        low, high = load_f32(source + 2 * _LINE * group), load_f32(source + 2 * _LINE * group + _LINE)
        peak = largest(maximum(absolute(low), absolute(high)))
        factor = splat(limit / peak if peak > 0 else 0.0)
        low_codes, high_codes = to_nearest(mul(low, factor)), to_nearest(mul(high, factor))
        if kind == INT4:
            store_i8(codes + GROUP * group, low_codes)
            store_i8(codes + GROUP * group + LANES, high_codes)
        else:
            store_i16(codes + 2 * GROUP * group, low_codes)
            store_i16(codes + 2 * GROUP * group + 2 * LANES, high_codes)
        scale = peak / limit
        scales[group] = scale
        sums[group] = scale * total(add(to_f32(low_codes), to_f32(high_codes)))


@njit(nogil=True, cache=CACHE)
def _scaled(dot, scale, offset, activation_scale, activation_sum, sums):
    """Add a group's part of the product with weights ``scale * code + offset``. The dot is of codes + 8."""
    sums = fma(to_f32(dot), mul(scale, activation_scale), sums)
    return fma(fma(splat(-8.0), scale, offset), activation_sum, sums)


@njit(nogil=True, cache=CACHE)
def tile_int4(matrix, tile, codes, scales, sums, first, rows, out):
    """Multiply one tile with ``rows`` rows from ``first`` on. rows: 1 to 4. out: address of float32 [rows, 16]."""
    groups = matrix.groups
    start = matrix.weights + tile * groups * INT4_GROUP_BYTES
    weight_scales = matrix.scales + tile * groups * _SCALES_BYTES
    offsets = matrix.offsets + tile * groups * _SCALES_BYTES
    width = groups * GROUP
    if rows < 4:
        for row in range(rows):
            y = splat(0.0)
            for group in range(groups):
                dot = _int4_dot(start + INT4_GROUP_BYTES * group, codes + (first + row) * width + GROUP * group)
                scale = load_bf16(weight_scales + _SCALES_BYTES * group)
                offset = load_bf16(offsets + _SCALES_BYTES * group)
                y = _scaled(dot, scale, offset, splat(scales[first + row, group]), splat(sums[first + row, group]), y)
            store_f32(out + _LINE * row, y)
        return
    weights, a0 = start, codes + first * width
    a1, a2, a3 = a0 + width, a0 + 2 * width, a0 + 3 * width
    y0 = y1 = y2 = y3 = splat(0.0)
    for group in range(groups):
        inputs = GROUP * group
        d0, d1, d2, d3 = _int4_dot_four(weights, a0 + inputs, a1 + inputs, a2 + inputs, a3 + inputs)
        scale, offset = load_bf16(weight_scales), load_bf16(offsets)
        y0 = _scaled(d0, scale, offset, splat(scales[first, group]), splat(sums[first, group]), y0)
        y1 = _scaled(d1, scale, offset, splat(scales[first + 1, group]), splat(sums[first + 1, group]), y1)
        y2 = _scaled(d2, scale, offset, splat(scales[first + 2, group]), splat(sums[first + 2, group]), y2)
        y3 = _scaled(d3, scale, offset, splat(scales[first + 3, group]), splat(sums[first + 3, group]), y3)
        weights += INT4_GROUP_BYTES
        weight_scales += _SCALES_BYTES
        offsets += _SCALES_BYTES
    store_f32(out, y0)
    store_f32(out + _LINE, y1)
    store_f32(out + 2 * _LINE, y2)
    store_f32(out + 3 * _LINE, y3)


@njit(nogil=True, cache=CACHE)
def tile_int8(matrix, tile, codes, scales, first, rows, out):
    """Multiply one tile with ``rows`` rows from ``first`` on. rows: 1 to 4. out: address of float32 [rows, 16]."""
    groups = matrix.groups
    start = matrix.weights + tile * groups * INT8_GROUP_BYTES
    scale = load_f32(matrix.scales + tile * _LINE)
    width = 2 * groups * GROUP
    if rows < 4:
        for row in range(rows):
            y = splat(0.0)
            for group in range(groups):
                dot = int8_dot(start + INT8_GROUP_BYTES * group, codes + (first + row) * width + 2 * GROUP * group)
                y = fma(to_f32(dot), splat(scales[first + row, group]), y)
            store_f32(out + _LINE * row, mul(y, scale))
        return
    weights, a0 = start, codes + first * width
    a1, a2, a3 = a0 + width, a0 + 2 * width, a0 + 3 * width
    y0 = y1 = y2 = y3 = splat(0.0)
    for group in range(groups):
        inputs = 2 * GROUP * group
        d0, d1, d2, d3 = int8_dot_four(weights, a0 + inputs, a1 + inputs, a2 + inputs, a3 + inputs)
        y0 = fma(to_f32(d0), splat(scales[first, group]), y0)
        y1 = fma(to_f32(d1), splat(scales[first + 1, group]), y1)
        y2 = fma(to_f32(d2), splat(scales[first + 2, group]), y2)
        y3 = fma(to_f32(d3), splat(scales[first + 3, group]), y3)
        weights += INT8_GROUP_BYTES
    store_f32(out, mul(y0, scale))
    store_f32(out + _LINE, mul(y1, scale))
    store_f32(out + 2 * _LINE, mul(y2, scale))
    store_f32(out + 3 * _LINE, mul(y3, scale))


@njit(nogil=True, cache=CACHE)
def tile_float(matrix, tile, x, first, rows, out):
    """Multiply one tile with ``rows`` rows from ``first`` on. rows: 1 to 4. out: address of float32 [rows, 16]."""
    inputs = matrix.groups * GROUP
    start = matrix.weights + tile * inputs * _LINE
    for row in range(0, rows - 1, 2):
        weights, a, b = start, x[first + row].ctypes.data, x[first + row + 1].ctypes.data
        y0 = y1 = z0 = z1 = splat(0.0)
        for _ in range(inputs // 2):
            even, odd = load_f32(weights), load_f32(weights + _LINE)
            y0, y1 = fma(even, load_splat(a), y0), fma(odd, load_splat(a + 4), y1)
            z0, z1 = fma(even, load_splat(b), z0), fma(odd, load_splat(b + 4), z1)
            weights, a, b = weights + 2 * _LINE, a + 8, b + 8
        store_f32(out + _LINE * row, add(y0, y1))
        store_f32(out + _LINE * (row + 1), add(z0, z1))
    if rows % 2:
        weights, a = start, x[first + rows - 1].ctypes.data
        y0 = y1 = splat(0.0)
        for _ in range(inputs // 2):
            y0 = fma(load_f32(weights), load_splat(a), y0)
            y1 = fma(load_f32(weights + _LINE), load_splat(a + 4), y1)
            weights, a = weights + 2 * _LINE, a + 8
        store_f32(out + _LINE * (rows - 1), add(y0, y1))


@njit(nogil=True, cache=CACHE)
def tile_bfloat16(matrix, tile, x, first, rows, out):
    """Multiply one tile with ``rows`` rows from ``first`` on. rows: 1 to 4. out: address of float32 [rows, 16]."""
    pairs = matrix.groups * GROUP // 2
    start = matrix.weights + tile * pairs * _LINE
    for row in range(0, rows - 1, 2):
        weights, a, b = start, x[first + row].ctypes.data, x[first + row + 1].ctypes.data
        y0 = y1 = z0 = z1 = splat(0.0)
        for _ in range(pairs):
            pair = load_i32(weights)
            even, odd = low_bf16(pair), high_bf16(pair)
            y0, y1 = fma(even, load_splat(a), y0), fma(odd, load_splat(a + 4), y1)
            z0, z1 = fma(even, load_splat(b), z0), fma(odd, load_splat(b + 4), z1)
            weights, a, b = weights + _LINE, a + 8, b + 8
        store_f32(out + _LINE * row, add(y0, y1))
        store_f32(out + _LINE * (row + 1), add(z0, z1))
    if rows % 2:
        weights, a = start, x[first + rows - 1].ctypes.data
        y0 = y1 = splat(0.0)
        for _ in range(pairs):
            pair = load_i32(weights)
            y0 = fma(low_bf16(pair), load_splat(a), y0)
            y1 = fma(high_bf16(pair), load_splat(a + 4), y1)
            weights, a = weights + _LINE, a + 8
        store_f32(out + _LINE * (rows - 1), add(y0, y1))


@njit(nogil=True, cache=CACHE)
def tile_product(matrix, tile, x, codes, scales, sums, first, rows, out):
    """Multiply one tile of a matrix with ``rows`` rows from ``first`` on. rows: 1 to 4."""
    if matrix.kind == INT4:
        tile_int4(matrix, tile, codes, scales, sums, first, rows, out)
    elif matrix.kind == INT8:
        tile_int8(matrix, tile, codes, scales, first, rows, out)
    elif matrix.kind == BFLOAT16:
        tile_bfloat16(matrix, tile, x, first, rows, out)
    else:
        tile_float(matrix, tile, x, first, rows, out)


@njit(nogil=True, cache=CACHE)
def prepare(matrix, x, codes, scales, sums):
    """Round rows x float32 [rows, 32 * groups] for a product with ``matrix``."""
    if matrix.kind in (FLOAT, BFLOAT16):
        return
    width = matrix.groups * GROUP * (1 if matrix.kind == INT4 else 2)
    for row in range(len(x)):
        quantize(x[row, : matrix.groups * GROUP], codes + row * width, scales[row], sums[row], matrix.kind)


@njit(nogil=True, cache=CACHE)
def product(matrix, x, y, adds, me, size, codes, scales, sums, out):
    """Multiply all rows with the tiles of thread ``me`` of ``size``: y[:, outputs] = or += the product.

    adds: whether to add to y. codes, scales, sums, out: scratch of the thread (``Buffers``).
    """
    prepare(matrix, x, codes, scales, sums)
    rows, results = len(x), out[0].ctypes.data
    for tile in range(matrix.tiles * me // size, matrix.tiles * (me + 1) // size):
        for first in range(0, rows, 4):
            count = min(4, rows - first)
            tile_product(matrix, tile, x, codes, scales, sums, first, count, results)
            for row in range(count):
                target = y[first + row].ctypes.data + _LINE * tile
                value = load_f32(results + _LINE * row)
                store_f32(target, add(load_f32(target), value) if adds else value)


@njit(nogil=True, cache=CACHE)
def gated_product(matrix, x, y, me, size, codes, scales, sums, out):
    """Multiply all rows with pairs of tiles, gate and up: y[:, outputs] = silu(gate) * up. See ``product``."""
    prepare(matrix, x, codes, scales, sums)
    rows, pairs, one = len(x), matrix.tiles // 2, splat(1.0)
    gates, ups = out[0].ctypes.data, out[1].ctypes.data
    for pair in range(pairs * me // size, pairs * (me + 1) // size):
        for first in range(0, rows, 4):
            count = min(4, rows - first)
            tile_product(matrix, 2 * pair, x, codes, scales, sums, first, count, gates)
            tile_product(matrix, 2 * pair + 1, x, codes, scales, sums, first, count, ups)
            for row in range(count):
                gate, up = load_f32(gates + _LINE * row), load_f32(ups + _LINE * row)
                silu = div(gate, add(one, exp(mul(gate, splat(-1.0)))))
                store_f32(y[first + row].ctypes.data + _LINE * pair, mul(silu, up))
