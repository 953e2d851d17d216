// The code predictor in one cooperative launch per frame: CTAS blocks stay on their multiprocessors through all passes.
//
// Every warp owns a fixed share of every matrix, stored as one stream in the order in which the warp reads it. Copies
// of the stream into the warp's own ring buffer in shared memory run ahead of the arithmetic, across grid barriers and
// passes, because weights depend on nothing. Blocks exchange a few KB through L2 between barriers.
//
// A unit of a stream is 8 rows x 32 columns of a matrix: lane (g = lane / 4, t = lane % 4) has row g, columns 8 t to
// 8 t + 7, 16 bytes. It is multiplied by two mma.m16n8k16 whose k order has the same permutation on both sides, so
// activations are also read 16 bytes per lane. Units are copied and read in pairs; STAGES is the capacity of the ring
// buffer in pairs. The rows of the batch are the m side: at most 16.
//
// With FP8 the stream has one byte per weight, and a pair of units has 16 bytes per lane.
//
// Sizes are macros (Sizes.macros in persistent.py). The FUSED kernel, for one row, repeats attention and sampling in
// every block, which saves two barriers.
#include "attention.h"

// The phases of a pass; each ends with a grid barrier.
struct Predictor : Attention {
    Sampler<THREADS> sampler;

    __device__ Predictor(const Params &params, Shared &shared, uint4 *rings)
        : Attention(params, shared, rings), sampler(params, shared.sampling, 0, thread_index()) {}

    __device__ void grid_barrier() { grid.sync(); }

    __device__ void project_hidden() {
        multiply<Project, true>(P.hidden, TALKER);
        for (int i = thread; i < P.rows * Project::OCTS * 8; i += THREADS) {
            int row = i / (Project::OCTS * 8), column = i % (Project::OCTS * 8);
            int out = cta * Project::OCTS * 8 + column;
            P.x[row * HIDDEN + out] = widen(narrow(total<Project>(row, column) + P.bias[out]));
        }
        grid_barrier();
    }

    __device__ void make_qkv(int layer, int position) {
        normalize(P.input_norm + layer * HIDDEN, layer == 0 ? position : -1);
        multiply<Qkv, false>(memory.activations, STRIDE);
        for (int i = thread; i < P.rows * Qkv::OCTS * 8; i += THREADS) {
            int row = i / (Qkv::OCTS * 8), column = i % (Qkv::OCTS * 8);
            P.qkv[row * QKV + cta * Qkv::OCTS * 8 + column] = total<Qkv>(row, column);
        }
        grid_barrier();
    }

    // The value that output i of this block is added to. position: the pass's if it begins here, else -1.
    template <class SHARE> __device__ float residual(int i, int position) {
        int row = i / (SHARE::OCTS * 8), out = cta * SHARE::OCTS * 8 + i % (SHARE::OCTS * 8);
        if (row >= P.rows) return 0;
        const bf16 *input = position < 0 ? nullptr : input_row(row, position);
        return input ? widen(input[out]) : load_float_cg(P.x + row * HIDDEN + out);
    }

    // early: this thread's first residual, loaded before the product to hide its latency.
    template <class SHARE> __device__ void add_to_x(int position, float early) {
        for (int i = thread; i < P.rows * SHARE::OCTS * 8; i += THREADS) {
            int row = i / (SHARE::OCTS * 8), column = i % (SHARE::OCTS * 8);
            float before = i == thread ? early : residual<SHARE>(i, position);
            P.x[row * HIDDEN + cta * SHARE::OCTS * 8 + column] = before + total<SHARE>(row, column);
        }
        grid_barrier();
    }

    // Attention and its output projection. last: only the keys and values of this position are needed. Returns whether
    // the layer goes on.
    __device__ bool attend_and_project(int layer, int position, bool last) {
        const int input_position = layer == 0 ? position : -1;
        const float early = residual<Out>(thread, input_position);
        attention(layer, position, last);
        if (last) {
            grid_barrier();  // P.qkv is written next
            return false;
        }
        if (FUSED) {
            multiply<Out, false>(memory.activations, WIDE_STRIDE);
        } else {
            grid_barrier();
            multiply<Out, true>(P.attended, ATTENDED);
        }
        add_to_x<Out>(input_position, early);
        return true;
    }

