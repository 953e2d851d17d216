// What the kernel of the talker's layers computes row by row: attention to the paged KV cache, and the beginning and end.
#pragma once
#include "heads.h"

struct LayerRows : Heads {
    using Heads::Heads;

    // Where the sums of a product go, from output `column` on of row `at`.
    template <Result TO> __device__ float *destination(int at, int column, int part, int) {
        if (TO == TO_QKV) return P.qkv + ((int64)part * ROWS + at) * QKV + column;
        return partial_at(at, column, part);
    }

    __device__ void begin() {
        if (owns_row()) {
            for_quads([&](float4 &v, int column) { v = widen(load_8(P.input + (int64)row * HIDDEN + column)); });
            store_normed(P.input_norm);
        }
        end_phase();
    }

    __device__ void end() {
        begin_phase();
        if (!owns_row()) return;
        add_to_residual();
        normalize(P.norm, [&](uint2 values, int column) { *(uint2 *)(P.output + (int64)row * HIDDEN + column) = values; });
    }

    __device__ Part load_summed(const float *at) {
        Part sum = load_part(at), parts[QKV_PARTS];
#pragma unroll
        for (int part = 1; part < QKV_PARTS; part++) parts[part] = load_part(at + (int64)part * ROWS * QKV);
#pragma unroll
        for (int part = 1; part < QKV_PARTS; part++) {
            sum.low.x += parts[part].low.x, sum.low.y += parts[part].low.y;
            sum.high.x += parts[part].high.x, sum.high.y += parts[part].high.y;
        }
        return sum;
    }

    // A unit of work: a split of the positions of a row, for one key/value head and its two queries. The warps of a unit take
    // pages of 16 positions in turn. Which positions a warp adds depends on nothing but the row, so the sums do not either.
    struct Unit {
        int at, kv, split, position, first_page, pages;  // first_page: of the split; pages: of the split with positions
    };

    __device__ Unit unit_of(int number) {
        Unit unit;
        unit.kv = number % KV_HEADS, unit.at = number / KV_HEADS % group.rows;
        unit.split = number / KV_HEADS / group.rows;
        unit.position = (int)P.positions[unit.at];
        unit.first_page = unit.split * SPLIT_PAGES;
        const int pages = unit.position / PAGE + 1 - unit.first_page;
        unit.pages = pages < SPLIT_PAGES ? pages : SPLIT_PAGES;
        return unit;
    }

    __device__ int64 page_offset(const Unit &unit, int page) {
        const int number = P.pages[(int64)unit.at * P.table_width + unit.first_page + page];
        return number * P.page_stride + unit.kv * P.head_stride;
    }

    // The positions of a row that are in the cache when it attends.
    __device__ static int stored_positions(const Unit &unit) { return unit.position + PROMPTS; }

    // Load the stored positions of a page. page: of the split.
    __device__ __forceinline__ void load_page(CachedPositions &past, int layer, const Unit &unit, int page) {
        const int64 offset = page_offset(unit, page);
        const bf16 *keys = P.caches[2 * layer] + offset, *values = P.caches[2 * layer + 1] + offset;
        const int stored = stored_positions(unit) - (unit.first_page + page) * PAGE;
#pragma unroll
        for (int p = 0; p < 16; p++) {
            past.keys[p] = past.values[p] = Cached{0, 0};
            if (p < stored) {
                past.keys[p] = load_cached(keys + p * P.position_stride);
                past.values[p] = load_cached(values + p * P.position_stride);
            }
        }
    }

    // Have the stored positions of a page in L2 when they are loaded.
    __device__ void prefetch_page(int layer, const Unit &unit, int page) {
        if (lane / 2 >= unit.position - (unit.first_page + page) * PAGE) return;
        const int64 offset = page_offset(unit, page) + lane / 2 * P.position_stride + lane % 2 * (HEAD_DIM / 2);
        prefetch_line(P.caches[2 * layer] + offset);
        prefetch_line(P.caches[2 * layer + 1] + offset);
    }

    // This step's key and value of a row.
    struct NewPosition {
        Cached key, value;
    };

    // Compute the key and value of row `at`, and store them in the cache.
    __device__ __forceinline__ NewPosition store_new_position(int layer, int at, int kv, float2 cosine, float2 sine) {
        const float *qkv = P.qkv + (int64)at * QKV + (HEADS + kv) * HEAD_DIM;
        const Part raw_key = load_summed(qkv), raw_value = load_summed(qkv + KV_HEADS * HEAD_DIM);
        const NewPosition added = {rounded(norm_and_rotate(raw_key, P.k_norm + layer * HEAD_DIM, cosine, sine)),
                                   rounded(raw_value)};
        const int64 slot = P.slots[at];
        if (slot >= 0) {
            const int64 to = slot / PAGE * P.page_stride + slot % PAGE * P.position_stride + kv * P.head_stride;
            store_cached(P.caches[2 * layer] + to, added.key);
            store_cached(P.caches[2 * layer + 1] + to, added.value);
        }
        return added;
    }

