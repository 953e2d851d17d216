"""Vectors of 16 lanes for functions that numba compiles.

LLVM divides them into the registers of the CPU: one with AVX-512, two with AVX2, four with NEON. An address is an
integer. Loads and stores need no alignment, and are not checked.
"""

from __future__ import annotations

from math import factorial, pi

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model

LANES = 16
_I8, _I16, _I32, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP_COEFFICIENTS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
"""Of expf in the Cephes library: exp(r) = 1 + r + r^2 p(r) for |r| <= ln(2) / 2, with a relative error of 2^-23."""
_PI_HIGH, _PI_LOW = 3.14159274101257324, -8.74227765734758577e-8
_SINE_COEFFICIENTS = tuple((-1) ** term / factorial(2 * term + 1) for term in range(6, -1, -1))
"""Of the Taylor series sin(r) = r p(r^2) up to r^13, for |r| <= pi / 2."""
_EXP_LOW, _EXP_HIGH = -87.3, 88.3
"""Arguments beyond these are replaced by them, so that the result is a normal number."""


class Vector(types.Type):
    """The type of a vector in compiled functions. llvm: its type in LLVM."""

    def __init__(self, name, element):
        self.llvm = ir.VectorType(element, LANES)
        super().__init__(name=name)


@register_model(Vector)
class _VectorModel(PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, vector.llvm)


F32 = Vector("f32x16", _F32)
I32 = Vector("i32x16", _I32)


def constant(vector, value):
    """Return an LLVM constant with ``value`` in every lane."""
    return ir.Constant(vector, [value] * vector.count)


def load(builder, address, kind, offset=0):
    """Emit a load of an LLVM type from an address plus ``offset`` bytes."""
    if offset:
        address = builder.add(address, ir.Constant(address.type, offset))
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def call(builder, name, result, *args):
    """Emit a call of an LLVM intrinsic."""
    kind = ir.FunctionType(result, [each.type for each in args])
    return builder.call(get_or_insert_function(builder.module, kind, name), args)


