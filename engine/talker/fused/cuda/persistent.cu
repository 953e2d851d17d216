// The code predictor in one cooperative launch a frame: CTAS blocks stay on their multiprocessors through all passes.
//
// Every warp owns a fixed share of every matrix, stored as one stream in the order in which the warp needs it. Copies
// of the stream into the warp's own ring in shared memory run ahead of the arithmetic, over grid barriers and from pass
// to pass, because weights depend on nothing. What blocks tell each other (a few KB) goes through L2 between barriers.
//
// A unit of a stream is 8 rows x 32 columns of a matrix: lane (g = lane / 4, t = lane % 4) has row g, columns 8 t to
// 8 t + 7, 16 bytes. Multiplied by two mma.m16n8k16 whose k order is permuted alike on both sides, so activations are
// read 16 bytes a lane too. Units are copied and taken in pairs; STAGES is the ring's length in pairs. Rows of frames
// are the m side: at most 16.
//
// With FP8 a number has eight bits in the stream, and a pair of units 16 bytes a lane.
//
// Sizes come as macros (see sizes.py). The FUSED kernel, for one row, computes attention and draws in every block
// instead of paying two more barriers for it.
#include "drawing.h"

// The phases of a pass; each ends with a meeting of all blocks.
struct Predictor : Drawing {
    using Drawing::Drawing;

    __device__ void meet() { grid.meet(); }

    __device__ void enter() {
        multiply<Entrance, true>(P.hidden, TALKER);
        for (int i = thread; i < P.rows * Entrance::OCTS * 8; i += THREADS) {
            int row = i / (Entrance::OCTS * 8), column = i % (Entrance::OCTS * 8);
            int out = cta * Entrance::OCTS * 8 + column;
            P.x[row * HIDDEN + out] = widen(narrow(total<Entrance>(row, column) + P.bias[out]));
        }
        meet();
    }

    __device__ void make_qkv(int layer, int position) {
        normalize(P.input_norm + layer * HIDDEN, layer == 0 ? position : -1);
        multiply<Qkv, false>(memory.activations, STRIDE);
        for (int i = thread; i < P.rows * Qkv::OCTS * 8; i += THREADS) {
            int row = i / (Qkv::OCTS * 8), column = i % (Qkv::OCTS * 8);
            P.qkv[row * QKV + cta * Qkv::OCTS * 8 + column] = total<Qkv>(row, column);
        }
        meet();
    }

    // What the i-th output of this block is added to. position: of a pass that begins, else -1.
    template <class SHARE> __device__ float residual(int i, int position) {
        int row = i / (SHARE::OCTS * 8), out = cta * SHARE::OCTS * 8 + i % (SHARE::OCTS * 8);
        if (row >= P.rows) return 0;
        const bf16 *fresh = position < 0 ? nullptr : fresh_row(row, position);
        return fresh ? widen(fresh[out]) : load_float_cg(P.x + row * HIDDEN + out);
    }

    // early: this thread's first residual, read before the product so that nobody waits for it.
    template <class SHARE> __device__ void add_to_x(int position, float early) {
        for (int i = thread; i < P.rows * SHARE::OCTS * 8; i += THREADS) {
            int row = i / (SHARE::OCTS * 8), column = i % (SHARE::OCTS * 8);
            float before = i == thread ? early : residual<SHARE>(i, position);
            P.x[row * HIDDEN + cta * SHARE::OCTS * 8 + column] = before + total<SHARE>(row, column);
        }
        meet();
    }

    // last: of this position only the keys and values were wanted.
    __device__ bool mix(int layer, int position, bool last) {
        const int begun = layer == 0 ? position : -1;
        const float early = residual<Out>(thread, begun);
        attention(layer, position, last);
        if (last) {
            meet();  // P.qkv is written next
            return false;
        }
        if (FUSED) {
            multiply<Out, false>(memory.activations, WIDE);
        } else {
            meet();
            multiply<Out, true>(P.mixed, MIXED);
        }
        add_to_x<Out>(begun, early);
        return true;
    }

    __device__ void feed_forward(int layer) {
        constexpr int MINE = GateUp::OCTS * 4;  // inner columns of a block: the first half of its octs are gates
        normalize(P.post_norm + layer * HIDDEN, -1);
        multiply<GateUp, false>(memory.activations, STRIDE);
        for (int i = thread; i < P.rows * MINE; i += THREADS) {
            int row = i / MINE, column = i % MINE;
            float gate = total<GateUp>(row, column), up = total<GateUp>(row, MINE + column);
            P.inner[row * INNER + cta * MINE + column] = narrow(gate / (1 + exponential(-gate)) * up);
        }
        const float early = residual<Down>(thread, -1);
        meet();
        multiply<Down, true>(P.inner, INNER);
        add_to_x<Down>(-1, early);
    }

    __device__ void make_logits(int book) {
        normalize(P.norm, -1);
        multiply<Head, false>(memory.activations, STRIDE);
        for (int i = thread; i < P.rows * Head::OCTS * 8; i += THREADS) {
            int row = i / (Head::OCTS * 8), column = i % (Head::OCTS * 8);
            P.logits[((int64)row * (BOOKS - 1) + book - 1) * VOCAB + cta * Head::OCTS * 8 + column] =
                total<Head>(row, column);
        }
        meet();
    }

    // All blocks know the codes of `book` afterwards.
    __device__ void draw_all(int book) {
        for (int row = FUSED ? 0 : cta; row < P.rows; row += FUSED ? 1 : CTAS) {
            int code = draw(row, book);
            if (thread == 0) {
                if (FUSED) memory.codes[row][book] = code;
                if (!FUSED || cta == 0) P.codes[row * BOOKS + book] = code;
            }
        }
        if (FUSED) {
            block_barrier();
            return;
        }
        meet();
        for (int row = thread; row < P.rows; row += THREADS)
            memory.codes[row][book] = (int)load_int64_cg(P.codes + row * BOOKS + book);
        block_barrier();
    }

    __device__ void begin() {
        for (int row = thread; row < P.rows; row += THREADS) {
            memory.codes[row][0] = (int)P.first[row];
            if (cta == 0) P.codes[row * BOOKS] = P.first[row];
        }
        block_barrier();
    }

    __device__ void sum_embeddings() {
        for (int i = cta * THREADS + thread; i < P.rows * TALKER; i += CTAS * THREADS) {
            int row = i / TALKER, column = i % TALKER;
            float sum = 0;
#pragma unroll
            for (int book = 0; book < BOOKS; book++)
                sum += widen(P.tables[(P.offsets[book] + memory.codes[row][book]) * TALKER + column]);
            P.embedding[i] = narrow(sum);
        }
    }

    __device__ void pass(int position) {
#pragma unroll 1
        for (int layer = 0; layer < LAYERS; layer++) {
            make_qkv(layer, position);
            const bool last = position == 0 && layer == LAYERS - 1;
            if (!mix(layer, position, last)) return;
            feed_forward(layer);
        }
    }

    __device__ void run() {
        begin();
        if (PROJECT) enter();
#pragma unroll 1
        for (int book = 0; book < BOOKS; book++) {
            pass(book);
            if (book == 0) continue;
            make_logits(book);
            draw_all(book);
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
