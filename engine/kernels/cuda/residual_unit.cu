// A residual unit of Code2Wav's decoder in one launch: convolution with 7 taps, SnakeBeta, convolution with one tap,
// sum, SnakeBeta. Reference implementation: TorchOps.residual_unit.
//
// A warpgroup makes 64 time steps of one stream. It copies the steps that they need, with the history, to shared memory
// once: a tap is an offset into this window. The result of the first convolution stays in registers, where it is the
// operand of the second one. The warpgroups of a block share the weights. With 192 channels a third warpgroup copies them
// from L2 in stages, through a ring buffer. With 96 channels all weights fit, and are copied once. Each block makes many
// tiles.
//
// Columns of the products are permuted (permutation in codec_units.py), so that a thread has 8 consecutive channels.
#include "codec.h"
#include "wgmma.h"

constexpr int C = CHANNELS, TAPS = 7, WARPGROUPS = GROUPS, ROWS = 64, MAX_DILATION = 9;
constexpr bool RESIDENT = C <= 96;
constexpr int STAGE_K = RESIDENT ? C : 64, STAGES = (TAPS + 1) * C / STAGE_K, FIRST = TAPS * C / STAGE_K;
constexpr int RING = RESIDENT ? STAGES : 5, STAGE_BYTES = STAGE_K * C * 2;
constexpr int WINDOW_BYTES = ((ROWS + (TAPS - 1) * MAX_DILATION) | 1) * C * 2;
constexpr int WINDOWS = RING * STAGE_BYTES, VECTORS = WINDOWS + WARPGROUPS * WINDOW_BYTES;
constexpr int BARRIERS = VECTORS + 6 * C * 4, SHARED_BYTES = BARRIERS + 2 * RING * 8;
extern "C" __constant__ int shared_bytes = SHARED_BYTES;

struct Params {
    const half *x, *residual;
    half *raw, *act;
    const half *weights;
    const float *vectors;  // [6, C]: bias, frequency, gain of the first convolution, then of the second one
    long long x_stream, residual_stream, raw_stream, act_stream;
    int length, dilation, tiles_per_stream, tiles;
};

__device__ __forceinline__ void warpgroup_barrier(int warpgroup) {
    asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}
__device__ __forceinline__ void load_8(float (&v)[8], const float *at) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(at);  // volatile: loads stay where they are used
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(address));
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]) : "r"(address + 16));
}

struct Tile {
    long long stream;
    int first;  // time step of its first row
    __device__ Tile(const Params &p, int tile) : stream(tile / p.tiles_per_stream), first(tile % p.tiles_per_stream * ROWS) {}
};

// Begins to copy a tile's window to shared memory, and to bring its residual to L2.
__device__ __forceinline__ void begin_window(const Params &p, Tile tile, unsigned window, int thread) {
    const int history = (TAPS - 1) * p.dilation, rows = ROWS + history, pitch = rows | 1;
    const int last = p.length + history - 1;
    const half *x = p.x + tile.stream * p.x_stream;
    for (int i = thread; i < rows * (C / 8); i += 128) {
        const int row = i / (C / 8), chunk = i % (C / 8);
        const half *from = x + (long long)min(tile.first + row, last) * C + chunk * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(window + (chunk * pitch + row) * 16), "l"(from)
                     : "memory");
    }
    const half *residual = p.residual + tile.stream * p.residual_stream + (long long)tile.first * C;
    const int elements = min(ROWS, p.length - tile.first) * C;
    for (int i = thread * 64; i < elements; i += 128 * 64)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(residual + i));
}

// Descriptor of 16 rows of a stage of weights.
__device__ __forceinline__ uint64 weights(unsigned stage, int step) {
    return descriptor(stage + step * 2 * C * 16, C * 16);
}
// Adds the product of one stage of weights b (add: 0 overwrites sums). Stages before it are complete when it returns.
__device__ __forceinline__ void multiply_stage(float (&sums)[C / 2], unsigned a, int pitch, unsigned b, int add) {
    begin_products();
#pragma unroll
    for (int step = 0; step < STAGE_K / 16; step++)
        multiply(sums, descriptor(a + step * 2 * pitch * 16, pitch * 16), weights(b, step), add + step);
    commit_products();
    wait_products<1>();
}

// Copies the weights for all tiles of this block. Only one thread calls it.
__device__ __forceinline__ void copy_weights(const Params &p, unsigned shared, int own) {
    const unsigned full = shared + BARRIERS, empty = full + RING * 8;
    for (int load = 0; load < (RESIDENT ? STAGES : own * STAGES); load++) {
        const unsigned slot = load % RING;
        if (load >= RING) wait(empty + slot * 8, load / RING + 1 & 1);
        expect(full + slot * 8, STAGE_BYTES);
        copy_bytes(shared + slot * STAGE_BYTES, p.weights + (long long)(load % STAGES) * (STAGE_BYTES / 2), STAGE_BYTES,
                   full + slot * 8);
    }
}

