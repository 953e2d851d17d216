// The arithmetic of Code2Wav's kernels.
#pragma once
#include "barriers.h"

typedef unsigned short half;

// Rounds two values to float16; saturates; NaN stays NaN.
__device__ __forceinline__ unsigned rounded(float low, float high) {
    unsigned packed;
    asm("{ .reg .f32 a, b; min.NaN.f32 a, %1, 0f477FE000; max.NaN.f32 a, a, 0fC77FE000; min.NaN.f32 b, %2, 0f477FE000;"
        " max.NaN.f32 b, b, 0fC77FE000; cvt.rn.f16x2.f32 %0, b, a; }" : "=r"(packed) : "f"(low), "f"(high));
    return packed;
}
__device__ __forceinline__ float2 widened(unsigned packed) {
    float2 v;
    asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
        : "=f"(v.x), "=f"(v.y) : "r"(packed));
    return v;
}
__device__ __forceinline__ float snake(float y, float frequency, float gain) {
    const float sine = __sinf(y * frequency);
    return y + sine * sine * gain;
}
