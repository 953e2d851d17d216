// Attention: one warp, one row, one head; lanes hold EACH dimensions of the low and of the high half.
#pragma once
#include "products.h"

struct Attention : Products {
    static_assert(!FUSED || (WARPS == HEADS && SLICES_OUT == WARPS), "a warp mixes the head that it multiplies");
    using Products::Products;

    struct Part {
        float low[EACH], high[EACH];
    };

    __device__ Part load_part(const float *at) {
        Part part;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            part.low[i] = load_float_cg(at + lane * EACH + i);
            part.high[i] = load_float_cg(at + ROTATED + lane * EACH + i);
        }
        return part;
    }

    // As cached: bfloat16, two dimensions a word.
    struct Stored {
        unsigned low, high;
    };

    __device__ Stored load_cached(const bf16 *at) {
        static_assert(EACH <= 2, "heads of up to 128 dimensions");
        at += lane * EACH;
        if (EACH == 2) return Stored{load_2_bf16_cg(at), load_2_bf16_cg(at + ROTATED)};
        return Stored{load_1_bf16_cg(at), load_1_bf16_cg(at + ROTATED)};
    }

    __device__ static float of_word(unsigned word, int i) { return widen((bf16)(word >> (16 * i))); }

    __device__ void store_part(bf16 *at, const Part &part) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            at[lane * EACH + i] = narrow(part.low[i]);
            at[ROTATED + lane * EACH + i] = narrow(part.high[i]);
        }
    }

    __device__ Part turned(Part part, const float *gain, int position) {
        float squares = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) squares += part.low[i] * part.low[i] + part.high[i] * part.high[i];
        float scale = reciprocal_root(warp_sum(squares) / HEAD_DIM + P.eps);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int d = lane * EACH + i;
            float low = part.low[i] * scale * gain[d], high = part.high[i] * scale * gain[ROTATED + d];
            float cosine = P.cos[position * ROTATED + d], sine = P.sin[position * ROTATED + d];
            part.low[i] = low * cosine - high * sine;
            part.high[i] = high * cosine + low * sine;
        }
        return part;
    }

    __device__ static Part rounded(Part part) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            part.low[i] = widen(narrow(part.low[i]));
            part.high[i] = widen(narrow(part.high[i]));
        }
        return part;
    }

    __device__ int64 cache_of(int layer, int row, int kv_head) {
        return (((int64)layer * P.rows + row) * KV_HEADS + kv_head) * BOOKS * HEAD_DIM;
    }

    // keep: this warp writes the new key and value down for later positions.
    __device__ Part attend(int layer, int position, int row, int head, bool keep) {
        const float *qkv = P.qkv + row * QKV;
        const int kv = head / GROUP;
        const int64 cache = cache_of(layer, row, kv);
        Part query = load_part(qkv + head * HEAD_DIM);
        Part key = load_part(qkv + (HEADS + kv) * HEAD_DIM);
        Part value = load_part(qkv + (HEADS + KV_HEADS + kv) * HEAD_DIM);
        Stored keys[BOOKS], values[BOOKS];
#pragma unroll
        for (int p = 0; p < BOOKS; p++) {
            keys[p] = values[p] = Stored{0, 0};  // else they would live on from call to call
            if (p < position) {
                keys[p] = load_cached(P.keys + cache + p * HEAD_DIM);
                values[p] = load_cached(P.values + cache + p * HEAD_DIM);
            }
        }
        query = turned(query, P.q_norm + layer * HEAD_DIM, position);
        key = rounded(turned(key, P.k_norm + layer * HEAD_DIM, position));
        value = rounded(value);
        if (keep) {
            store_part(P.keys + cache + position * HEAD_DIM, key);
            store_part(P.values + cache + position * HEAD_DIM, value);
        }
        float scores[BOOKS], highest = -3.0e38f, mass = 0;
#pragma unroll
        for (int p = 0; p < BOOKS; p++) {
            scores[p] = -3.0e38f;
            if (p > position) continue;
            float product = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                float low = p == position ? key.low[i] : of_word(keys[p].low, i);
                float high = p == position ? key.high[i] : of_word(keys[p].high, i);
                product += query.low[i] * low + query.high[i] * high;
            }
            scores[p] = warp_sum(product) * SOFTMAX_SCALE;
            highest = scores[p] > highest ? scores[p] : highest;
        }
        Part sum = {};
#pragma unroll
        for (int p = 0; p < BOOKS; p++) {
            if (p > position) continue;
            float weight = exponential(scores[p] - highest);
            mass += weight;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                sum.low[i] += weight * (p == position ? value.low[i] : of_word(values[p].low, i));
                sum.high[i] += weight * (p == position ? value.high[i] : of_word(values[p].high, i));
            }
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            sum.low[i] /= mass;
            sum.high[i] /= mass;
        }
        return sum;
    }

    // Attention of all rows. last: only keys and values are wanted.
    __device__ void attention(int layer, int position, bool last) {
        if (FUSED) {
            if (last && cta > 0) return;
            for (int row = 0; row < P.rows; row++) {
                Part sum = attend(layer, position, row, warp, cta == 0 && warp % GROUP == 0);
                store_part(memory.activations + row * WIDE + warp * HEAD_DIM, sum);
            }
            warp_barrier();
        } else {
            for (int item = warp * CTAS + cta; item < P.rows * HEADS; item += CTAS * WARPS) {
                int row = item / HEADS, head = item % HEADS;
                Part sum = attend(layer, position, row, head, head % GROUP == 0);
                store_part(P.mixed + row * MIXED + head * HEAD_DIM, sum);
            }
        }
    }
};