// Makes all tiles of this block. own: tiles of a warpgroup.
__device__ __forceinline__ void make_tiles(const Params &p, char *memory, int own) {
    const unsigned shared = (unsigned)__cvta_generic_to_shared(memory), full = shared + BARRIERS, empty = full + RING * 8;
    const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128, lane = threadIdx.x % 32;
    const int row = thread / 32 * 16 + lane / 4, part = lane % 4;
    const unsigned window = shared + WINDOWS + warpgroup * WINDOW_BYTES;
    const float *const vectors = (const float *)(memory + VECTORS);
    const int pitch = (ROWS + (TAPS - 1) * p.dilation) | 1;
    auto end_stage = [&](int load) {
        if (!RESIDENT && lane == 0) arrive(empty + load % RING * 8);
    };

    int load = 0, tile = blockIdx.x * WARPGROUPS + warpgroup;
    if (tile < p.tiles) begin_window(p, Tile(p, tile), window, thread);
    for (int count = 0; count < own; count++, tile += gridDim.x * WARPGROUPS) {
        const bool valid = tile < p.tiles;
        const Tile place(p, valid ? tile : 0);
        asm volatile("cp.async.wait_all;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        warpgroup_barrier(warpgroup);
        if (RESIDENT) load = 0;

        float sums[C / 2];
        pin(sums);
#pragma unroll 1
        for (int stage = 0; stage < FIRST; stage++, load++) {
            const int slot = load % RING, k = stage * STAGE_K;
            wait(full + slot * 8, load / RING & 1);
            multiply_stage(sums, window + (k % C / 8 * pitch + k / C * p.dilation) * 16, pitch, shared + slot * STAGE_BYTES,
                           stage > 0);
            if (stage > 0) end_stage(load - 1);
        }
        wait_products<0>();
        pin(sums);
        end_stage(load - 1);
        warpgroup_barrier(warpgroup);
        const int next = tile + gridDim.x * WARPGROUPS;
        if (next < p.tiles) begin_window(p, Tile(p, next), window, thread);

        unsigned inner[C / 16][4];  // the operand of the second product
#pragma unroll
        for (int group = 0; group < C / 32; group++) {
            const float *const vector = vectors + group * 32 + part * 8;
            float bias[8], frequency[8], gain[8];
            load_8(bias, vector), load_8(frequency, vector + C), load_8(gain, vector + 2 * C);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int lower = 0; lower < 2; lower++) {
                    const float *const sum = sums + (group * 4 + i) * 4 + lower * 2;
                    const float even = snake(sum[0] + bias[2 * i], frequency[2 * i], gain[2 * i]);
                    const float odd = snake(sum[1] + bias[2 * i + 1], frequency[2 * i + 1], gain[2 * i + 1]);
                    inner[group * 2 + i / 2][i % 2 * 2 + lower] = rounded(even, odd);
                }
        }
        uint4 residuals[2][C / 32];  // loaded here, to hide their latency behind the second product
        int at[2];  // of the rows in the stream
#pragma unroll
        for (int lower = 0; lower < 2; lower++) {
            at[lower] = min(place.first + row + lower * 8, p.length - 1) * C + part * 8;
            const half *const residual = p.residual + place.stream * p.residual_stream + at[lower];
#pragma unroll
            for (int group = 0; group < C / 32; group++) residuals[lower][group] = *(const uint4 *)(residual + group * 32);
        }
        pin(sums);
#pragma unroll
        for (int stage = 0; stage < STAGES - FIRST; stage++, load++) {
            const int slot = load % RING;
            wait(full + slot * 8, load / RING & 1);
            begin_products();
#pragma unroll
            for (int step = 0; step < STAGE_K / 16; step++)
                multiply(sums, inner[stage * (STAGE_K / 16) + step], weights(shared + slot * STAGE_BYTES, step), stage + step);
            commit_products();
            wait_products<1>();
            if (stage > 0) end_stage(load - 1);
        }
        wait_products<0>();
        pin(sums);
        end_stage(load - 1);

        half *const raw = p.raw ? p.raw + place.stream * p.raw_stream : nullptr;
        half *const act = p.act + place.stream * p.act_stream;
#pragma unroll
        for (int group = 0; group < C / 32; group++) {
            const float *const vector = vectors + 3 * C + group * 32 + part * 8;
            float bias[8], frequency[8], gain[8];
            load_8(bias, vector), load_8(frequency, vector + C), load_8(gain, vector + 2 * C);
#pragma unroll
            for (int lower = 0; lower < 2; lower++) {
                const uint4 residual = residuals[lower][group];
                const unsigned before[4] = {residual.x, residual.y, residual.z, residual.w};
                unsigned raws[4], acts[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float *const sum = sums + (group * 4 + i) * 4 + lower * 2;
                    const float2 x = widened(before[i]);
                    const float low = sum[0] + bias[2 * i] + x.x, high = sum[1] + bias[2 * i + 1] + x.y;
                    raws[i] = rounded(low, high);
                    acts[i] = rounded(snake(low, frequency[2 * i], gain[2 * i]),
                                      snake(high, frequency[2 * i + 1], gain[2 * i + 1]));
                }
                if (!valid || place.first + row + lower * 8 >= p.length) continue;
                const int to = at[lower] + group * 32;
                if (raw) *(uint4 *)(raw + to) = make_uint4(raws[0], raws[1], raws[2], raws[3]);
                *(uint4 *)(act + to) = make_uint4(acts[0], acts[1], acts[2], acts[3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) residual_unit(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) char memory[];
    const unsigned shared = (unsigned)__cvta_generic_to_shared(memory), full = shared + BARRIERS, empty = full + RING * 8;
    const int groups = (p.tiles + WARPGROUPS - 1) / WARPGROUPS;
    const int own = (groups - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    for (int i = threadIdx.x; i < 6 * C; i += blockDim.x) ((float *)(memory + VECTORS))[i] = p.vectors[i];
    if (threadIdx.x == 0) {
        for (int i = 0; i < RING; i++) {
            begin_barrier(full + i * 8, 1);
            begin_barrier(empty + i * 8, WARPGROUPS * 4);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (RESIDENT) {
        if (threadIdx.x == 0) copy_weights(p, shared, own);
        make_tiles(p, memory, own);
    } else if (threadIdx.x >= WARPGROUPS * 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == WARPGROUPS * 128) copy_weights(p, shared, own);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        make_tiles(p, memory, own);
    }
}
