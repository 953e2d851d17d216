// What the batched kernel computes row by row: attention, sums of partial products with RMSNorm, and sampling.
#pragma once
#include "heads.h"

struct Rows : Heads {
    using Heads::Heads;

    // Where the sums of a product go, from output `column` on of row `at` of the group.
    template <Result TO> __device__ float *destination(int at, int column, int part, int codebook) {
        const int64 batch = group.first_row + at;
        if (TO == TO_QKV) return P.qkv + batch * QKV + column;
        if (TO == TO_PARTIAL) return partial_at(at, column, part);
        return P.logits + ((P.forced ? codebook - 1 : 0) * (int64)P.rows + batch) * VOCAB + column;
    }

    __device__ void store_hidden() {
        if (owns_row())
            for (int column = team_thread * 8; column < TALKER; column += TEAM_THREADS * 8)
                *(uint4 *)(P.hidden_tiles + tile_offset(group.group, TALKER, row, column)) =
                    *(const uint4 *)(P.hidden + (int64)batch_row() * TALKER + column);
        end_phase();
    }

    __device__ void begin_position_0() {
        if (PROJECT) begin_phase();
        if (owns_row()) {
            for_quads([&](float4 &v, int column) {
                if (PROJECT) {
                    const float4 sum = partial_sum(column), bias = *(const float4 *)(P.bias + column);
                    v = widen(uint2{pack(sum.x + bias.x, sum.y + bias.y), pack(sum.z + bias.z, sum.w + bias.w)});
                } else {
                    v = widen(load_8(P.hidden + (int64)batch_row() * HIDDEN + column));
                }
            });
            store_normed(P.input_norm);
        }
        end_phase();
    }

    // Store the row's code, and begin the next pass with its embedding.
    __device__ void begin_code(int code, int codebook) {
        if (team_thread == 0) {
            memory.codes[team][codebook] = code;
            P.codes[(int64)batch_row() * CODEBOOKS + codebook] = code;
        }
        if (codebook == CODEBOOKS - 1) return;
        const bf16 *input = P.inputs + (P.offsets[codebook] + code) * HIDDEN;
        for_quads([&](float4 &v, int column) { v = widen(load_8(input + column)); });
        store_normed(P.input_norm);
    }

    __device__ void sample(int codebook) {
        begin_phase();
        if (owns_row()) {
            const int64 book = P.forced ? codebook - 1 : 0;
            const float *logits = P.logits + (book * P.rows + batch_row()) * VOCAB;
            Sampler<TEAM_THREADS> sampler(P, memory.sampling[team], TEAM + team, team_thread);
            begin_code(sampler.sample_code(logits, batch_row(), codebook), codebook);
        }
        if (codebook < CODEBOOKS - 1) end_phase();
    }