    // Add this step's key and value of the row to the loaded page and to the cache.
    __device__ __forceinline__ void add_new_position(CachedPositions &past, int layer, const Unit &unit, float2 cosine, float2 sine) {
        const NewPosition added = store_new_position(layer, unit.at, unit.kv, cosine, sine);
#pragma unroll
        for (int p = 0; p < 16; p++) {  // selected, because stores to an index would put the arrays in local memory
            const bool here = p == unit.position % PAGE;
            past.keys[p] = Cached{here ? added.key.low : past.keys[p].low, here ? added.key.high : past.keys[p].high};
            past.values[p] =
                Cached{here ? added.value.low : past.values[p].low, here ? added.value.high : past.values[p].high};
        }
    }

    __device__ float2 angles(const float *table, int position) {
        return *(const float2 *)(table + (int64)position * (HEAD_DIM / 2) + 2 * lane);
    }

    // Store the keys and values of all rows, before any row attends: the later rows of a prompt attend to the earlier ones.
    __device__ void store_positions(int layer) {
        begin_phase();
        for (int number = warp * BLOCKS + group.block; number < group.rows * KV_HEADS; number += COMPUTE_WARPS * BLOCKS) {
            const int at = number / KV_HEADS, position = (int)P.positions[at];
            store_new_position(layer, at, number % KV_HEADS, angles(P.cos, position), angles(P.sin, position));
        }
        end_phase();
    }

    // Leave this warp's sums over its pages in shared memory. past: its first page.
    __device__ __forceinline__ void attend(CachedPositions &past, int layer, const Unit &unit) {
        const float *qkv = P.qkv + (int64)unit.at * QKV + unit.kv * 2 * HEAD_DIM;
        const float2 cosine = angles(P.cos, unit.position), sine = angles(P.sin, unit.position);
        Part queries[2], sums[2] = {};
#pragma unroll
        for (int q = 0; q < 2; q++) queries[q] = load_summed(qkv + q * HEAD_DIM);
#pragma unroll
        for (int q = 0; q < 2; q++)
            queries[q] = norm_and_rotate(queries[q], P.q_norm + layer * HEAD_DIM, cosine, sine);
        float highest = -3.0e38f, mass = 0;  // of query lane / 16
#pragma unroll 1
        for (int page = unit_warp(); page < unit.pages; page += UNIT_WARPS) {
            const int left = unit.position - (unit.first_page + page) * PAGE;  // position lane % 16 exists if it is <= left
            if (page > unit_warp()) load_page(past, layer, unit, page);
            if (!PROMPTS && left < PAGE) add_new_position(past, layer, unit, cosine, sine);
            float products[32];
#pragma unroll
            for (int p = 0; p < 16; p++) {
                const Part key = widened(past.keys[p]);
#pragma unroll
                for (int q = 0; q < 2; q++) products[q * 16 + p] = product_of(queries[q], key);
            }
            const float product = transposed_sum(products);
            const float score = lane % 16 <= left ? product * SOFTMAX_SCALE : -3.0e38f;
            const float page_highest = max_of_16(score), before = highest;
            highest = page_highest > highest ? page_highest : highest;
            const float scale = exponential(before - highest);
            const float weight = lane % 16 <= left ? exponential(score - highest) : 0;
            mass = mass * scale + sum_of_16(weight);
#pragma unroll
            for (int q = 0; q < 2; q++) {
                const float each = broadcast(scale, q * 16);
                sums[q].low.x *= each, sums[q].low.y *= each, sums[q].high.x *= each, sums[q].high.y *= each;
            }
            add_weighted(sums, past, weight);
        }
#pragma unroll
        for (int q = 0; q < 2; q++) {
            *(float2 *)(memory.sums[warp][q] + 2 * lane) = sums[q].low;
            *(float2 *)(memory.sums[warp][q] + HEAD_DIM / 2 + 2 * lane) = sums[q].high;
        }
        if (lane % 16 == 0) memory.masses[warp][lane / 16] = float2{highest, mass};
    }

