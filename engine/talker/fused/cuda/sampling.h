// Samples a code without sorting, as engine/talker/sampling.py defines it. A team of THREADS threads samples one code:
// thread i has the ids from IDS * i to IDS * (i + 1) - 1.
#pragma once

template <int THREADS> struct Sampler {
    static constexpr int IDS = VOCAB / THREADS, WARPS_OF_TEAM = THREADS / 32;

    struct Scratch {
        double sums[2][WARPS_OF_TEAM];
        uint64 maxima[2][WARPS_OF_TEAM];
        int counts[2][WARPS_OF_TEAM];
    };

    const Params &P;
    Scratch &memory;
    const int barrier, thread, warp, lane;  // the number of the team's barrier; its thread
    int parity;

    __device__ Sampler(const Params &params, Scratch &scratch, int team_barrier, int team_thread)
        : P(params), memory(scratch), barrier(team_barrier), thread(team_thread), warp(team_thread / 32),
          lane(team_thread % 32), parity(0) {}

    __device__ void meet() { named_barrier(barrier, THREADS); }

    __device__ int team_count(int mine) {
        parity ^= 1;
        int sum = warp_count(mine);
        if (lane == 0) memory.counts[parity][warp] = sum;
        meet();
        sum = 0;
        for (int w = 0; w < WARPS_OF_TEAM; w++) sum += memory.counts[parity][w];
        return sum;
    }

    __device__ double team_sum(double mine) {
        parity ^= 1;
        mine = warp_sum(mine);
        if (lane == 0) memory.sums[parity][warp] = mine;
        meet();
        mine = 0;
        for (int w = 0; w < WARPS_OF_TEAM; w++) mine += memory.sums[parity][w];
        return mine;
    }

    __device__ uint64 team_max(uint64 mine) {
        parity ^= 1;
        mine = warp_max(mine);
        if (lane == 0) memory.maxima[parity][warp] = mine;
        meet();
        for (int w = 0; w < WARPS_OF_TEAM; w++) mine = memory.maxima[parity][w] > mine ? memory.maxima[parity][w] : mine;
        return mine;
    }

    // Exclusive prefix sum over the threads of the team.
    __device__ double team_prefix_sum(double mine) {
        parity ^= 1;
        double inclusive = warp_running_sum(mine);
        if (lane == 31) memory.sums[parity][warp] = inclusive;
        meet();
        double before = inclusive - mine;
        for (int w = 0; w < warp; w++) before += memory.sums[parity][w];
        return before;
    }

    // The largest t such that at least k entries are >= t, or another t that selects the same k entries.
    __device__ int64 kth_largest(const int (&order)[IDS], int k) {
        int64 low = -2147483648ll, high = 2147483647ll;
        while (low < high) {
            int64 middle = (low + high + 1) >> 1;
            int mine = 0;
#pragma unroll
            for (int i = 0; i < IDS; i++) mine += order[i] >= middle;
            int count = team_count(mine);
            if (count == k) return middle;
            if (count > k) low = middle;
            else high = middle - 1;
        }
        return low;
    }

    // The smallest t such that entries <= t have a total weight above limit; at most top.
    __device__ int64 top_p_threshold(const int (&order)[IDS], const double (&weight)[IDS], double limit, int64 top) {
        int64 low = -2147483648ll, high = top;
        while (low < high) {
            int64 middle = (low + high) >> 1;
            double mine = 0;
#pragma unroll
            for (int i = 0; i < IDS; i++) mine += order[i] <= middle ? weight[i] : 0;
            if (team_sum(mine) > limit) high = middle;
            else low = middle + 1;
        }
        return high;
    }

    // Keep the smallest set of most likely ids whose mass reaches top_p. Equal scores are dropped in the order of their
    // ids. The last id with the top score is never dropped.
    __device__ void keep_top_p(const int (&order)[IDS], double (&weight)[IDS], float top_p, int top) {
        double all = 0, below = 0, equal = 0;
#pragma unroll
        for (int i = 0; i < IDS; i++) all += weight[i];
        double limit = (double)(1.0f - top_p) * team_sum(all);
        int64 threshold = top_p_threshold(order, weight, limit, top);
        uint64 last = 0;
#pragma unroll
        for (int i = 0; i < IDS; i++) {
            below += order[i] < threshold ? weight[i] : 0;
            equal += order[i] == threshold ? weight[i] : 0;
            if (order[i] == top) last = (uint64)(thread * IDS + i + 1);
        }
        last = team_max(last);
        below = team_sum(below);
        double reached = below + team_prefix_sum(equal);
#pragma unroll
        for (int i = 0; i < IDS; i++) {
            reached += order[i] == threshold ? weight[i] : 0;
            bool dropped = order[i] < threshold || (order[i] == threshold && reached <= limit);
            if (dropped && (uint64)(thread * IDS + i + 1) != last) weight[i] = 0;
        }
    }

    __device__ static uint64 splitmix64(uint64 z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }

    // A random number in [0, 1), equal to that of ``uniforms`` in engine/talker/sampling.py.
    __device__ double uniform(int row, int codebook) {
        uint64 counter = (uint64)(P.frames[row] * UNIFORMS_PER_FRAME + codebook + 1);
        uint64 bits = splitmix64(splitmix64((uint64)P.seeds[row]) + counter * 0x9E3779B97F4A7C15ull);
        return (double)(bits >> 32) * 2.3283064365386963e-10;
    }

    // column: a macro COLUMN_... of an integer parameter.
    __device__ int64 int_param(int column, int row) { return P.int_params[column * P.rows + row]; }

    // column: a macro COLUMN_... of a float parameter.
    __device__ float float_param(int column, int row) { return P.float_params[column * P.rows + row]; }

    // logits: VOCAB, of this row and codebook.
    __device__ int sample_code(const float *logits, int row, int codebook) {
        if (P.forced) return (int)P.forced[row * CODEBOOKS + codebook];
        logits += thread * IDS;
        const float temperature = float_param(COLUMN_TEMPERATURE, row);
        const bool greedy = temperature == 0;
        float scores[IDS];
        int order[IDS];
        uint64 best = 0;
#pragma unroll
        for (int i = 0; i < IDS; i++) {
            scores[i] = divide(load_float_cg(logits + i), greedy ? 1.0f : temperature);
            int bits = float_bits(scores[i]);
            order[i] = bits ^ ((bits >> 31) & 0x7FFFFFFF);
            uint64 key = ((uint64)((unsigned)order[i] ^ 0x80000000u) << 32) | (0xFFFFFFFFu - (thread * IDS + i));
            best = key > best ? key : best;
        }
        best = team_max(best);
        if (greedy) return (int)(0xFFFFFFFFu - (unsigned)best);
        const int top = (int)((unsigned)(best >> 32) ^ 0x80000000u);
        const float highest = bits_float(top ^ ((top >> 31) & 0x7FFFFFFF));
        const int64 top_k = int_param(COLUMN_TOP_K, row);
        const int64 threshold = top_k == 0 || top_k >= VOCAB ? -2147483648ll : kth_largest(order, (int)top_k);
        double weight[IDS], mine = 0;
#pragma unroll
        for (int i = 0; i < IDS; i++) weight[i] = order[i] >= threshold ? exponential(scores[i] - highest) : 0;
        const float top_p = float_param(COLUMN_TOP_P, row);
        if (top_p < 1) keep_top_p(order, weight, top_p, top);
#pragma unroll
        for (int i = 0; i < IDS; i++) mine += weight[i];
        const double target = uniform(row, codebook) * team_sum(mine);
        double cumulative = team_prefix_sum(mine);
        int passed = 0;
#pragma unroll
        for (int i = 0; i < IDS; i++) {
            cumulative += weight[i];
            passed += cumulative <= target;
        }
        passed = team_count(passed);
        return passed < VOCAB ? passed : VOCAB - 1;
    }
};
