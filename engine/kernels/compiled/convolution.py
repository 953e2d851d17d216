"""Causal convolutions with 16-bit integers, each with the activation before it (SPEC 9).

A column of the input is rounded to integers with a scale of its own, so a column has the same bits in every chunk. The
products of a tap are summed as integers, which is exact: the weights are so small that no sum exceeds 32 bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from engine.kernels.compiled import CACHE
from engine.kernels.compiled.arrays import copy
from engine.kernels.compiled.integer_dots import PAIR_DOTS, cpu_features, pair_instructions
from engine.kernels.compiled.simd import (
    F32,
    I32,
    LANES,
    absolute,
    call,
    constant,
    fill,
    fma,
    largest,
    load,
    load_f32,
    maximum,
    mul,
    sine_squared,
    splat,
    store_f32,
    store_i16,
    to_nearest,
    total,
)
from engine.kernels.compiled.team import wait

ACTIVATION_LIMIT = 4095
"""Largest activation as an integer. It takes 13 bits with its sign, so that the weights may take 11 to 15."""
WEIGHT_LIMIT = 32_767
"""Largest weight as an integer."""
TAP_LIMIT = (2**31 - 1) // ACTIVATION_LIMIT
"""Largest sum of the absolute weights of an output and a tap."""
_FIELDS = ("weights", "scales", "bias", "frequency", "gain", "inputs", "tiles", "taps", "dilation", "adds")
CONVOLUTION = np.dtype([(name, np.int64) for name in _FIELDS], align=True)
"""A convolution.