    // A sum of weighted values, the highest score and the sum of the weights. `load` returns those of part i.
    struct Weighted {
        float sum, highest, mass;
    };
    template <class LOAD> __device__ static Weighted combined(int parts, LOAD load) {
        Weighted all = load(0);
        for (int i = 1; i < parts; i++) {
            const Weighted next = load(i);
            const float highest = next.highest > all.highest ? next.highest : all.highest;
            const float scale = exponential(all.highest - highest), next_scale = exponential(next.highest - highest);
            all = Weighted{all.sum * scale + next.sum * next_scale, highest, all.mass * scale + next.mass * next_scale};
        }
        return all;
    }

    // The block's warps in teams, each of which attends for one unit at a time.
    __device__ int unit_team() { return warp / UNIT_WARPS; }
    __device__ int unit_warp() { return warp % UNIT_WARPS; }
    __device__ void unit_barrier() { named_barrier(UNIT + unit_team(), UNIT_THREADS); }

    // A thread's share of the sums of a unit. `action` gets each, with its query and dimension.
    static constexpr int SUMS = 2 * HEAD_DIM / UNIT_THREADS;
    template <class ACTION> __device__ void for_sums(Weighted (&sums)[SUMS], ACTION action) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) {
            const int item = thread % UNIT_THREADS + i * UNIT_THREADS;
            action(sums[i], item / HEAD_DIM, item % HEAD_DIM);
        }
    }

    // Combine the sums of the warps, and those of the splits: the team that ends last does this, in the order of splits.
    __device__ void combine(const Unit &unit) {
        const int first_thread = thread % UNIT_THREADS, first_warp = unit_team() * UNIT_WARPS;
        const int splits = unit.position / SPLIT_POSITIONS + 1;
        const int parts = unit.pages < UNIT_WARPS ? unit.pages : UNIT_WARPS;
        Weighted all[SUMS];
        for_sums(all, [&](Weighted &each, int q, int d) {
            each = combined(parts, [&](int w) {
                const float2 mass = memory.masses[first_warp + w][q];
                return Weighted{memory.sums[first_warp + w][q][d], mass.x, mass.y};
            });
        });
        if (splits > 1) {
            const int item = unit.at * KV_HEADS + unit.kv;
            const int64 first = (int64)item * P.splits * 2;
            for_sums(all, [&](const Weighted &each, int q, int d) {
                P.split_sums[(first + unit.split * 2 + q) * HEAD_DIM + d] = each.sum;
                if (d == 0) P.split_masses[first + unit.split * 2 + q] = float2{each.highest, each.mass};
            });
            unsigned &arrived_before = memory.arrived_before[unit_team()];
            unit_barrier();
            if (first_thread == 0) arrived_before = add_to_word(P.arrived + item);
            unit_barrier();
            if (arrived_before != splits - 1) return;
            if (first_thread == 0) P.arrived[item] = 0;
            for_sums(all, [&](Weighted &each, int q, int d) {
                each = combined(splits, [&](int split) {
                    const float2 mass = load_float2_cg((const float *)(P.split_masses + first + split * 2 + q));
                    return Weighted{load_float_cg(P.split_sums + (first + split * 2 + q) * HEAD_DIM + d), mass.x, mass.y};
                });
            });
        }
        for_sums(all, [&](const Weighted &each, int q, int d) {
            P.attended[tile_offset(0, ATTENDED, unit.at, (unit.kv * 2 + q) * HEAD_DIM + d)] = narrow(each.sum / each.mass);
        });
    }

    // Most splits of a row.
    __device__ int most_splits() {
        int most = 0;
        for (int at = 0; at < group.rows; at++) {
            const int position = (int)P.positions[at];
            most = position > most ? position : most;
        }
        return most / SPLIT_POSITIONS + 1;
    }

    __device__ void attention(int layer, int splits) {
        locate();
        const int units = group.rows * KV_HEADS * splits;
        int number = group.block + unit_team() * BLOCKS;
        CachedPositions past;
        Unit unit;
        auto begin_unit = [&] {
            if (number >= units) return;
            unit = unit_of(number);
            if (unit_warp() < unit.pages) load_page(past, layer, unit, unit_warp());
        };
        if (!PROMPTS && number < units) {  // earlier steps have stored the positions before this one
            begin_unit();
            for (int page = unit_warp() + UNIT_WARPS; page < unit.pages; page += UNIT_WARPS) prefetch_page(layer, unit, page);
        }
        begin_phase();
        if (PROMPTS) begin_unit();
#pragma unroll 1
        while (number < units) {
            if (unit.pages > 0) {  // else the row has fewer splits
                if (unit_warp() < unit.pages) attend(past, layer, unit);
                unit_barrier();
                combine(unit);
                unit_barrier();
            }
            number += BLOCKS * UNITS;
            begin_unit();
        }
        end_phase();
    }
};
