// Sizes of the kernel of the talker's layers, which are macros (LayerSizes.macros in layers.py), and how blocks share the
// matrices.
#pragma once
#include "shares.h"

// A stage of weights in shared memory has columns 0 to 63 of all N outputs, then columns 64 to 127.
template <int OUT, int K, int SPLIT> struct BoxedShare : Share<OUT, K, SPLIT> {
    static constexpr int WEIGHT_OCT_BYTES = 1024, HALF_BYTES = Share<OUT, K, SPLIT>::N * 128;
    // All gates of the block come before their ups.
    __device__ static constexpr int gate_oct(int i) { return i; }
    __device__ static constexpr int up_oct(int i) { return i + Share<OUT, K, SPLIT>::N / 16; }
};
typedef BoxedShare<QKV, HIDDEN, QKV_PARTS> Qkv;
typedef BoxedShare<HIDDEN, ATTENDED, PARTS> Out;
typedef BoxedShare<2 * INNER, HIDDEN, 1> GateUp;
typedef BoxedShare<HIDDEN, INNER, PARTS> Down;
enum Matrix { QKV_MATRIX, OUT_MATRIX, GATE_UP_MATRIX, DOWN_MATRIX, MATRICES };  // of a layer

constexpr int PAGE = 16;                                   // positions of a block of the KV cache
constexpr int SPLIT_POSITIONS = SPLIT_PAGES * PAGE;  // of a split of a row's positions

// The kernel's argument; must match ``Params`` in layers.py.
struct Params {
    const char *maps;  // tensor maps of the matrices, [LAYERS, MATRICES, 128 bytes]
    const float *input_norm, *post_norm, *q_norm, *k_norm, *norm, *cos, *sin;
    const bf16 *input;          // [rows, HIDDEN]
    const int64 *positions;     // of each row's new key and value
    const int64 *slots;         // where in the cache they go: page * PAGE + position % PAGE; -1: nowhere
    const int *pages;           // pages of each row, [rows, table_width]
    bf16 *const *caches;        // of keys and values, [LAYERS, 2]
    bf16 *normed, *attended, *inner;  // operands of products (tile_offset in phases.h)
    float *qkv;                 // [QKV_PARTS, ROWS, QKV]
    float *partial, *split_sums;
    float2 *split_masses;       // of each split of each row and key/value head: sums and masses of both queries
    unsigned *arrived;          // splits that have ended, of each row and key/value head
    bf16 *output;               // [rows, HIDDEN]
    unsigned *barrier;
    int64 page_stride, position_stride, head_stride;  // of the caches, in elements
    int rows, table_width, splits;                    // splits: capacity of split_sums
    float eps;
};

// The warps of a block attend in teams: with many rows several, so that every row has one at once.
constexpr int UNIT_WARPS = ROWS > 16 ? 4 : COMPUTE_WARPS, UNITS = COMPUTE_WARPS / UNIT_WARPS, UNIT_THREADS = UNIT_WARPS * 32;

constexpr int WEIGHT_SLOT = max_of(max_of(Qkv::N, Out::N), max_of(GateUp::N, Down::N)) * DEPTH * 2;

#include "phases.h"

struct Shared {
    RingBarriers rings;
    float squares[2][COMPUTE_WARPS];
    float sums[COMPUTE_WARPS][2][HEAD_DIM];  // of each warp, for both queries of a key/value head
    float2 masses[COMPUTE_WARPS][2];         // the highest score, and the sum of the weights
    unsigned arrived_before[UNITS];
};