    __device__ void sum_embeddings() {
        if (!owns_row()) return;
        named_barrier(TEAM + team, TEAM_THREADS);
        for (int column = team_thread * 4; column < TALKER; column += TEAM_THREADS * 4) {
            float4 sum = {0, 0, 0, 0};
#pragma unroll
            for (int codebook = 0; codebook < CODEBOOKS; codebook++) {
                const int64 code = P.offsets[codebook] + memory.codes[team][codebook];
                const float4 v = widen(load_8(P.tables + code * TALKER + column));
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
            *(uint2 *)(P.embedding + (int64)batch_row() * TALKER + column) =
                uint2{pack(sum.x, sum.y), pack(sum.z, sum.w)};
        }
    }

    // Attention. A unit of a warp's work is one query head of a row, or both query heads of a key/value head if there are
    // many rows.
    static constexpr int QUERIES = ROWS * HEADS > BLOCKS * COMPUTE_WARPS ? 2 : 1, UNITS = HEADS / QUERIES;  // per row

    // at: a row of the group.
    __device__ int64 cache_offset(int layer, int at, int kv) {
        return (((int64)layer * P.rows + group.first_row + at) * KV_HEADS + kv) * CODEBOOKS * HEAD_DIM;
    }

    __device__ void load_positions(CachedPositions &past, int layer, int unit, int position) {
        const int64 cache = cache_offset(layer, unit / UNITS, unit % UNITS * QUERIES / 2);
#pragma unroll
        for (int p = 0; p < 16; p++) {
            past.keys[p] = past.values[p] = Cached{0, 0};
            if (p < position) {
                past.keys[p] = load_cached(P.keys + cache + p * HEAD_DIM);
                past.values[p] = load_cached(P.values + cache + p * HEAD_DIM);
            }
        }
    }

    __device__ void attend(CachedPositions &past, int layer, int unit, int position, bool last) {
        const int at = unit / UNITS, head = unit % UNITS * QUERIES, kv = head / 2;
        const float *qkv = P.qkv + ((int64)group.first_row + at) * QKV;
        const Part raw_key = load_part(qkv + (HEADS + kv) * HEAD_DIM);
        const Part raw_value = load_part(qkv + (HEADS + KV_HEADS + kv) * HEAD_DIM);
        Part queries[QUERIES];
#pragma unroll
        for (int q = 0; q < QUERIES; q++) queries[q] = load_part(qkv + (head + q) * HEAD_DIM);
        const float2 cosine = *(const float2 *)(P.cos + position * (HEAD_DIM / 2) + 2 * lane);
        const float2 sine = *(const float2 *)(P.sin + position * (HEAD_DIM / 2) + 2 * lane);
        const Cached key = rounded(norm_and_rotate(raw_key, P.k_norm + layer * HEAD_DIM, cosine, sine));
        const Cached value = rounded(raw_value);
        const int64 cache = cache_offset(layer, at, kv) + position * HEAD_DIM;
        if (head % 2 == 0) {
            store_cached(P.keys + cache, key);
            store_cached(P.values + cache, value);
        }
        if (last) return;
#pragma unroll
        for (int q = 0; q < QUERIES; q++)
            queries[q] = norm_and_rotate(queries[q], P.q_norm + layer * HEAD_DIM, cosine, sine);
        float products[QUERIES * 16];  // with 16 positions
#pragma unroll
        for (int p = 0; p < 16; p++) {
            if (p == position) past.keys[p] = key, past.values[p] = value;
            const Part k = widened(past.keys[p]);
#pragma unroll
            for (int q = 0; q < QUERIES; q++) products[q * 16 + p] = product_of(queries[q], k);
        }
        const float product = transposed_sum(products);
        const float score = lane % 16 <= position ? product * SOFTMAX_SCALE : -3.0e38f;
        const float highest = max_of_16(score), weight = lane % 16 <= position ? exponential(score - highest) : 0;
        Part sums[QUERIES] = {};
        add_weighted(sums, past, weight / sum_of_16(weight));
#pragma unroll
        for (int q = 0; q < QUERIES; q++) {
            const int column = (head + q) * HEAD_DIM + 2 * lane;
            const Cached sum = rounded(sums[q]);
            *(unsigned *)(P.attended + tile_offset(group.group, ATTENDED, at, column)) = sum.low;
            *(unsigned *)(P.attended + tile_offset(group.group, ATTENDED, at, column + HEAD_DIM / 2)) = sum.high;
        }
    }

    // Have the cached keys and values of a unit in L2 when they are loaded.
    __device__ void prefetch_positions(int layer, int unit, int position) {
        const int64 at = cache_offset(layer, unit / UNITS, unit % UNITS * QUERIES / 2) + lane * (HEAD_DIM / 2);
        if (lane / 2 >= position) return;
        prefetch_line(P.keys + at);
        prefetch_line(P.values + at);
    }

    // last: only the keys and values are needed, and the next pass begins.
    __device__ void attention(int layer, int position, bool last) {
        locate();
        const int units = group.rows * UNITS;
        int unit = warp * BLOCKS + group.block;
        CachedPositions past;
        if (unit < units) load_positions(past, layer, unit, position);  // stored in passes before
        constexpr bool SEVERAL = ROWS * UNITS > COMPUTE_WARPS * BLOCKS;  // units per warp
        if (SEVERAL)
            for (int next = unit + COMPUTE_WARPS * BLOCKS; next < units; next += COMPUTE_WARPS * BLOCKS)
                prefetch_positions(layer, next, position);
        begin_phase();
#pragma unroll 1
        while (unit < units) {
            attend(past, layer, unit, position, last);
            unit += COMPUTE_WARPS * BLOCKS;
            if (SEVERAL && unit < units) load_positions(past, layer, unit, position);
        }
        if (last && owns_row()) begin_code((int)P.first[batch_row()], 0);
        end_phase();
    }
};
