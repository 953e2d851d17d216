// An emulation of the GPU on a CPU. Every CUDA thread is a fiber; blocks, warps, copies and tensor cores behave as
// specified by PTX. A block runs as far as it can before another one continues, with its fibers in random order.
// Asynchronous copies and products of warpgroups complete only when waited for, and shared memory starts as NaN.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
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
struct alignas(8) float2 { float x, y; };
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
    ucontext_t context;  // where the fiber starts
    jmp_buf state;
    bool started = false;
    std::vector<char> stack;
    int cta, thread;
    bool done = false;
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
    std::vector<std::function<void()>> products;
    std::deque<std::vector<std::function<void()>>> product_groups;
};
struct SharedBarrier {
    int arrivals, missing, bytes = 0, phase = 0;
};
struct BulkCopy {
    std::function<void()> run;
    int bytes;
    unsigned barrier;
};
struct Lanes {
    Barrier barrier;
    uint64 words[32];
    unsigned fragments[32][6];
};
inline std::vector<Fiber> fibers;
inline std::vector<Barrier> named;  // barriers 0 to 15 of every block
inline std::vector<Lanes> warps;
inline std::vector<std::vector<char>> shared;
inline std::vector<std::map<unsigned, SharedBarrier>> barriers;  // of every block, by address
inline std::vector<std::vector<BulkCopy>> copies;               // of every block, not complete
inline std::vector<char> waiting;  // blocks that wait at a grid barrier for others
inline jmp_buf scheduler;
inline Fiber *now;

// Unlike swapcontext, jumps make no system call.
inline void yield() {
    if (!_setjmp(now->state)) _longjmp(scheduler, 1);
}
inline __attribute__((noinline)) void resume() {
    if (_setjmp(scheduler)) return;
    if (now->started) _longjmp(now->state, 1);
    now->started = true;
    setcontext(&now->context);
}
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
inline void block_barrier() { machine::meet(machine::named[machine::now->cta * 16], WARPS * 32); }
inline void named_barrier(int number, int threads) {
    machine::meet(machine::named[machine::now->cta * 16 + number], threads);
}
inline void warp_barrier() { machine::meet(machine::lanes().barrier, 32); }
inline void more_registers() {}
inline void fewer_registers() {}
inline void fence_shared_copies() {}
inline void fence_global_copies() {}
inline int computed_here(int v) { return v; }
inline unsigned shared_address(const void *at) {
    return (unsigned)((const char *)at - machine::shared[machine::now->cta].data());
}

namespace machine {
inline void settle(SharedBarrier &barrier) {
    if (barrier.missing || barrier.bytes) return;
    barrier.phase ^= 1;
    barrier.missing = barrier.arrivals;
}
// Completes a copy of this block that reports to a barrier.
inline void complete_copy(unsigned barrier) {
    auto &open = copies[now->cta];
    for (auto copy = open.begin(); copy != open.end(); copy++) {
        if (copy->barrier != barrier) continue;
        copy->run();
        SharedBarrier &waiting = barriers[now->cta][barrier];
        waiting.bytes -= copy->bytes;
        open.erase(copy);
        settle(waiting);
        return;
    }
}
}  // namespace machine
inline void begin_barrier(unsigned barrier, int arrivals) {
    machine::barriers[machine::now->cta][barrier] = {arrivals, arrivals};
}
inline void expect(unsigned barrier, int bytes) {
    auto &at = machine::barriers[machine::now->cta][barrier];
    at.bytes += bytes;
    at.missing--;
    machine::settle(at);
}
inline void arrive(unsigned barrier) { expect(barrier, 0); }
inline void wait(unsigned barrier, int parity) {
    auto &at = machine::barriers[machine::now->cta][barrier];
    while (at.phase == parity) {
        machine::complete_copy(barrier);
        if (at.phase == parity) machine::yield();
    }
}
inline void copy_bytes(unsigned to, const void *from, int bytes, unsigned barrier, uint64 = 0) {
    char *at = machine::shared[machine::now->cta].data() + to;
    machine::copies[machine::now->cta].push_back({[=] { memcpy(at, from, bytes); }, bytes, barrier});
}
// Takes the place of a tensor map of 128 bytes: boxes have `box_rows` rows of 64 columns, which are stored swizzled.
struct TensorMap {
    const bf16 *matrix;
    int64 columns, box_rows;
};
inline void copy_box(unsigned to, const void *map, int column, int row, unsigned barrier, uint64 = 0) {
    const TensorMap box = *(const TensorMap *)map;
    char *memory = machine::shared[machine::now->cta].data();
    auto run = [=] {
        for (int r = 0; r < box.box_rows; r++)
            for (int chunk = 0; chunk < 8; chunk++) {
                const unsigned at = to + r * 128 + chunk * 16;
                memcpy(memory + (at ^ (at >> 7 & 7) << 4), box.matrix + (row + r) * box.columns + column + chunk * 8, 16);
            }
    };
    machine::copies[machine::now->cta].push_back({run, (int)box.box_rows * 128, barrier});
}

