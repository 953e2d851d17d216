// Products of a block with wgmma. ROWS_OF_KERNEL: its row phases, with `destination`, which says where a product's sums go.
#pragma once
#include "row_phases.h"

template <class ROWS_OF_KERNEL> struct BlockProducts : ROWS_OF_KERNEL {
    WeightRing weights;
    RowRing operands;
    using ROWS_OF_KERNEL::group;
    using ROWS_OF_KERNEL::lane;
    using ROWS_OF_KERNEL::thread;
    using ROWS_OF_KERNEL::warp;

    __device__ BlockProducts(const Params &params, const Group &place, Shared &shared, const WeightRing &weight_ring,
                             const RowRing &row_ring)
        : ROWS_OF_KERNEL(params, place, shared), weights(weight_ring), operands(row_ring) {}

    // The products of a stage. They take turns with CHAINS sums, because each waits for the one before with the same sums.
    template <class SHARE, int STEP, int CHAINS, int SUMS>
    __device__ __forceinline__ void multiply_stage(float (&sums)[CHAINS][SUMS], uint64 a, uint64 b) {
        multiply_bf16(sums[STEP % CHAINS], advanced(a, STEP / 4 * 1024 + STEP % 4 * 32),
                      advanced(b, STEP / 4 * SHARE::HALF_BYTES + STEP % 4 * 32), 1);
        if constexpr (STEP + 1 < DEPTH / 16) multiply_stage<SHARE, STEP + 1>(sums, a, b);
    }

    template <int CHAIN = 0, int CHAINS, int SUMS> __device__ __forceinline__ void pin_all(float (&sums)[CHAINS][SUMS]) {
        pin(sums[CHAIN]);
        if constexpr (CHAIN + 1 < CHAINS) pin_all<CHAIN + 1>(sums);
    }

    template <class SHARE> __device__ void multiply(float (&result)[SHARE::N / 2]) {
        constexpr int N = SHARE::N, CHAINS = N > 48 ? 2 : 4;
        float sums[CHAINS][N / 2] = {};  // without values, the registers would be in use from one layer to the next
        unsigned weights_before = 0, rows_before = 0;
        pin_all(sums);
#pragma unroll 1
        for (int stage = 0; stage < SHARE::STAGES; stage++) {
            const uint64 a = swizzled_descriptor(uniform(operands.address() + warp / 4 * 8 * OCT_BYTES), OCT_BYTES);
            const uint64 b = swizzled_descriptor(uniform(weights.address()), SHARE::WEIGHT_OCT_BYTES);
            wait(operands.full_barrier(), operands.parity);
            wait(weights.full_barrier(), weights.parity);
            begin_products();
            multiply_stage<SHARE, 0>(sums, a, b);
            commit_products();
            wait_products<1>();
            if (stage > 0 && lane == 0) arrive(weights_before), arrive(rows_before);
            weights_before = weights.empty_barrier(), rows_before = operands.empty_barrier();
            weights.next(), operands.next();
        }
        wait_products<0>();
        pin_all(sums);
        if (lane == 0) arrive(weights_before), arrive(rows_before);
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            result[i] = sums[0][i] + sums[1][i];
            if (CHAINS == 4) result[i] += sums[CHAINS - 2][i] + sums[CHAINS - 1][i];
        }
    }

    template <class SHARE, Result TO> __device__ void product(int64, const bf16 *, int codebook) {
        this->locate();
        if (MULTIPLY_THREADS < COMPUTE_THREADS && thread >= MULTIPLY_THREADS) {
            group.phases++;
            return;
        }
        constexpr int N = SHARE::N;
        float sums[N / 2];
        multiply<SHARE>(sums);
        this->locate();
        const int column = lane % 4 * 2, tile = group.block % SHARE::TILES, part = group.block / SHARE::TILES;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = warp * 16 + lane / 4 + half * 8;
            if (at < group.rows) {
                if (TO == TO_INNER) {  // SwiGLU of an oct of gates and an oct of ups
#pragma unroll
                    for (int i = 0; i < N / 16; i++) {
                        const int gates = SHARE::gate_oct(i) * 4 + half * 2, ups = SHARE::up_oct(i) * 4 + half * 2;
                        const float gate = sums[gates], next = sums[gates + 1];
                        const int inner = tile * (N / 2) + i * 8 + column;
                        *(unsigned *)(this->P.inner + tile_offset(group.group, INNER, at, inner)) =
                            pack(gate / (1 + exponential(-gate)) * sums[ups],
                                 next / (1 + exponential(-next)) * sums[ups + 1]);
                    }
                } else {  // two neighboring sums of a row at a time
                    float *to = this->template destination<TO>(at, tile * N + column, part, codebook);
#pragma unroll
                    for (int i = 0; i < N / 8; i++)
                        *(float2 *)(to + i * 8) = float2{sums[i * 4 + half * 2], sums[i * 4 + half * 2 + 1]};
                }
            }
        }
        this->template end_phase<ROWS_OF_KERNEL::MULTIPLY, MULTIPLY_THREADS>();
    }
};
