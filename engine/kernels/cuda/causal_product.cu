// A causal convolution of Code2Wav as a matrix product, with bias, residual and SnakeBeta in the same launch. Reference
// implementation: TorchOps.product.
//
// A block makes tiles of 128 rows: the same time steps of one stream or of several. One warp copies the operands to
// shared memory, in stages through a ring buffer: the rows by the tensor copy engine, at another time step for each tap,
// and the weights, which are packed as stages. Two warpgroups multiply.
//
// Columns are permuted (permutation in codec_units.py), so that a thread has 8 consecutive columns.
#include "codec.h"
#include "wgmma.h"

constexpr int N = COLUMNS, ROWS = 128, DEPTH = 64, WARPS = 8;  // warps that multiply
constexpr int A_BYTES = ROWS * DEPTH * 2, B_BYTES = N * DEPTH * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int RING = 200 * 1024 / STAGE_BYTES, BARRIERS = RING * STAGE_BYTES, SHARED_BYTES = BARRIERS + 2 * RING * 8;
extern "C" __constant__ int shared_bytes = SHARED_BYTES;

struct alignas(64) TensorMap {
    char opaque[128];
};
struct Params {
    TensorMap x;  // [streams, time steps with the history, inputs]
    const half *weights;
    const float *vectors;  // [3, columns]: bias, frequency, gain
    const half *residual;
    half *raw, *act;
    long long residual_stream, raw_stream, act_stream;
    int streams, columns, inputs, stages, dilation;
    int times, time_blocks, tiles;  // time steps of a tile; tiles of a stream's time steps; tiles in all
};

struct Tile {
    int column, stream, time;  // of its first element
    __device__ Tile(const Params &p, int tile) {
        const int columns = p.columns / N, place = tile / columns;
        column = tile % columns * N;
        stream = place / p.time_blocks * (ROWS / p.times);
        time = place % p.time_blocks * p.times;
    }
};

__device__ __forceinline__ void load_8(float (&v)[8], const float *at) {
    const float4 low = *(const float4 *)at, high = *(const float4 *)(at + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w, v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

// Copies the operands of all tiles of this block. Only one thread calls it.
__device__ __forceinline__ void copy_operands(const Params &p, unsigned shared, unsigned full, unsigned empty) {
    int load = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const Tile place(p, tile);
        const char *weights = (const char *)p.weights + (long long)(place.column / N) * p.stages * B_BYTES;
        int channel = 0, time = place.time;
        for (int stage = 0; stage < p.stages; stage++, load++, weights += B_BYTES) {
            const unsigned slot = load % RING, a = shared + slot * STAGE_BYTES, barrier = full + slot * 8;
            wait(empty + slot * 8, load / RING + 1 & 1);
            expect(barrier, STAGE_BYTES);
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}],"
                         " [%5];" ::"r"(a), "l"(&p.x), "r"(channel), "r"(time), "r"(place.stream), "r"(barrier)
                         : "memory");
            copy_bytes(a + A_BYTES, weights, B_BYTES, barrier);
            channel += DEPTH;
            if (channel == p.inputs) channel = 0, time += p.dilation;
        }
    }
}

// Makes all tiles of this block. Each of the warps that multiply calls it.
__device__ __forceinline__ void multiply_tiles(const Params &p, unsigned shared, unsigned full, unsigned empty, int warp,
                                               int lane) {
    const int part = lane % 4;
    int load = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const Tile place(p, tile);
        uint4 residuals[2][N / 32];  // loaded before the product, to hide their latency
        int at[2];                   // of the rows in their stream
        int stream[2];
#pragma unroll
        for (int lower = 0; lower < 2; lower++) {
            const int row = warp * 16 + lane / 4 + lower * 8;
            stream[lower] = place.stream + row / p.times;
            at[lower] = (place.time + row % p.times) * p.columns + place.column + part * 8;
            if (!p.residual || stream[lower] >= p.streams) continue;
            const half *const residual = p.residual + stream[lower] * p.residual_stream + at[lower];
#pragma unroll
            for (int group = 0; group < N / 32; group++) residuals[lower][group] = *(const uint4 *)(residual + group * 32);
        }

        float sums[N / 2];
        pin(sums);
#pragma unroll 1
        for (int stage = 0; stage < p.stages; stage++, load++) {
            const unsigned slot = load % RING, a = shared + slot * STAGE_BYTES + warp / 4 * (A_BYTES / 2);
            const unsigned b = shared + slot * STAGE_BYTES + A_BYTES;
            wait(full + slot * 8, load / RING & 1);
            begin_products();
#pragma unroll
            for (int step = 0; step < DEPTH / 16; step++)
                multiply(sums, swizzled_descriptor(a + step * 32), swizzled_descriptor(b + step * 32), stage + step);
            commit_products();
            wait_products<1>();
            if (stage > 0 && lane == 0) arrive(empty + (load - 1) % RING * 8);
        }
        wait_products<0>();
        pin(sums);
        if (lane == 0) arrive(empty + (load - 1) % RING * 8);

#pragma unroll
        for (int group = 0; group < N / 32; group++) {
            const float *const vector = p.vectors + place.column + group * 32 + part * 8;
            float bias[8], frequency[8], gain[8];
            load_8(bias, vector);
            if (p.act) load_8(frequency, vector + p.columns), load_8(gain, vector + 2 * p.columns);
#pragma unroll
            for (int lower = 0; lower < 2; lower++) {
                if (stream[lower] >= p.streams) continue;
                const uint4 residual = residuals[lower][group];
                const unsigned before[4] = {residual.x, residual.y, residual.z, residual.w};
                unsigned raws[4], acts[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float *const sum = sums + (group * 4 + i) * 4 + lower * 2;
                    float low = sum[0] + bias[2 * i], high = sum[1] + bias[2 * i + 1];
                    if (p.residual) {
                        const float2 x = widened(before[i]);
                        low += x.x, high += x.y;
                    }
                    raws[i] = rounded(low, high);
                    if (p.act)
                        acts[i] = rounded(snake(low, frequency[2 * i], gain[2 * i]),
                                          snake(high, frequency[2 * i + 1], gain[2 * i + 1]));
                }
                const int to = at[lower] + group * 32;
                if (p.raw) *(uint4 *)(p.raw + stream[lower] * p.raw_stream + to) = make_uint4(raws[0], raws[1], raws[2], raws[3]);
                if (p.act) *(uint4 *)(p.act + stream[lower] * p.act_stream + to) = make_uint4(acts[0], acts[1], acts[2], acts[3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32 + 128, 1) causal_product(const __grid_constant__ Params p) {
    extern __shared__ __align__(1024) char memory[];
    const unsigned shared = (unsigned)__cvta_generic_to_shared(memory), full = shared + BARRIERS, empty = full + RING * 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < RING; i++) {
            begin_barrier(full + i * 8, 1);
            begin_barrier(empty + i * 8, WARPS);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (warp >= WARPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (warp == WARPS && lane == 0) copy_operands(p, shared, full, empty);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        multiply_tiles(p, shared, full, empty, warp, lane);
    }
}
