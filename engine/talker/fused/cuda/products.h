// Matrix products of all rows on tensor cores, and the RMSNorm before them.
#pragma once
#include "stream.h"

struct Products : Stream {
    using Stream::Stream;

    // Load activations of a warp's slice: rows of `from` with `stride`, in shared memory or, if GLOBAL, in L2.
    template <bool GLOBAL> __device__ uint4 load_activations(const bf16 *from, int stride, int row, int column) {
        if (row >= P.rows) return uint4{0, 0, 0, 0};
        const bf16 *at = from + row * stride + column;
        return GLOBAL ? load_16_cg(at) : *(const uint4 *)at;
    }

    // Compute this block's rows of the product: one partial sum per slice, in memory.partial.
    template <class SHARE, bool GLOBAL> __device__ void multiply(const bf16 *from, int stride) {
        constexpr int NO = SHARE::NO, UN = SHARE::UN, GROUPS = WARPS / SHARE::S;
        static_assert(UN * NO % 2 == 0, "units come in pairs");
        const int slice = warp / GROUPS, first_oct = warp % GROUPS * NO, g = lane / 4, t = lane % 4;
        float sums[NO][4] = {};
        uint4 low[UN], high[UN];
#pragma unroll
        for (int u = 0; u < UN; u++) {
            int column = (slice * UN + u) * 32 + 8 * t;
            low[u] = load_activations<GLOBAL>(from, stride, g, column);
            high[u] = uint4{0, 0, 0, 0};  // FUSED has one row, which is in the lower half of the tile
            if (!FUSED) high[u] = load_activations<GLOBAL>(from, stride, g + 8, column);
        }
        if (GLOBAL) warp_barrier();  // else the compiler spreads the loads out, and their latencies do not overlap
#pragma unroll
        for (int i = 0; i < UN * NO; i += 2) {
            uint4 pair[2];
            next_pair(pair);
#pragma unroll
            for (int j = i; j < i + 2; j++) {
                uint4 w = pair[j - i], a = low[j / NO], b = high[j / NO];
                matrix_product(sums[j % NO], a.x, b.x, a.y, b.y, w.x, w.y);
                matrix_product(sums[j % NO], a.z, b.z, a.w, b.w, w.z, w.w);
            }
        }
#pragma unroll
        for (int o = 0; o < NO; o++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = g + 8 * half;
                if (row < P.rows) {
                    float *to = memory.partial + ((slice * SHARE::OCTS + first_oct + o) * ROWS + row) * 8 + 2 * t;
                    to[0] = sums[o][2 * half];
                    to[1] = sums[o][2 * half + 1];
                }
            }
        block_barrier();
    }

    // Sum over all slices of output `column` of this block (oct = column / 8) for a row.
    template <class SHARE> __device__ float total(int row, int column) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < SHARE::S; s++)
            sum += memory.partial[((s * SHARE::OCTS + column / 8) * ROWS + row) * 8 + column % 8];
        return sum;
    }

    // The input of a row at the beginning of a pass: a row of a table, or nullptr if the input is in P.x.
    __device__ const bf16 *input_row(int row, int position) {
        if (position > 0) {
            int64 code = P.offsets[position - 1] + memory.codes[row][position - 1];
            return P.inputs + code * HIDDEN;
        }
        return PROJECT ? nullptr : P.hidden + (int64)row * HIDDEN;
    }

    // RMSNorm of all rows into memory.activations. position: the pass's if it begins here, else -1.
    __device__ void normalize(const float *gain, int position) {
        constexpr int PARTS = HIDDEN / 128;
        for (int row = warp; row < P.rows; row += WARPS) {
            const bf16 *input = position < 0 ? nullptr : input_row(row, position);
            float4 x[PARTS];
            float squares = 0;
#pragma unroll
            for (int i = 0; i < PARTS; i++) {
                int column = (i * 32 + lane) * 4;
                x[i] = input ? widen(load_8(input + column)) : load_float4_cg(P.x + row * HIDDEN + column);
            }
#pragma unroll
            for (int i = 0; i < PARTS; i++)
                squares += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
            float scale = reciprocal_root(warp_sum(squares) / HIDDEN + P.eps);
#pragma unroll
            for (int i = 0; i < PARTS; i++) {
                int column = (i * 32 + lane) * 4;
                float4 y = *(const float4 *)(gain + column);
                uint2 packed = {pack(x[i].x * scale * y.x, x[i].y * scale * y.y),
                                pack(x[i].z * scale * y.z, x[i].w * scale * y.w)};
                *(uint2 *)(memory.activations + row * STRIDE + column) = packed;
            }
        }
        block_barrier();
    }
};
