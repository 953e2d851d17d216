// An emulation of the GPU on a CPU. Every CUDA thread is a fiber; blocks, warps, copies and tensor cores behave as
// specified by PTX. A block runs as far as it can before another one continues, with its fibers in random order.
// Asynchronous copies complete only when waited for, and shared memory starts as NaN.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline

typedef unsigned short bf16;
typedef long long int64;
typedef unsigned long long uint64;
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) float4 { float x, y, z, w; };

namespace machine {
struct Barrier {
    int waiting = 0, passed = 0;
};
struct Copy {
    void *to;
    const void *from;
};
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    int cta, thread;
    bool done = false;
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
};
struct Lanes {
    Barrier barrier;
    uint64 words[32];
    unsigned fragments[32][6];
};
inline std::vector<Fiber> fibers;
inline std::vector<Barrier> blocks;
inline std::vector<Lanes> warps;
inline std::vector<std::vector<char>> shared;
inline std::vector<char> waiting;  // blocks that wait at a grid barrier for others
inline ucontext_t scheduler;
inline Fiber *now;

inline void yield() { swapcontext(&now->context, &scheduler); }
inline void meet(Barrier &barrier, int all) {
    int round = barrier.passed;
    if (++barrier.waiting == all) {
        barrier.waiting = 0;
        barrier.passed++;
        return;
    }
    while (barrier.passed == round) yield();
}
inline Lanes &lanes() { return warps[now->cta * WARPS + now->thread / 32]; }
inline int lane() { return now->thread % 32; }
}  // namespace machine

inline int block_index() { return machine::now->cta; }
inline int thread_index() { return machine::now->thread; }
inline char *shared_memory() { return machine::shared[machine::now->cta].data(); }
inline void block_barrier() { machine::meet(machine::blocks[machine::now->cta], WARPS * 32); }
inline void warp_barrier() { machine::meet(machine::lanes().barrier, 32); }

inline uint64 evict_first_policy() { return 0; }
inline void copy_16_bytes(void *to, const void *from, uint64) { machine::now->open.push_back({to, from}); }
inline void commit_copies() {
    machine::now->groups.push_back(machine::now->open);
    machine::now->open.clear();
}
template <int LEFT> void wait_copies() {
    auto &groups = machine::now->groups;
    while ((int)groups.size() > LEFT) {
        for (auto &copy : groups.front()) memcpy(copy.to, copy.from, 16);
        groups.pop_front();
    }
}

inline float widen(bf16 v) {
    unsigned bits = (unsigned)v << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
inline int float_bits(float v) {
    int bits;
    memcpy(&bits, &v, 4);
    return bits;
}
inline float bits_float(int v) {
    float f;
    memcpy(&f, &v, 4);
    return f;
}
inline bf16 narrow(float v) {
    unsigned bits = (unsigned)float_bits(v);
    return (bf16)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
inline unsigned pack(float low, float high) { return narrow(low) | (unsigned)narrow(high) << 16; }
inline unsigned multiply_bf16x2(unsigned a, unsigned b) {
    return pack(widen((bf16)a) * widen((bf16)b), widen((bf16)(a >> 16)) * widen((bf16)(b >> 16)));
}
inline float4 widen(uint2 v) {
    return {widen((bf16)v.x), widen((bf16)(v.x >> 16)), widen((bf16)v.y), widen((bf16)(v.y >> 16))};
}
inline uint2 load_8(const bf16 *at) { return *(const uint2 *)at; }
inline uint4 load_16_cg(const void *at) { return *(const uint4 *)at; }
inline float4 load_float4_cg(const float *at) { return *(const float4 *)at; }
inline float load_float_cg(const float *at) { return *at; }
inline int64 load_int64_cg(const int64 *at) { return *at; }
inline unsigned load_2_bf16_cg(const bf16 *at) { return *(const unsigned *)at; }
inline bf16 load_1_bf16_cg(const bf16 *at) { return *at; }
inline float divide(float a, float b) { return a / b; }
inline float exponential(float v) { return expf(v); }
inline float reciprocal_root(float v) { return 1 / sqrtf(v); }

inline void matrix_product(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    auto &lanes = machine::lanes();
    int me = machine::lane();
    unsigned mine[6] = {a0, a1, a2, a3, b0, b1};
    memcpy(lanes.fragments[me], mine, sizeof mine);
    warp_barrier();
    for (int i = 0; i < 4; i++) {
        int row = me / 4 + 8 * (i / 2), column = me % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++) {
            unsigned a = lanes.fragments[row % 8 * 4 + k % 8 / 2][row / 8 + 2 * (k / 8)];
            unsigned b = lanes.fragments[column * 4 + k % 8 / 2][4 + k / 8];
            c[i] += widen((bf16)(a >> (k % 2 * 16))) * widen((bf16)(b >> (k % 2 * 16)));
        }
    }
    warp_barrier();
}

template <class T> T from_lane(T v, int other) {
    auto &lanes = machine::lanes();
    memcpy(&lanes.words[machine::lane()], &v, sizeof v);
    warp_barrier();
    if (other >= 0) memcpy(&v, &lanes.words[other], sizeof v);
    warp_barrier();
    return v;
}
inline float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += from_lane(v, machine::lane() ^ step);
    return v;
}
inline double warp_sum(double v) {
    for (int step = 16; step; step /= 2) v += from_lane(v, machine::lane() ^ step);
    return v;
}
inline int warp_count(int v) {
    for (int step = 16; step; step /= 2) v += from_lane(v, machine::lane() ^ step);
    return v;
}
inline uint64 warp_max(uint64 v) {
    for (int step = 16; step; step /= 2) v = std::max(v, from_lane(v, machine::lane() ^ step));
    return v;
}
inline double warp_running_sum(double v) {
    for (int step = 1; step < 32; step *= 2) {
        double other = from_lane(v, machine::lane() - step);
        if (machine::lane() >= step) v += other;
    }
    return v;
}

struct Grid {
    unsigned *word, reached;

    Grid(unsigned *shared_word) : word(shared_word), reached(0) {}
    void sync() {
        block_barrier();
        reached += CTAS;
        if (thread_index() == 0) {
            ++*word;
            while (*word < reached) {
                machine::waiting[block_index()] = 1;
                machine::yield();
            }
            machine::waiting[block_index()] = 0;
        }
        block_barrier();
    }
    void leave() {
        block_barrier();
        if (thread_index() == 0 && (*word)++ == reached + CTAS - 1) *word = 0;
    }
};

struct Params;
extern "C" void predict_frame(const Params params);
extern "C" const int shared_bytes;
