// What a block computes row by row, with its threads in teams: residuals and RMSNorm.
#pragma once
#include "phases.h"

struct RowPhases {
    const Params &P;
    Group group;
    Shared &memory;
    int thread, warp, lane;
    int team, team_thread, row;  // the row of the group that this thread's team owns
    int parity;
    static constexpr int QUADS = (HIDDEN / 4 + TEAM_THREADS - 1) / TEAM_THREADS;
    float4 x[QUADS];  // this thread's columns of the row's residual: quad i is number i * TEAM_THREADS + team_thread

    enum Barriers { BLOCK = 0, MULTIPLY = 1, COMPUTE = 2, TEAM = 3, UNIT = 8 };  // TEAM, UNIT: the first of several

    __device__ RowPhases(const Params &params, const Group &place, Shared &shared)
        : P(params), group(place), memory(shared), parity(0) {
        locate();
    }

    // Computes this thread's place again. Every phase begins with it: else the compiler computes all addresses of a layer
    // before the loops, and has no registers left for sums.
    __device__ void locate() {
        group.locate(computed_here(block_index()));
        thread = computed_here(thread_index()), warp = thread / 32, lane = thread % 32;
        team = thread / TEAM_THREADS, team_thread = thread % TEAM_THREADS, row = group.block + team * BLOCKS;
    }

    // Wait until all blocks of the group have ended the phase before.
    __device__ void begin_phase() {
        if (thread_index() == 0) group.wait();
        named_barrier(COMPUTE, COMPUTE_THREADS);
        locate();
    }

    template <int NUMBER, int COUNT> __device__ void end_phase() {
        named_barrier(NUMBER, COUNT);
        if (thread_index() == 0) signal(group.word());
        group.phases++;
    }
    __device__ void end_phase() { end_phase<COMPUTE, COMPUTE_THREADS>(); }

    // After the last phase: have the last block reset the group's counter.
    __device__ void leave() {
        named_barrier(COMPUTE, COMPUTE_THREADS);
        if (thread_index() == 0) leave_word(group.word(), group.phases * BLOCKS, BLOCKS);
    }

    __device__ bool owns_row() const { return row < group.rows; }
    __device__ int batch_row() const { return group.first_row + row; }

    template <class ACTION> __device__ void for_quads(ACTION action) {
#pragma unroll
        for (int i = 0; i < QUADS; i++) {
            const int column = (i * TEAM_THREADS + team_thread) * 4;
            if (HIDDEN % (TEAM_THREADS * 4) == 0 || column < HIDDEN) action(x[i], column);
        }
    }

    // Pass RMSNorm of the row to `store`, in bfloat16: four columns at a time, and the first of them.
    template <class STORE> __device__ void normalize(const float *gain, STORE store) {
        float squares = 0;
        for_quads([&](const float4 &v, int) { squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; });
        squares = warp_sum(squares);
        parity ^= 1;
        if (lane == 0) memory.squares[parity][warp] = squares;
        named_barrier(TEAM + team, TEAM_THREADS);
        squares = 0;
        for (int w = 0; w < TEAM_THREADS / 32; w++) squares += memory.squares[parity][team * (TEAM_THREADS / 32) + w];
        const float scale = reciprocal_root(squares / HIDDEN + P.eps);
        for_quads([&](const float4 &v, int column) {
            const float4 y = *(const float4 *)(gain + column);
            store(uint2{pack(v.x * scale * y.x, v.y * scale * y.y), pack(v.z * scale * y.z, v.w * scale * y.w)}, column);
        });
    }

    // Store RMSNorm of the row, as an operand of products.
    __device__ void store_normed(const float *gain) {
        normalize(gain, [&](uint2 values, int column) {
            *(uint2 *)(P.normed + tile_offset(group.group, HIDDEN, row, column)) = values;
        });
    }

    // Partial products of outputs from `column` on of row `at` of the group: [groups, PARTS, ROWS, HIDDEN].
    __device__ float *partial_at(int at, int column, int part) {
        return P.partial + (((int64)group.group * PARTS + part) * ROWS + at) * HIDDEN + column;
    }

    // The sum of the partial products of the row's columns from `column` on.
    __device__ float4 partial_sum(int column) {
        const float *at = partial_at(row, column, 0);
        float4 parts[PARTS], sum;
#pragma unroll
        for (int part = 0; part < PARTS; part++) parts[part] = load_float4_cg(at + (int64)part * ROWS * HIDDEN);
        sum = parts[0];
#pragma unroll
        for (int part = 1; part < PARTS; part++)
            sum.x += parts[part].x, sum.y += parts[part].y, sum.z += parts[part].z, sum.w += parts[part].w;
        return sum;
    }

    __device__ void add_to_residual() {
        for_quads([&](float4 &v, int column) {
            const float4 sum = partial_sum(column);
            v.x += sum.x, v.y += sum.y, v.z += sum.z, v.w += sum.w;
        });
    }

    // Add the partial products to the residual, and normalize with the gain of the next product.
    __device__ void add_partial(const float *gain) {
        begin_phase();
        if (owns_row()) {
            add_to_residual();
            store_normed(gain);
        }
        end_phase();
    }
};
