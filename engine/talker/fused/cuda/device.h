// Device intrinsics of the kernel. Includes no CUDA header, so that NVRTC can compile it without a toolkit.
#pragma once

typedef unsigned short bf16;
typedef long long int64;
typedef unsigned long long uint64;

__device__ __forceinline__ int block_index() { return blockIdx.x; }
__device__ __forceinline__ int thread_index() { return threadIdx.x; }
__device__ __forceinline__ char *shared_memory() {
    extern __shared__ uint4 memory[];
    return (char *)memory;
}
__device__ __forceinline__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }
__device__ __forceinline__ void block_barrier() { __syncthreads(); }
__device__ __forceinline__ void warp_barrier() { __syncwarp(); }
// A barrier of the given number of threads. Number 0 with all threads of the block is block_barrier.
__device__ __forceinline__ void named_barrier(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Give registers of a warpgroup that copies to two that compute, of 168 each.
__device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }

// Orders ordinary accesses before bulk copies of this thread that follow: of shared memory, and of global memory.
__device__ __forceinline__ void fence_shared_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void fence_global_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Hides a value from the compiler, which would compute what depends on it before a loop, and keep it in local memory.
__device__ __forceinline__ int computed_here(int v) {
    asm volatile("" : "+r"(v));
    return v;
}

// An L2 policy for reads: evict their lines before all others.
__device__ __forceinline__ uint64 evict_first_policy() {
    uint64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ void copy_16_bytes(void *shared, const void *global, uint64 policy) {
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                 "l"(policy)
                 : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

__device__ __forceinline__ void matrix_product(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                               unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// .cg: reads L2, because this multiprocessor's L1 does not see what other blocks wrote.
__device__ __forceinline__ uint4 load_16_cg(const void *at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}
__device__ __forceinline__ float4 load_float4_cg(const float *at) {
    float4 v;
    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}
__device__ __forceinline__ float2 load_float2_cg(const float *at) {
    float2 v;
    asm volatile("ld.global.cg.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ float load_float_cg(const float *at) {
    float v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ int64 load_int64_cg(const int64 *at) {
    int64 v;
    asm volatile("ld.global.cg.s64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
    return v;
}
// Starts to read 128 bytes into L2.
__device__ __forceinline__ void prefetch_line(const void *at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
__device__ __forceinline__ uint2 load_8(const bf16 *at) { return *(const uint2 *)at; }

__device__ __forceinline__ float widen(bf16 v) { return __uint_as_float((unsigned)v << 16); }
__device__ __forceinline__ float4 widen(uint2 v) {
    return float4{__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xFFFF0000u), __uint_as_float(v.y << 16),
                  __uint_as_float(v.y & 0xFFFF0000u)};
}
__device__ __forceinline__ unsigned load_2_bf16_cg(const bf16 *at) {
    unsigned v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ bf16 load_1_bf16_cg(const bf16 *at) {
    bf16 v;
    asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(v) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
// Two bfloat16 products. Subnormal numbers are not flushed to zero.
__device__ __forceinline__ unsigned multiply_bf16x2(unsigned a, unsigned b) {
    unsigned v;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
__device__ __forceinline__ bf16 narrow(float v) { return (bf16)pack(v, 0.0f); }
__device__ __forceinline__ int float_bits(float v) { return __float_as_int(v); }
__device__ __forceinline__ float bits_float(int v) { return __int_as_float(v); }
__device__ __forceinline__ float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ float exponential(float v) { return __expf(v); }
__device__ __forceinline__ float reciprocal_root(float v) { return rsqrtf(v); }

// Tells the compiler that a value is the same in all lanes of a warp.
__device__ __forceinline__ unsigned uniform(unsigned v) { return __shfl_sync(0xFFFFFFFFu, v, 0); }
__device__ __forceinline__ float exchange(float v, int step) { return __shfl_xor_sync(0xFFFFFFFFu, v, step); }
__device__ __forceinline__ float broadcast(float v, int from) { return __shfl_sync(0xFFFFFFFFu, v, from); }
__device__ __forceinline__ float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, step);
    return v;
}
__device__ __forceinline__ double warp_sum(double v) {
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, step);
    return v;
}
__device__ __forceinline__ int warp_count(int v) { return __reduce_add_sync(0xFFFFFFFFu, v); }
__device__ __forceinline__ uint64 warp_max(uint64 v) {
    for (int step = 16; step; step /= 2) {
        uint64 other = __shfl_xor_sync(0xFFFFFFFFu, v, step);
        v = other > v ? other : v;
    }
    return v;
}
__device__ __forceinline__ double warp_running_sum(double v) {
    for (int step = 1; step < 32; step *= 2) {
        double other = __shfl_up_sync(0xFFFFFFFFu, v, step);
        if ((int)(threadIdx.x % 32) >= step) v += other;
    }
    return v;
}

__device__ __forceinline__ uint64 nanoseconds() {
    uint64 v;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v));
    return v;
}

// Adds one to a word in global memory, after everything that this block wrote before its last barrier.
__device__ __forceinline__ void signal(unsigned *word) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(word) : "memory");
}

// Adds one to a word in global memory, after everything that this block wrote before its last barrier, and returns what
// the word was. What the blocks wrote that added before is in L2.
__device__ __forceinline__ unsigned add_to_word(unsigned *word) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(word) : "memory");
    return before;
}

// Waits until a word that blocks of this cooperative launch add to reaches a value. All of them run at once, so the wait
// is short. A thread that waits longer than TIMEOUT traps: the launch fails with an error that every later CUDA call
// reports, instead of holding the GPU forever. It reads the clock only after an unusually long wait.
//
// The reads do not acquire, because each would discard the L1 cache of this multiprocessor. What other blocks wrote is in
// L2 before the word changes, and is read from there: with .cg, or by bulk copies.
__device__ __forceinline__ void wait_for_word(const unsigned *word, unsigned reached) {
    constexpr unsigned READS_BEFORE_CLOCK = 4096;  // reads of the word: some milliseconds
    constexpr uint64 TIMEOUT = 5'000'000'000;      // nanoseconds
    uint64 since = 0;
    for (unsigned reads = 1;; reads++) {
        unsigned seen;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
        if (seen >= reached) break;
        if (reads % READS_BEFORE_CLOCK) continue;
        if (since == 0) since = nanoseconds();
        if (nanoseconds() - since > TIMEOUT) __trap();
    }
}

// The last of `blocks` blocks to leave sets the word, which has reached a value, to zero for the next launch.
__device__ __forceinline__ void leave_word(unsigned *word, unsigned reached, unsigned blocks) {
    if (atomicAdd(word, 1u) == reached + blocks - 1) atomicExch(word, 0u);
}

// A grid-wide barrier: each block adds one to a word, and waits until all blocks have. The word is zero before and after
// a launch.
struct Grid {
    unsigned *word, reached;

    __device__ __forceinline__ Grid(unsigned *shared_word) : word(shared_word), reached(0) {}

    __device__ __forceinline__ void sync() {
        __syncthreads();
        reached += CTAS;
        if (threadIdx.x == 0) {
            signal(word);
            wait_for_word(word, reached);
        }
        __syncthreads();
    }

    __device__ __forceinline__ void leave() {
        __syncthreads();
        if (threadIdx.x == 0) leave_word(word, reached, CTAS);
    }
};