    __device__ void feed_forward(int layer) {
        constexpr int MINE = GateUp::OCTS * 4;  // inner columns per block: the first half of its octs are gates
        normalize(P.post_norm + layer * HIDDEN, -1);
        multiply<GateUp, false>(memory.activations, STRIDE);
        for (int i = thread; i < P.rows * MINE; i += THREADS) {
            int row = i / MINE, column = i % MINE;
            float gate = total<GateUp>(row, column), up = total<GateUp>(row, MINE + column);
            P.inner[row * INNER + cta * MINE + column] = narrow(gate / (1 + exponential(-gate)) * up);
        }
        const float early = residual<Down>(thread, -1);
        grid_barrier();
        multiply<Down, true>(P.inner, INNER);
        add_to_x<Down>(-1, early);
    }

    __device__ void make_logits(int codebook) {
        normalize(P.norm, -1);
        multiply<Head, false>(memory.activations, STRIDE);
        for (int i = thread; i < P.rows * Head::OCTS * 8; i += THREADS) {
            int row = i / (Head::OCTS * 8), column = i % (Head::OCTS * 8);
            P.logits[((int64)row * (CODEBOOKS - 1) + codebook - 1) * VOCAB + cta * Head::OCTS * 8 + column] =
                total<Head>(row, column);
        }
        grid_barrier();
    }

    // Sample the codes of `codebook`, so that all blocks have them in memory.codes.
    __device__ void sample_rows(int codebook) {
        for (int row = FUSED ? 0 : cta; row < P.rows; row += FUSED ? 1 : CTAS) {
            const float *logits = P.logits + ((int64)row * (CODEBOOKS - 1) + codebook - 1) * VOCAB;
            int code = sampler.sample_code(logits, row, codebook);
            if (thread == 0) {
                if (FUSED) memory.codes[row][codebook] = code;
                if (!FUSED || cta == 0) P.codes[row * CODEBOOKS + codebook] = code;
            }
        }
        if (FUSED) {
            block_barrier();
            return;
        }
        grid_barrier();
        for (int row = thread; row < P.rows; row += THREADS)
            memory.codes[row][codebook] = (int)load_int64_cg(P.codes + row * CODEBOOKS + codebook);
        block_barrier();
    }

    __device__ void store_first_codes() {
        for (int row = thread; row < P.rows; row += THREADS) {
            memory.codes[row][0] = (int)P.first[row];
            if (cta == 0) P.codes[row * CODEBOOKS] = P.first[row];
        }
        block_barrier();
    }

    __device__ void sum_embeddings() {
        for (int i = cta * THREADS + thread; i < P.rows * TALKER; i += CTAS * THREADS) {
            int row = i / TALKER, column = i % TALKER;
            float sum = 0;
#pragma unroll
            for (int codebook = 0; codebook < CODEBOOKS; codebook++)
                sum += widen(P.tables[(P.offsets[codebook] + memory.codes[row][codebook]) * TALKER + column]);
            P.embedding[i] = narrow(sum);
        }
    }

    __device__ void pass(int position) {
#pragma unroll 1
        for (int layer = 0; layer < LAYERS; layer++) {
            make_qkv(layer, position);
            const bool last = position == 0 && layer == LAYERS - 1;
            if (!attend_and_project(layer, position, last)) return;
            feed_forward(layer);
        }
    }

    __device__ void run() {
        store_first_codes();
        if (PROJECT) project_hidden();
#pragma unroll 1
        for (int codebook = 0; codebook < CODEBOOKS; codebook++) {
            pass(codebook);
            if (codebook == 0) continue;
            make_logits(codebook);
            sample_rows(codebook);
        }
        sum_embeddings();
        grid.leave();
    }
};

// Shared memory in bytes, read by the host.
extern "C" __device__ const int shared_bytes = (int)(sizeof(Shared) + RING_BYTES);

extern "C" __global__ void __launch_bounds__(THREADS, 1) predict_frame(const __grid_constant__ Params params) {
    char *memory = shared_memory();
    Predictor(params, *(Shared *)(memory + RING_BYTES), (uint4 *)memory).run();
}
