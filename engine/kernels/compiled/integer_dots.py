"""Dot products of a group of 32 integer weights with activations, for 16 outputs at once.

4 bits: weights from 0 to 15, activations from -127 to 127. A block of 64 bytes has 8 inputs of 16 outputs: the low
halves of the four bytes of an output are its weights of inputs 0 to 3, the high halves those of inputs 4 to 7.

8 bits: weights from -127 to 127, activations of 16 bits. A block of 32 bytes has 2 inputs of 16 outputs.

Sums of integers are exact, so every instruction set gives the same result.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from engine.kernels.compiled.simd import I32, LANES, call, constant, fill, load
from engine.kernels.quantization import GROUP

INT4_GROUP_BYTES = GROUP * LANES // 2
INT8_GROUP_BYTES = GROUP * LANES
_BLOCKS = 4
"""Blocks of 4-bit weights in a group."""
llvm.initialize_native_asmparser()  # for ``_emit_vpdpwssd``
_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_BYTES_32, _BYTES_64 = (ir.VectorType(_I8, count) for count in (32, 64))


def cpu_features() -> set[str]:
    """Return the names of the instruction sets that numba compiles for."""
    if config.CPU_FEATURES is not None:
        return {name[1:] for name in config.CPU_FEATURES.split(",") if name.startswith("+")}
    if config.CPU_NAME == "generic":
        return set()
    names = {name for name, available in llvm.get_host_cpu_features().items() if available}
    return names if config.ENABLE_AVX else {name for name in names if not name.startswith("avx")}


def int4_instructions(features: set[str]) -> str:
    """Return the fastest of ``INT4_DOTS`` for a CPU with ``features``."""
    if {"avx512vnni", "avx512vl"} <= features:
        return "avx512vnni"
    if "avxvnni" in features:
        return "avxvnni"
    if "avx2" in features:
        return "avx2"
    return "dotprod" if "dotprod" in features else "generic"


def _quad(builder, codes, index, size):
    """Emit a vector of ``size`` bytes that repeats four activations, those from 4 * ``index`` on."""
    return builder.bitcast(fill(builder, load(builder, codes, _I32, 4 * index), size // 4), ir.VectorType(_I8, size))


def _nibbles(builder, block):
    """Emit the low and the high halves of bytes."""
    return builder.and_(block, constant(block.type, 15)), builder.lshr(block, constant(block.type, 4))


def _concatenate(builder, parts):
    """Emit a vector of the lanes of several vectors of equal length."""
    while len(parts) > 1:
        lanes = ir.Constant(ir.VectorType(_I32, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
        parts = [builder.shuffle_vector(*pair, lanes) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _in_registers(size, multiply_add):
    """Return an emitter of products in registers of ``size`` bytes, with an instruction that adds four products.

    multiply_add: (builder, sums, weights, activations) -> sums.
    """

    def emit(builder, weights, rows):
        sums = [[constant(ir.VectorType(_I32, size // 4), 0)] * (64 // size) for _ in rows]
        for block in range(_BLOCKS):
            for part in range(64 // size):
                halves = _nibbles(builder, load(builder, weights, ir.VectorType(_I8, size), 64 * block + size * part))
                for row, codes in enumerate(rows):
                    for half, values in enumerate(halves):
                        quad = _quad(builder, codes, 2 * block + half, size)
                        sums[row][part] = multiply_add(builder, sums[row][part], values, quad)
        return [_concatenate(builder, parts) for parts in sums]

    return emit


def _vpdpbusd(bits):
    kind = ir.VectorType(_I32, bits // 32)

    def multiply_add(builder, sums, weights, activations):
        words = builder.bitcast(weights, kind), builder.bitcast(activations, kind)
        return call(builder, f"llvm.x86.avx512.vpdpbusd.{bits}", kind, sums, *words)

    return multiply_add


def _sdot(builder, sums, weights, activations):
    return call(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", sums.type, sums, weights, activations)


def _emit_avx2(builder, weights, rows):
    """Emit products that add pairs in 16 bits. The largest sum of a group is 8 * 2 * 15 * 127 = 30,480."""
    pairs, words = ir.VectorType(_I16, 16), ir.VectorType(_I32, 8)
    sums = [[constant(pairs, 0)] * 2 for _ in rows]
    for part in range(2):
        for block in range(_BLOCKS):
            halves = _nibbles(builder, load(builder, weights, _BYTES_32, 64 * block + 32 * part))
            for row, codes in enumerate(rows):
                for half, values in enumerate(halves):
                    quad = _quad(builder, codes, 2 * block + half, 32)
                    products = call(builder, "llvm.x86.avx2.pmadd.ub.sw", pairs, values, quad)
                    sums[row][part] = builder.add(sums[row][part], products)
    ones = constant(pairs, 1)
    return [
        _concatenate(builder, [call(builder, "llvm.x86.avx2.pmadd.wd", words, each, ones) for each in parts])
        for parts in sums
    ]


def _emit_generic(builder, weights, rows):
    """Emit the same without special instructions."""
    wide = ir.VectorType(_I16, 64)
    sums = [constant(wide, 0) for _ in rows]
    for block in range(_BLOCKS):
        halves = _nibbles(builder, load(builder, weights, _BYTES_64, 64 * block))
        for row, codes in enumerate(rows):
            for half, values in enumerate(halves):
                quad = builder.sext(_quad(builder, codes, 2 * block + half, 64), wide)
                sums[row] = builder.add(sums[row], builder.mul(builder.zext(values, wide), quad))
    return [_add_neighbors(builder, _add_neighbors(builder, builder.sext(each, _words(64)))) for each in sums]


def _words(count):
    return ir.VectorType(_I32, count)


def _add_neighbors(builder, values):
    """Emit the sums of lanes 0 and 1, 2 and 3, and so on."""
    count = values.type.count
    even, odd = (
        builder.shuffle_vector(
            values,
            ir.Constant(values.type, ir.Undefined),
            ir.Constant(_words(count // 2), list(range(first, count, 2))),
        )
        for first in (0, 1)
    )
    return builder.add(even, odd)


INT4_DOTS = {
    "avx512vnni": _in_registers(64, _vpdpbusd(512)),
    "avxvnni": _in_registers(32, _vpdpbusd(256)),
    "avx2": _emit_avx2,
    "dotprod": _in_registers(16, _sdot),
    "generic": _emit_generic,
}
"""Emitters of 4-bit products by the instructions they use: (builder, weights, rows) -> sums of each row."""


def int4_dots(instructions=None):
    """Return compiled functions of the 4-bit product for one row, and for four.

    (address of weights, addresses of the activations of each row) -> int32 [16], or a tuple of four of them.

    instructions: a key of ``INT4_DOTS``. None: the fastest one.
    """
    return _compiled(INT4_DOTS[instructions or int4_instructions(cpu_features())])


def _compiled(emit):
    """Return compiled functions of the product that ``emit`` emits, for one row and for four."""

    @intrinsic
    def one(context, weights, codes):
        def generate(context, builder, signature, args):
            return emit(builder, args[0], args[1:])[0]

        return I32(types.intp, types.intp), generate

    @intrinsic
    def four(context, weights, codes0, codes1, codes2, codes3):
        def generate(context, builder, signature, args):
            return context.make_tuple(builder, signature.return_type, emit(builder, args[0], args[1:]))

        return types.UniTuple(I32, 4)(*[types.intp] * 5), generate

    return one, four


def _emit_int8(builder, weights, rows):
    wide = ir.VectorType(_I16, 32)
    sums = [constant(I32.llvm, 0) for _ in rows]
    for pair in range(GROUP // 2):
        values = builder.sext(builder.sext(load(builder, weights, _BYTES_32, 32 * pair), wide), _words(32))
        for row, codes in enumerate(rows):
            activations = builder.bitcast(fill(builder, load(builder, codes, _I32, 4 * pair)), wide)
            products = builder.mul(values, builder.sext(activations, _words(32)))
            sums[row] = builder.add(sums[row], _add_neighbors(builder, products))
    return sums


int8_dot, int8_dot_four = _compiled(_emit_int8)
"""The 8-bit product of one row, and of four, as ``int4_dots`` returns them."""


def pair_instructions(features: set[str]) -> str:
    """Return the fastest of ``PAIR_DOTS`` for a CPU with ``features``."""
    if "avx512bw" in features:
        return "avx512vnni" if "avx512vnni" in features else "avx512"
    return "avx2" if "avx2" in features else "generic"


def _repeated(builder, pair, size):
    """Emit a vector of ``size`` bytes that repeats two activations."""
    return builder.bitcast(fill(builder, pair, size // 4), ir.VectorType(_I16, size // 2))


def _pmaddwd(name, size):
    """Return an emitter that multiplies in x86 registers of ``size`` bytes, and then adds."""

    def emit(builder, sums, weights, pair):
        activations = _repeated(builder, pair, size)
        parts = [
            call(builder, name, _words(size // 4), load(builder, weights, activations.type, size * part), activations)
            for part in range(64 // size)
        ]
        return builder.add(sums, _concatenate(builder, parts))

    return emit


def _emit_vpdpwssd(builder, sums, weights, pair):
    """Emit the instruction that multiplies and adds.

    It is assembly, because LLVM makes two instructions of its intrinsic for a shorter latency, which costs half the
    throughput.
    """
    activations = _repeated(builder, pair, 64)
    kind = ir.FunctionType(sums.type, [sums.type, activations.type, activations.type])
    instruction = ir.InlineAsm(kind, "vpdpwssd $3, $2, $0", "=v,0,v,v")
    return builder.call(instruction, [sums, load(builder, weights, activations.type), activations])


def _emit_pair(builder, sums, weights, pair):
    """Emit the products and the addition without special instructions."""
    wide = _words(2 * LANES)
    values = builder.sext(load(builder, weights, ir.VectorType(_I16, 2 * LANES)), wide)
    activations = builder.sext(_repeated(builder, pair, 64), wide)
    return builder.add(sums, _add_neighbors(builder, builder.mul(values, activations)))


PAIR_DOTS = {
    "avx512vnni": _emit_vpdpwssd,
    "avx512": _pmaddwd("llvm.x86.avx512.pmaddw.d.512", 64),
    "avx2": _pmaddwd("llvm.x86.avx2.pmadd.wd", 32),
    "generic": _emit_pair,
}
"""Emitters that add products of two inputs with 16 outputs, 16 bits each: (builder, sums, weights, pair) -> sums.

sums: int32 [16]. weights: address of int16 [16, 2]. pair: the two activations as int32.
"""
