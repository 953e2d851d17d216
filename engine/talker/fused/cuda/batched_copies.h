// The warp that copies weights of the batched kernel: packed tiles, each contiguous.
#pragma once
#include "phases.h"

struct WeightCopies : WeightStages {
    const Params &P;
    const int block;

    __device__ WeightCopies(const Params &params, const Group &group, const WeightRing &weights)
        : WeightStages(weights), P(params), block(group.block) {}

    template <class SHARE, Result> __device__ void product(int64 matrix, const bf16 *, int) {
        const int tile = block % SHARE::TILES, part = block / SHARE::TILES;
        const char *from = (const char *)(P.matrices + matrix) +
                           (int64)(tile * SHARE::COPIES * SHARE::ALL_STAGES + part * SHARE::STAGES) * SHARE::TILE_BYTES;
#pragma unroll 1
        for (int stage = 0; stage < SHARE::STAGES; stage++, from += SHARE::TILE_BYTES) {
            begin_stage(SHARE::COPIES * SHARE::TILE_BYTES);
#pragma unroll
            for (int copy = 0; copy < SHARE::COPIES; copy++)
                copy_bytes(ring.address() + copy * SHARE::TILE_BYTES,
                           from + (int64)copy * SHARE::ALL_STAGES * SHARE::TILE_BYTES, SHARE::TILE_BYTES,
                           ring.full_barrier(), policy);
            ring.next();
        }
    }
    __device__ void store_hidden() {}
    __device__ void begin_position_0() {}
    __device__ void attention(int, int, bool) {}
    __device__ void add_partial(const float *) {}
    __device__ void sample(int) {}
};
