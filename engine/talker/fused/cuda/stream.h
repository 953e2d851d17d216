// The stream of weights: prefetches from global memory into the ring buffer of each warp.
#pragma once
#include "sizes.h"

struct Stream {
    const Params &P;
    Shared &memory;
    uint4 *ring;
    const uint4 *source;
    const int cta, warp, lane, thread;
    const uint64 policy;
    int write_at, read_at;                // where in the ring the next pair is written, and read
    int next_unit, segment_end, segment;  // of the stream: the next unit to copy
    Grid grid;

    __device__ Stream(const Params &params, Shared &shared, uint4 *rings)
        : P(params), memory(shared), cta(block_index()), warp(thread_index() / 32), lane(thread_index() % 32),
          thread(thread_index()), policy(evict_first_policy()), write_at(0), read_at(0), grid(params.barrier) {
        ring = rings + warp * STAGES * PAIR + lane;
        source = P.stream + (int64)(cta * WARPS + warp) * (STREAM_UNITS / 2 * PAIR) + lane;
        for (int i = thread; i <= 2 * CODEBOOKS; i += THREADS) memory.segments[i] = segment_of(i);
        block_barrier();
        segment = PROJECT ? 0 : 1;
        next_unit = memory.segments[segment].x;
        segment_end = memory.segments[segment].y;
        for (int i = 0; i < STAGES - 1; i++) copy_next();
    }

    // Units of a segment, from begin to end. Segments: the input projection; position 0 without the end of its last
    // layer; then, for every code, the layers and a head.
    __device__ static int2 segment_of(int number) {
        if (number == 0) return int2{0, PROJECT_UNITS};
        if (number == 1) return int2{PROJECT_UNITS, PROJECT_UNITS + LAYER_UNITS - AFTER_QKV};
        if (number % 2 == 0) return int2{PROJECT_UNITS, PROJECT_UNITS + LAYER_UNITS};
        int head = PROJECT_UNITS + LAYER_UNITS + (number / 2 - 1) * Head::UNITS;
        return int2{head, head + Head::UNITS};
    }

    // Start to copy the next pair of units. Copies nothing after the last segment.
    __device__ void copy_next() {
        if (segment < 2 * CODEBOOKS) {
            const uint4 *from = source + next_unit / 2 * PAIR;
            for (int i = 0; i < PAIR; i += 32) copy_16_bytes(ring + write_at + i, from + i, policy);
            write_at = write_at + PAIR == STAGES * PAIR ? 0 : write_at + PAIR;
            next_unit += 2;
            if (next_unit == segment_end) {
                int2 next = memory.segments[++segment];
                next_unit = next.x;
                segment_end = next.y;
            }
        }
        commit_copies();
    }

    // Convert eight e4m3 values, whose order in each word is 0 2 1 3, to bfloat16.
    __device__ uint4 fp8_to_bfloat16(unsigned low, unsigned high) {
        constexpr unsigned SIGNS = 0x80008000, REST = 0x07F007F0;
        return uint4{multiply_bf16x2((low << 8 & SIGNS) | (low << 4 & REST), P.fp8_factor),
                     multiply_bf16x2((low & SIGNS) | (low >> 4 & REST), P.fp8_factor),
                     multiply_bf16x2((high << 8 & SIGNS) | (high << 4 & REST), P.fp8_factor),
                     multiply_bf16x2((high & SIGNS) | (high >> 4 & REST), P.fp8_factor)};
    }

    // Wait for the next pair of units and return it, as bfloat16.
    __device__ void next_pair(uint4 (&pair)[2]) {
        wait_copies<STAGES - 2>();
        pair[0] = ring[read_at];
        if (FP8) {
            pair[1] = fp8_to_bfloat16(pair[0].z, pair[0].w);
            pair[0] = fp8_to_bfloat16(pair[0].x, pair[0].y);
        } else {
            pair[1] = ring[read_at + 32];
        }
        read_at = read_at + PAIR == STAGES * PAIR ? 0 : read_at + PAIR;
        copy_next();
    }
};