inline void begin_products() { warp_barrier(); }  // all lanes of a warp issue a product together
template <int N> void pin(float (&)[N]) {}
inline uint64 swizzled_descriptor(unsigned address, unsigned stride) { return address | (uint64)stride << 32; }
inline uint64 advanced(uint64 descriptor, unsigned bytes) { return descriptor + bytes; }
inline void commit_products() {
    machine::now->product_groups.push_back(machine::now->products);
    machine::now->products.clear();
}
template <int LEFT> void wait_products() {
    auto &groups = machine::now->product_groups;
    while ((int)groups.size() > LEFT) {
        for (auto &product : groups.front()) product();
        groups.pop_front();
    }
    warp_barrier();  // the products of all lanes are complete
}

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
inline void prefetch_line(const void *) {}
inline uint2 load_8(const bf16 *at) { return *(const uint2 *)at; }
inline uint4 load_16_cg(const void *at) { return *(const uint4 *)at; }
inline float4 load_float4_cg(const float *at) { return *(const float4 *)at; }
inline float2 load_float2_cg(const float *at) { return *(const float2 *)at; }
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

// A warpgroup's product: 64 rows of a, 16 columns, and 2 SUMS rows of b. Rows have 128 bytes with a 128-byte swizzle.
template <int SUMS> void multiply_bf16(float (&c)[SUMS], uint64 a, uint64 b, int add) {
    machine::now->products.push_back([&c, a, b, add] {
        const char *memory = machine::shared[machine::now->cta].data();
        auto element = [&](uint64 operand, int row, int k) {
            unsigned at = (unsigned)operand + row / 8 * (unsigned)(operand >> 32) + row % 8 * 128 + k * 2;
            return widen(*(const bf16 *)(memory + (at ^ (at >> 7 & 7) << 4)));
        };
        int thread = machine::now->thread % 128;
        for (int i = 0; i < SUMS; i++) {
            int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            float sum = add ? c[i] : 0;
            for (int k = 0; k < 16; k++) sum += element(a, row, k) * element(b, column, k);
            c[i] = sum;
        }
    });
}

template <class T> T from_lane(T v, int other) {
    auto &lanes = machine::lanes();
    memcpy(&lanes.words[machine::lane()], &v, sizeof v);
    warp_barrier();
    if (other >= 0) memcpy(&v, &lanes.words[other], sizeof v);
    warp_barrier();
    return v;
}
inline unsigned uniform(unsigned v) { return v; }
inline float exchange(float v, int step) { return from_lane(v, machine::lane() ^ step); }
inline float broadcast(float v, int from) { return from_lane(v, from); }
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

inline void signal(unsigned *word) { ++*word; }
inline unsigned add_to_word(unsigned *word) { return (*word)++; }
inline void wait_for_word(const unsigned *word, unsigned reached) {
    while (*word < reached) {
        machine::waiting[block_index()] = 1;
        machine::yield();
    }
    machine::waiting[block_index()] = 0;
}
inline void leave_word(unsigned *word, unsigned reached, unsigned blocks) {
    if ((*word)++ == reached + blocks - 1) *word = 0;
}
struct Grid {
    unsigned *word, reached;

    Grid(unsigned *shared_word) : word(shared_word), reached(0) {}
    void sync() {
        block_barrier();
        reached += CTAS;
        if (thread_index() == 0) {
            signal(word);
            wait_for_word(word, reached);
        }
        block_barrier();
    }
    void leave() {
        block_barrier();
        if (thread_index() == 0) leave_word(word, reached, CTAS);
    }
};

struct Params;
extern "C" void KERNEL(const Params params);
extern "C" const int shared_bytes;
