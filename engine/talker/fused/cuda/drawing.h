// Drawing a code without sorting, by a whole block: thread i has ids DRAWN i to DRAWN i + DRAWN - 1.
#pragma once
#include "attention.h"

struct Drawing : Attention {
    using Attention::Attention;

    __device__ int block_count(int mine) {
        parity ^= 1;
        int sum = warp_count(mine);
        if (lane == 0) memory.counts[parity][warp] = sum;
        block_barrier();
        sum = 0;
        for (int w = 0; w < WARPS; w++) sum += memory.counts[parity][w];
        return sum;
    }

    __device__ double block_sum(double mine) {
        parity ^= 1;
        mine = warp_sum(mine);
        if (lane == 0) memory.sums[parity][warp] = mine;
        block_barrier();
        mine = 0;
        for (int w = 0; w < WARPS; w++) mine += memory.sums[parity][w];
        return mine;
    }

    __device__ uint64 block_top(uint64 mine) {
        parity ^= 1;
        mine = warp_top(mine);
        if (lane == 0) memory.tops[parity][warp] = mine;
        block_barrier();
        for (int w = 0; w < WARPS; w++) mine = memory.tops[parity][w] > mine ? memory.tops[parity][w] : mine;
        return mine;
    }

    // What the earlier threads of the block have, given what each has.
    __device__ double block_before(double mine) {
        parity ^= 1;
        double upto = warp_running_sum(mine);
        if (lane == 31) memory.sums[parity][warp] = upto;
        block_barrier();
        double before = upto - mine;
        for (int w = 0; w < warp; w++) before += memory.sums[parity][w];
        return before;
    }

    // The greatest t of which at least k entries are >= t, or any that parts the same k from the rest.
    __device__ int64 kth_largest(const int (&order)[DRAWN], int k) {
        int64 low = -2147483648ll, high = 2147483647ll;
        while (low < high) {
            int64 middle = (low + high + 1) >> 1;
            int mine = 0;
            for (int i = 0; i < DRAWN; i++) mine += order[i] >= middle;
            int count = block_count(mine);
            if (count == k) return middle;
            if (count > k) low = middle;
            else high = middle - 1;
        }
        return low;
    }

    // The least t for which entries <= t weigh more than limit, at most top.
    __device__ int64 tail_end(const int (&order)[DRAWN], const double (&weight)[DRAWN], double limit, int64 top) {
        int64 low = -2147483648ll, high = top;
        while (low < high) {
            int64 middle = (low + high) >> 1;
            double mine = 0;
            for (int i = 0; i < DRAWN; i++) mine += order[i] <= middle ? weight[i] : 0;
            if (block_sum(mine) > limit) high = middle;
            else low = middle + 1;
        }
        return high;
    }

    // Of the likeliest ids the fewest that reach top_p stay; equal ones fall in the order of their ids, the last never.
    __device__ void cut_tail(const int (&order)[DRAWN], double (&weight)[DRAWN], float top_p, int top) {
        double all = 0, below = 0, equal = 0;
        for (int i = 0; i < DRAWN; i++) all += weight[i];
        double limit = (double)(1.0f - top_p) * block_sum(all);
        int64 edge = tail_end(order, weight, limit, top);
        uint64 last = 0;
        for (int i = 0; i < DRAWN; i++) {
            below += order[i] < edge ? weight[i] : 0;
            equal += order[i] == edge ? weight[i] : 0;
            if (order[i] == top) last = (uint64)(thread * DRAWN + i + 1);
        }
        last = block_top(last);
        below = block_sum(below);
        double reached = below + block_before(equal);
        for (int i = 0; i < DRAWN; i++) {
            reached += order[i] == edge ? weight[i] : 0;
            bool dropped = order[i] < edge || (order[i] == edge && reached <= limit);
            if (dropped && (uint64)(thread * DRAWN + i + 1) != last) weight[i] = 0;
        }
    }

    __device__ static uint64 mixed(uint64 z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }

    __device__ double chance(int row, int book) {
        uint64 counter = (uint64)(P.frames[row] * CODEBOOKS + book + 1);
        uint64 bits = mixed(mixed((uint64)P.seeds[row]) + counter * 0x9E3779B97F4A7C15ull);
        return (double)(bits >> 32) * 2.3283064365386963e-10;
    }

    __device__ int draw(int row, int book) {
        if (P.forced) return (int)P.forced[row * BOOKS + book];
        const float *logits = P.logits + ((int64)row * (BOOKS - 1) + book - 1) * VOCAB + thread * DRAWN;
        const float temperature = P.temperature[row];
        const bool greedy = temperature == 0;
        float scores[DRAWN];
        int order[DRAWN];
        uint64 best = 0;
        for (int i = 0; i < DRAWN; i++) {
            scores[i] = divide(load_float_cg(logits + i), greedy ? 1.0f : temperature);
            int bits = float_bits(scores[i]);
            order[i] = bits ^ ((bits >> 31) & 0x7FFFFFFF);
            uint64 key = ((uint64)((unsigned)order[i] ^ 0x80000000u) << 32) | (0xFFFFFFFFu - (thread * DRAWN + i));
            best = key > best ? key : best;
        }
        best = block_top(best);
        if (greedy) return (int)(0xFFFFFFFFu - (unsigned)best);
        const int top = (int)((unsigned)(best >> 32) ^ 0x80000000u);
        const float highest = bits_float(top ^ ((top >> 31) & 0x7FFFFFFF));
        const int64 k = P.top_k[row];
        const int64 threshold = k == 0 || k >= VOCAB ? -2147483648ll : kth_largest(order, (int)k);
        double weight[DRAWN], mine = 0;
        for (int i = 0; i < DRAWN; i++) weight[i] = order[i] >= threshold ? exponential(scores[i] - highest) : 0;
        if (P.top_p[row] < 1) cut_tail(order, weight, P.top_p[row], top);
        for (int i = 0; i < DRAWN; i++) mine += weight[i];
        const double target = chance(row, book) * block_sum(mine);
        double upto = block_before(mine);
        int passed = 0;
        for (int i = 0; i < DRAWN; i++) {
            upto += weight[i];
            passed += upto <= target;
        }
        passed = block_count(passed);
        return passed < VOCAB ? passed : VOCAB - 1;
    }
};
