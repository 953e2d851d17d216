// What the batched kernel computes row by row: attention, sums of partial products with RMSNorm, and sampling.
#pragma once
#include "batched_copies.h"

struct Rows {
    const Params &P;
    Group group;
    Shared &memory;
    int thread, warp, lane;
    int team, team_thread, row;  // the row of the group that this thread's team owns
    int parity;
    static constexpr int QUADS = (HIDDEN / 4 + TEAM_THREADS - 1) / TEAM_THREADS;
    float4 x[QUADS];  // this thread's columns of the row's residual: quad i is number i * TEAM_THREADS + team_thread

    enum Barriers { BLOCK = 0, MULTIPLY = 1, COMPUTE = 2, TEAM = 3 };

    __device__ Rows(const Params &params, const Group &place, Shared &shared)
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

    __device__ bool owns_row() const { return row < group.rows; }
    __device__ int batch_row() const { return group.first_row + row; }

    template <class ACTION> __device__ void for_quads(ACTION action) {
#pragma unroll
        for (int i = 0; i < QUADS; i++) {
            const int column = (i * TEAM_THREADS + team_thread) * 4;
            if (HIDDEN % (TEAM_THREADS * 4) == 0 || column < HIDDEN) action(x[i], column);
        }
    }

    // Store RMSNorm of the row, as an operand of products.
    __device__ void store_normed(const float *gain) {
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
            *(uint2 *)(P.normed + tile_offset(group.group, HIDDEN, row, column)) =
                uint2{pack(v.x * scale * y.x, v.y * scale * y.y), pack(v.z * scale * y.z, v.w * scale * y.w)};
        });
    }

    __device__ void store_hidden() {
        if (owns_row())
            for (int column = team_thread * 8; column < TALKER; column += TEAM_THREADS * 8)
                *(uint4 *)(P.hidden_tiles + tile_offset(group.group, TALKER, row, column)) =
                    *(const uint4 *)(P.hidden + (int64)batch_row() * TALKER + column);
        end_phase();
    }

    // The sum of the partial products of the row's columns from `column` on.
    __device__ float4 partial_sum(int column) {
        const float *at = P.partial + ((int64)group.group * PARTS * ROWS + row) * HIDDEN + column;
        float4 parts[PARTS], sum;
#pragma unroll
        for (int part = 0; part < PARTS; part++) parts[part] = load_float4_cg(at + (int64)part * ROWS * HIDDEN);
        sum = parts[0];
#pragma unroll
        for (int part = 1; part < PARTS; part++)
            sum.x += parts[part].x, sum.y += parts[part].y, sum.z += parts[part].z, sum.w += parts[part].w;
        return sum;
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

    // Add the partial products to the residual, and normalize with the gain of the next product.
    __device__ void add_partial(const float *gain) {
        begin_phase();
        if (owns_row()) {
            for_quads([&](float4 &v, int column) {
                const float4 sum = partial_sum(column);
                v.x += sum.x, v.y += sum.y, v.z += sum.z, v.w += sum.w;
            });
            store_normed(gain);
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
    // many rows. A lane has dimensions 2 lane and 2 lane + 1 of the low and of the high half.
    static constexpr int QUERIES = ROWS * HEADS > BLOCKS * COMPUTE_WARPS ? 2 : 1, UNITS = HEADS / QUERIES;  // per row

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

    struct CachedPositions {
        Cached keys[16], values[16];
    };

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
            for (int q = 0; q < QUERIES; q++)
                products[q * 16 + p] = queries[q].low.x * k.low.x + queries[q].low.y * k.low.y +
                                       queries[q].high.x * k.high.x + queries[q].high.y * k.high.y;
        }
        const float product = transposed_sum(products);
        const float score = lane % 16 <= position ? product * SOFTMAX_SCALE : -3.0e38f;
        float highest = score;
#pragma unroll
        for (int step = 8; step; step /= 2) {
            const float other = exchange(highest, step);
            highest = other > highest ? other : highest;
        }
        float weight = lane % 16 <= position ? exponential(score - highest) : 0, mass = weight;
#pragma unroll
        for (int step = 8; step; step /= 2) mass += exchange(mass, step);
        weight /= mass;
        Part sums[QUERIES] = {};
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