def fill(builder, scalar, lanes=LANES):
    """Emit a vector with ``scalar`` in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), constant(ir.VectorType(_I32, lanes), 0))


def _operation(result, *parameters):
    """Decorate a function (builder, *values) -> value, so that compiled functions can call it."""

    def decorate(emit):
        def generate(context, builder, _, args):
            value = emit(builder, *args)
            return context.get_dummy_value() if result is types.void else value

        signature = result(*parameters)
        # numba counts the parameters of an intrinsic.
        definitions = (
            lambda context, x: (signature, generate),
            lambda context, x, y: (signature, generate),
            lambda context, x, y, z: (signature, generate),
        )
        define = definitions[len(parameters) - 1]
        define.__name__, define.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(define)

    return decorate


def _store(builder, address, value):
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


@_operation(F32, types.intp)
def load_f32(builder, address):
    """Load 16 float32."""
    return load(builder, address, F32.llvm)


@_operation(F32, types.intp)
def load_bf16(builder, address):
    """Load 16 bfloat16 as float32."""
    bits = builder.zext(load(builder, address, ir.VectorType(_I16, LANES)), I32.llvm)
    return builder.bitcast(builder.shl(bits, constant(I32.llvm, 16)), F32.llvm)


@_operation(I32, types.intp)
def load_i32(builder, address):
    """Load 16 int32."""
    return load(builder, address, I32.llvm)


@_operation(F32, types.intp)
def load_splat(builder, address):
    """Load a float32 into every lane."""
    return fill(builder, load(builder, address, _F32))


@_operation(F32, I32)
def low_bf16(builder, pairs):
    """Convert the bfloat16 in the low half of each lane to float32."""
    return builder.bitcast(builder.shl(pairs, constant(I32.llvm, 16)), F32.llvm)


@_operation(F32, I32)
def high_bf16(builder, pairs):
    """Convert the bfloat16 in the high half of each lane to float32."""
    return builder.bitcast(builder.and_(pairs, constant(I32.llvm, -(1 << 16))), F32.llvm)


@_operation(types.void, types.intp, F32)
def store_f32(builder, address, value):
    """Store 16 float32."""
    _store(builder, address, value)


@_operation(types.void, types.intp, I32)
def store_i8(builder, address, value):
    """Store the low 8 bits of each lane."""
    _store(builder, address, builder.trunc(value, ir.VectorType(_I8, LANES)))


@_operation(types.void, types.intp, I32)
def store_i16(builder, address, value):
    """Store the low 16 bits of each lane."""
    _store(builder, address, builder.trunc(value, ir.VectorType(_I16, LANES)))


@_operation(F32, types.float32)
def splat(builder, value):
    """Return ``value`` in every lane."""
    return fill(builder, value)


@_operation(F32, F32, F32)
def add(builder, x, y):
    """Return x + y."""
    return builder.fadd(x, y)


@_operation(F32, F32, F32)
def mul(builder, x, y):
    """Return x * y."""
    return builder.fmul(x, y)


@_operation(F32, F32, F32)
def div(builder, x, y):
    """Return x / y."""
    return builder.fdiv(x, y)


@_operation(F32, F32, F32, F32)
def fma(builder, x, y, z):
    """Return x * y + z, rounded once."""
    return call(builder, "llvm.fma.v16f32", F32.llvm, x, y, z)


@_operation(F32, F32)
def absolute(builder, x):
    """Return |x|."""
    return call(builder, "llvm.fabs.v16f32", F32.llvm, x)


@_operation(F32, F32, F32)
def maximum(builder, x, y):
    """Return the larger of x and y."""
    return call(builder, "llvm.maxnum.v16f32", F32.llvm, x, y)


@_operation(types.float32, F32)
def largest(builder, x):
    """Return the largest lane."""
    return call(builder, "llvm.vector.reduce.fmax.v16f32", _F32, x)


@_operation(types.float32, F32)
def total(builder, x):
    """Return the sum of the lanes, added in pairs."""
    for width in (8, 4, 2, 1):
        halves = [
            builder.shuffle_vector(
                x, ir.Constant(x.type, ir.Undefined), ir.Constant(ir.VectorType(_I32, width), list(lanes))
            )
            for lanes in (range(width), range(width, 2 * width))
        ]
        x = builder.fadd(*halves)
    return builder.extract_element(x, ir.Constant(_I32, 0))


@_operation(F32, I32)
def to_f32(builder, x):
    """Convert to float32."""
    return builder.sitofp(x, F32.llvm)


@_operation(I32, F32)
def to_nearest(builder, x):
    """Convert to the nearest integer."""
    return builder.fptosi(call(builder, "llvm.rint.v16f32", F32.llvm, x), I32.llvm)


@_operation(F32, F32)
def exp(builder, x):
    """Return e^x, with a relative error of 2^-22."""

    def float_constant(value):
        return constant(F32.llvm, value)

    def multiply_add(x, y, z):
        return call(builder, "llvm.fma.v16f32", F32.llvm, x, y, z)

    x = call(builder, "llvm.maxnum.v16f32", F32.llvm, x, float_constant(_EXP_LOW))
    x = call(builder, "llvm.minnum.v16f32", F32.llvm, x, float_constant(_EXP_HIGH))
    power = call(builder, "llvm.rint.v16f32", F32.llvm, builder.fmul(x, float_constant(_LOG2_E)))
    rest = multiply_add(power, float_constant(-_LN2_HIGH), x)
    rest = multiply_add(power, float_constant(-_LN2_LOW), rest)
    series = float_constant(_EXP_COEFFICIENTS[0])
    for coefficient in _EXP_COEFFICIENTS[1:]:
        series = multiply_add(series, rest, float_constant(coefficient))
    series = multiply_add(series, builder.fmul(rest, rest), builder.fadd(rest, float_constant(1.0)))
    exponent = builder.shl(
        builder.add(builder.fptosi(power, I32.llvm), constant(I32.llvm, 127)), constant(I32.llvm, 23)
    )
    return builder.fmul(series, builder.bitcast(exponent, F32.llvm))


@_operation(F32, F32)
def sine_squared(builder, x):
    """Return sin(x)^2, with an absolute error of 2^-21 for |x| < 10^4."""

    def multiply_add(x, y, z):
        return call(builder, "llvm.fma.v16f32", F32.llvm, x, y, z)

    turns = call(builder, "llvm.rint.v16f32", F32.llvm, builder.fmul(x, constant(F32.llvm, 1 / pi)))
    rest = multiply_add(turns, constant(F32.llvm, -_PI_HIGH), x)
    rest = multiply_add(turns, constant(F32.llvm, -_PI_LOW), rest)
    square = builder.fmul(rest, rest)
    series = constant(F32.llvm, _SINE_COEFFICIENTS[0])
    for coefficient in _SINE_COEFFICIENTS[1:]:
        series = multiply_add(series, square, constant(F32.llvm, coefficient))
    sine = builder.fmul(series, rest)
    return builder.fmul(sine, sine)