weights: address of int16 [tiles, taps, inputs / 2, 16, 2]. scales, bias: addresses of float32 [16 * tiles]. frequency,
gain: addresses of float32 [inputs], of the activation (see ``sine_squared``); 0 if there is none. inputs: channels, a
multiple of 16. tiles: of 16 outputs. adds: whether it adds to what its target has.
"""
_INSTRUCTIONS = pair_instructions(cpu_features())
_ROWS = 8 if _INSTRUCTIONS.startswith("avx512") else 4
"""Columns of a block. Their sums of 16 outputs fill most of the vector registers."""
_MIN_TILES = 8
"""Minimum tiles per thread for which the threads divide the outputs. Below it they divide the columns."""
_LINE = 4 * LANES
_emit_pair = PAIR_DOTS[_INSTRUCTIONS]


@intrinsic
def _multiply(context, sums, weights, codes, stride):
    """Add the products of two inputs of several columns to their sums.

    sums: tuple of int32 [16], one for each column. weights: address of int16 [16, 2]. codes: address of the inputs of
    the first column. stride: bytes from one column to the next.
    """

    def generate(context, builder, signature, args):
        result = []
        address = args[2]
        for index in range(signature.args[0].count):
            if index:
                address = builder.add(address, args[3])
            pair = load(builder, address, ir.IntType(32))
            result.append(_emit_pair(builder, builder.extract_value(args[0], index), args[1], pair))
        return context.make_tuple(builder, signature.return_type, result)

    return sums(sums, types.intp, types.intp, types.intp), generate


@intrinsic
def _accumulate(context, values, sums, scales):
    """Add the sums of several columns, each times its scale. scales: address of float32 [columns]."""

    def generate(context, builder, signature, args):
        result = []
        for index in range(signature.args[0].count):
            scale = fill(builder, load(builder, args[2], ir.FloatType(), 4 * index))
            product = builder.sitofp(builder.extract_value(args[1], index), F32.llvm)
            added = call(builder, "llvm.fma.v16f32", F32.llvm, product, scale, builder.extract_value(args[0], index))
            result.append(added)
        return context.make_tuple(builder, signature.return_type, result)

    return values(values, sums, types.intp), generate


def _zeros(element, rows):
    @intrinsic
    def define(context):
        kind = types.UniTuple(element, rows)

        def generate(context, builder, signature, args):
            return context.make_tuple(builder, kind, [constant(element.llvm, 0)] * rows)

        return kind(), generate

    return define


_zero_sums_block, _zero_sums_single = _zeros(I32, _ROWS), _zeros(I32, 1)
_zero_values_block, _zero_values_single = _zeros(F32, _ROWS), _zeros(F32, 1)


@intrinsic
def _finish(context, values, scales, bias, target, stride, adds):
    """Store values * scales + bias of several columns, added to what the target has if ``adds``.

    scales, bias: addresses of float32 [16]. target: address of the first column's outputs. stride: bytes from one
    column to the next.
    """

    def generate(context, builder, signature, args):
        values, scales, bias, target, stride, adds = args
        scale, offset = load(builder, scales, F32.llvm), load(builder, bias, F32.llvm)
        for index in range(signature.args[0].count):
            if index:
                target = builder.add(target, stride)
            value = builder.extract_value(values, index)
            value = call(builder, "llvm.fma.v16f32", F32.llvm, value, scale, offset)
            more = builder.fadd(value, load(builder, target, F32.llvm))
            result = builder.select(adds, more, value)
            builder.store(result, builder.inttoptr(target, F32.llvm.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(values, *[types.intp] * 4, types.boolean), generate


@njit(nogil=True, cache=CACHE)
def _compute_block(conv, tile, first, codes, scales, target, values, sums):
    """Compute 16 outputs of several columns, from column ``first`` on.

    codes: address of int16, the inputs of column 0's first tap. scales: address of their float32 scale. target: address
    of the outputs of column 0. values, sums: tuples of zeros, a vector for each column.
    """
    width, stride = 2 * conv.inputs, conv.tiles * _LINE
    pairs = conv.inputs // 2
    weights = conv.weights + tile * conv.taps * pairs * _LINE
    for tap in range(conv.taps):
        products = sums
        column = first + tap * conv.dilation
        address = codes + column * width
        for _pair in range(pairs):
            products = _multiply(products, weights, address, width)
            weights += _LINE
            address += 4
        values = _accumulate(values, products, scales + 4 * column)
    offset = tile * _LINE
    outputs = target + first * stride + offset
    _finish(values, conv.scales + offset, conv.bias + offset, outputs, stride, conv.adds != 0)


@njit(nogil=True, cache=CACHE)
def _convolve(conv, tile, first, last, codes, scales, target):
    """Compute 16 outputs of columns ``first`` to ``last`` - 1. codes, scales, target: see ``_compute_block``."""
    while last - first >= _ROWS:
        _compute_block(conv, tile, first, codes, scales, target, _zero_values_block(), _zero_sums_block())
        first += _ROWS
    while first < last:
        _compute_block(conv, tile, first, codes, scales, target, _zero_values_single(), _zero_sums_single())
        first += 1


@njit(nogil=True, cache=CACHE)
def _quantize(conv, x, codes, scratch):
    """Round a column float32 [inputs] after the activation. Returns its scale: NaN if a value is infinite or NaN.

    x, codes, scratch: addresses.
    """
    size = 4 * conv.inputs
    peaks = nans = zero = splat(0.0)
    if conv.frequency:
        for offset in range(0, size, _LINE):
            value = load_f32(x + offset)
            wave = sine_squared(mul(value, load_f32(conv.frequency + offset)))
            value = fma(wave, load_f32(conv.gain + offset), value)
            store_f32(scratch + offset, value)
            peaks, nans = maximum(absolute(value), peaks), fma(value, zero, nans)
        x = scratch
    else:
        for offset in range(0, size, _LINE):
            value = load_f32(x + offset)
            peaks, nans = maximum(absolute(value), peaks), fma(value, zero, nans)
    peak = largest(peaks)
    factor = splat(ACTIVATION_LIMIT / peak if peak > 0 else 0.0)
    for offset in range(0, size, _LINE):
        store_i16(codes + offset // 2, to_nearest(mul(load_f32(x + offset), factor)))
    return peak / ACTIVATION_LIMIT + total(nans)


@njit(nogil=True, cache=CACHE)
def run_convolutions(me, size, barrier, convs, streams, columns, values, codes, scales, scratch, before, after):
    """Run convolutions one after the other, in thread ``me`` of ``size``.

    Args:
        me: number of this thread.
        size: number of threads.
        barrier: of the team.
        convs: ``CONVOLUTION`` [convolutions].
        streams: number of streams.
        columns: int64 [convolutions], input columns of each stream.
        values: two buffers of float32 columns. Each convolution maps one to the other. The input is in the first.
        codes: int16, space for the rounded input of a convolution.
        scales: float32, space for its scales.
        scratch: float32 [threads, inputs].
        before: of each convolution in turn, the last input columns of the previous chunk: their codes int16
            [streams, ..] and scales float32 [streams, ..].
        after: the same for the next chunk.
    """
    first_code = first_scale = 0
    for index in range(len(convs)):
        conv = convs[index]
        count, width, history = columns[index], conv.inputs, (conv.taps - 1) * conv.dilation
        source, target = values[index % 2].ctypes.data, values[1 - index % 2].ctypes.data
        rows, length = history + count, history * width
        last_code, last_scale = first_code + length, first_scale + history
        for column in range(streams * count * me // size, streams * count * (me + 1) // size):
            row = column // count * rows + history + column % count
            address = codes.ctypes.data + 2 * width * row
            scales[row] = _quantize(conv, source + 4 * width * column, address, scratch[me].ctypes.data)
        if me == 0:
            for stream in range(streams):
                row = stream * rows
                copy(before[0][stream, first_code:last_code], codes[row * width :])
                copy(before[1][stream, first_scale:last_scale], scales[row:])
        wait(barrier, size)
        if me == size - 1:
            for stream in range(streams):
                row = stream * rows + count
                copy(codes[row * width : row * width + length], after[0][stream, first_code:])
                copy(scales[row : row + history], after[1][stream, first_scale:])
        first_tile, last_tile, first, last = 0, conv.tiles, 0, count
        if conv.tiles < _MIN_TILES * size:
            blocks = (count + _ROWS - 1) // _ROWS
            first, last = blocks * me // size * _ROWS, min(blocks * (me + 1) // size * _ROWS, count)
        else:
            first_tile, last_tile = conv.tiles * me // size, conv.tiles * (me + 1) // size
        for stream in range(streams):
            row = stream * rows
            inputs, input_scales = codes.ctypes.data + 2 * width * row, scales.ctypes.data + 4 * row
            outputs = target + stream * count * conv.tiles * _LINE
            for tile in range(first_tile, last_tile):
                _convolve(conv, tile, first, last, inputs, input_scales, outputs)
        first_code, first_scale = last_code, last_scale
        wait(barrier, size)
