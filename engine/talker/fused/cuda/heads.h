// Heads of queries, keys and values. A lane of a warp has dimensions 2 lane and 2 lane + 1 of the low and of the high half.
#pragma once
#include "row_phases.h"

struct Heads : RowPhases {
    using RowPhases::RowPhases;

    struct Part {
        float2 low, high;
    };

    __device__ Part load_part(const float *at) {
        return Part{load_float2_cg(at + 2 * lane), load_float2_cg(at + HEAD_DIM / 2 + 2 * lane)};
    }

    // RMSNorm and RoPE.
    __device__ Part norm_and_rotate(const Part &part, const float *gain, float2 cosine, float2 sine) {
        const float2 l = part.low, h = part.high;
        const float squares = warp_sum(l.x * l.x + l.y * l.y + h.x * h.x + h.y * h.y);
        const float scale = reciprocal_root(squares / HEAD_DIM + P.eps);
        const float2 low_gain = *(const float2 *)(gain + 2 * lane);
        const float2 high_gain = *(const float2 *)(gain + HEAD_DIM / 2 + 2 * lane);
        const float2 low = {l.x * scale * low_gain.x, l.y * scale * low_gain.y};
        const float2 high = {h.x * scale * high_gain.x, h.y * scale * high_gain.y};
        return Part{float2{low.x * cosine.x - high.x * sine.x, low.y * cosine.y - high.y * sine.y},
                    float2{high.x * cosine.x + low.x * sine.x, high.y * cosine.y + low.y * sine.y}};
    }

    // A key or value in bfloat16.
    struct Cached {
        unsigned low, high;
    };
    __device__ static Cached rounded(const Part &part) {
        return Cached{pack(part.low.x, part.low.y), pack(part.high.x, part.high.y)};
    }
    __device__ static Part widened(const Cached &cached) {
        const float4 v = widen(uint2{cached.low, cached.high});
        return Part{float2{v.x, v.y}, float2{v.z, v.w}};
    }
    __device__ Cached load_cached(const bf16 *at) {
        return Cached{load_2_bf16_cg(at + 2 * lane), load_2_bf16_cg(at + HEAD_DIM / 2 + 2 * lane)};
    }
    __device__ void store_cached(bf16 *at, const Cached &cached) {
        *(unsigned *)(at + 2 * lane) = cached.low;
        *(unsigned *)(at + HEAD_DIM / 2 + 2 * lane) = cached.high;
    }

    // The keys and values of 16 positions.
    struct CachedPositions {
        Cached keys[16], values[16];
    };

    __device__ static float product_of(const Part &a, const Part &b) {
        return a.low.x * b.low.x + a.low.y * b.low.y + a.high.x * b.high.x + a.high.y * b.high.y;
    }

    // sums[q] += the values of 16 positions, weighted. weight: lane i has that of query i / 16 and position i % 16.
    template <int QUERIES> __device__ void add_weighted(Part (&sums)[QUERIES], const CachedPositions &past, float weight) {
#pragma unroll
        for (int p = 0; p < 16; p++) {
            const Part v = widened(past.values[p]);
#pragma unroll
            for (int q = 0; q < QUERIES; q++) {
                const float w = broadcast(weight, q * 16 + p);
                sums[q].low.x += w * v.low.x, sums[q].low.y += w * v.low.y;
                sums[q].high.x += w * v.high.x, sums[q].high.y += w * v.high.y;
            }
        }
    }

    // Sums COUNT values over the lanes of a warp. Lane i returns the sum of the values number i % COUNT.
    template <int COUNT, int STEP = COUNT / 2> __device__ float transposed_sum(float (&values)[COUNT]) {
        const bool upper = lane & STEP;
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            const float mine = upper ? values[i + STEP] : values[i], other = upper ? values[i] : values[i + STEP];
            values[i] = mine + exchange(other, STEP);
        }
        if constexpr (STEP > 1) return transposed_sum<COUNT, STEP / 2>(values);
        return COUNT == 32 ? values[0] : values[0] + exchange(values[0], 16);
    }

    // The maximum and the sum over 16 neighboring lanes.
    __device__ static float max_of_16(float v) {
#pragma unroll
        for (int step = 8; step; step /= 2) {
            const float other = exchange(v, step);
            v = other > v ? other : v;
        }
        return v;
    }
    __device__ static float sum_of_16(float v) {
#pragma unroll
        for (int step = 8; step; step /= 2) v += exchange(v, step);
        return v;
    }
};
