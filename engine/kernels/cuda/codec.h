// Barriers in shared memory, and the arithmetic of Code2Wav's kernels.
#pragma once

typedef unsigned short half;

__device__ __forceinline__ void begin_barrier(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and makes the barrier wait for copies of so many bytes.
__device__ __forceinline__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ bool passed(unsigned barrier, int parity) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    return done;
}
__device__ __forceinline__ void wait(unsigned barrier, int parity) {
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
// Copies contiguous global memory to shared memory, and reports to the barrier.
__device__ __forceinline__ void copy_bytes(unsigned to, const void *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
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
