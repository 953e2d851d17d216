// Attention: a warp computes one head of one row. A lane holds PER_LANE dimensions of the low and of the high half.
#pragma once
#include "products.h"

struct Attention : Products {
    static_assert(!FUSED || (WARPS == HEADS && SLICES_OUT == WARPS), "a warp attends for the head that it multiplies");
    using Products::Products;

    struct Part {
        float low[PER_LANE], high[PER_LANE];
    };

    __device__ Part load_part(const float *at) {
        Part part;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            part.low[i] = load_float_cg(at + lane * PER_LANE + i);
            part.high[i] = load_float_cg(at + ROTATED + lane * PER_LANE + i);
        }
        return part;
    }

    // A cached key or value: bfloat16, two dimensions per word.
    struct Cached {
        unsigned low, high;
    };

    __device__ Cached load_cached(const bf16 *at) {
        static_assert(PER_LANE <= 2, "heads of up to 128 dimensions");
        at += lane * PER_LANE;
        if (PER_LANE == 2) return Cached{load_2_bf16_cg(at), load_2_bf16_cg(at + ROTATED)};
        return Cached{load_1_bf16_cg(at), load_1_bf16_cg(at + ROTATED)};
    }

    __device__ static float from_word(unsigned word, int i) { return widen((bf16)(word >> (16 * i))); }

    __device__ void store_part(bf16 *at, const Part &part) {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            at[lane * PER_LANE + i] = narrow(part.low[i]);
            at[ROTATED + lane * PER_LANE + i] = narrow(part.high[i]);
        }
    }

    // RMSNorm and RoPE.
    __device__ Part norm_and_rotate(Part part, const float *gain, int position) {
        float squares = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) squares += part.low[i] * part.low[i] + part.high[i] * part.high[i];
        float scale = reciprocal_root(warp_sum(squares) / HEAD_DIM + P.eps);
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int d = lane * PER_LANE + i;
            float low = part.low[i] * scale * gain[d], high = part.high[i] * scale * gain[ROTATED + d];
            float cosine = P.cos[position * ROTATED + d], sine = P.sin[position * ROTATED + d];
            part.low[i] = low * cosine - high * sine;
            part.high[i] = high * cosine + low * sine;
        }
        return part;
    }

    __device__ static Part round_to_bf16(Part part) {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            part.low[i] = widen(narrow(part.low[i]));
            part.high[i] = widen(narrow(part.high[i]));
        }
        return part;
    }

    __device__ int64 cache_offset(int layer, int row, int kv_head) {
        return (((int64)layer * P.rows + row) * KV_HEADS + kv_head) * CODEBOOKS * HEAD_DIM;
    }

    // write_cache: whether this warp stores the new key and value for later positions.
    __device__ Part attend(int layer, int position, int row, int head, bool write_cache) {
        const float *qkv = P.qkv + row * QKV;
        const int kv = head / GROUP;
        const int64 cache = cache_offset(layer, row, kv);
        Part query = load_part(qkv + head * HEAD_DIM);
        Part key = load_part(qkv + (HEADS + kv) * HEAD_DIM);
        Part value = load_part(qkv + (HEADS + KV_HEADS + kv) * HEAD_DIM);
        Cached keys[CODEBOOKS], values[CODEBOOKS];
#pragma unroll
        for (int p = 0; p < CODEBOOKS; p++) {
            keys[p] = values[p] = Cached{0, 0};  // else the compiler keeps them in registers between calls
            if (p < position) {
                keys[p] = load_cached(P.keys + cache + p * HEAD_DIM);
                values[p] = load_cached(P.values + cache + p * HEAD_DIM);
            }
        }
        query = norm_and_rotate(query, P.q_norm + layer * HEAD_DIM, position);
        key = round_to_bf16(norm_and_rotate(key, P.k_norm + layer * HEAD_DIM, position));
        value = round_to_bf16(value);
        if (write_cache) {
            store_part(P.keys + cache + position * HEAD_DIM, key);
            store_part(P.values + cache + position * HEAD_DIM, value);
        }
        float scores[CODEBOOKS], highest = -3.0e38f, mass = 0;
#pragma unroll
        for (int p = 0; p < CODEBOOKS; p++) {
            scores[p] = -3.0e38f;
            if (p > position) continue;
            float product = 0;
#pragma unroll
            for (int i = 0; i < PER_LANE; i++) {
                float low = p == position ? key.low[i] : from_word(keys[p].low, i);
                float high = p == position ? key.high[i] : from_word(keys[p].high, i);
                product += query.low[i] * low + query.high[i] * high;
            }
            scores[p] = warp_sum(product) * SOFTMAX_SCALE;
            highest = scores[p] > highest ? scores[p] : highest;
        }
        Part sum = {};
#pragma unroll
        for (int p = 0; p < CODEBOOKS; p++) {
            if (p > position) continue;
            float weight = exponential(scores[p] - highest);
            mass += weight;
#pragma unroll
            for (int i = 0; i < PER_LANE; i++) {
                sum.low[i] += weight * (p == position ? value.low[i] : from_word(values[p].low, i));
                sum.high[i] += weight * (p == position ? value.high[i] : from_word(values[p].high, i));
            }
        }
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            sum.low[i] /= mass;
            sum.high[i] /= mass;
        }
        return sum;
    }

    // Attention of all rows. last: only the keys and values are needed.
    __device__ void attention(int layer, int position, bool last) {
        if (FUSED) {
            if (last && cta > 0) return;
            for (int row = 0; row < P.rows; row++) {
                Part sum = attend(layer, position, row, warp, cta == 0 && warp % GROUP == 0);
                store_part(memory.activations + row * WIDE_STRIDE + warp * HEAD_DIM, sum);
            }
            warp_barrier();
        } else {
            for (int item = warp * CTAS + cta; item < P.rows * HEADS; item += CTAS * WARPS) {
                int row = item / HEADS, head = item % HEADS;
                Part sum = attend(layer, position, row, head, head % GROUP == 0);
                store_part(P.attended + row * ATTENDED + head * HEAD_DIM, sum);
            }
        }
    }
};
