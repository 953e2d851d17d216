// Sizes of the batched kernel, which are macros (BatchedSizes.macros in batched.py), and how blocks share the matrices.
//
// A matrix is packed in tiles of outputs x DEPTH columns, in the layout of a stage of the ring buffer: eight outputs, 64
// columns at a time.
#pragma once
#include "shares.h"

// The packed tiles have PACKED outputs, for one group and PACKED_SPLIT parts of the columns.
template <int OUT, int K, int SPLIT, int PACKED_SPLIT> struct PackedShare : Share<OUT, K, SPLIT> {
    using Share<OUT, K, SPLIT>::N;
    static constexpr int PACKED = OUT * PACKED_SPLIT / CTAS, TILE_BYTES = PACKED * DEPTH * 2, COPIES = N / PACKED;
    static_assert(COPIES * PACKED == N, "does not divide");

    // Where a stage in shared memory has the next eight outputs, and columns 64 to 127.
    static constexpr int WEIGHT_OCT_BYTES = OCT_BYTES, HALF_BYTES = OCT_BYTES / 2;
    // Octs of gates alternate with octs of their ups.
    __device__ static constexpr int gate_oct(int i) { return 2 * i; }
    __device__ static constexpr int up_oct(int i) { return 2 * i + 1; }
};
typedef PackedShare<HIDDEN, TALKER, PARTS, PACKED_PARTS> Project;
typedef PackedShare<QKV, HIDDEN, 1, 1> Qkv;
typedef PackedShare<HIDDEN, ATTENDED, PARTS, PACKED_PARTS> Out;
typedef PackedShare<2 * INNER, HIDDEN, 1, 1> GateUp;
typedef PackedShare<HIDDEN, INNER, PARTS, PACKED_PARTS> Down;
typedef PackedShare<VOCAB, HIDDEN, 1, 1> Head;

// Where the matrices are, in elements.
constexpr int64 LAYERS_AT = PROJECT ? (int64)HIDDEN * TALKER : 0;
constexpr int64 OUT_AT = (int64)QKV * HIDDEN, GATE_UP_AT = OUT_AT + (int64)HIDDEN * ATTENDED;
constexpr int64 DOWN_AT = GATE_UP_AT + 2ll * INNER * HIDDEN, LAYER = DOWN_AT + (int64)HIDDEN * INNER;
constexpr int64 HEADS_AT = LAYERS_AT + LAYERS * LAYER, HEAD = (int64)VOCAB * HIDDEN;

// The kernel's argument; must match ``Params`` in batched.py. int_params, float_params: SamplingTensors of the rows
// (sampling_params.py), of which the macros COLUMN_... number the columns. hidden_tiles, normed, attended and inner are
// operands of products (tile_offset in phases.h).
struct Params {
    const bf16 *matrices;
    const float *input_norm, *post_norm, *q_norm, *k_norm, *norm, *bias, *cos, *sin;
    const bf16 *inputs, *tables;
    const int64 *offsets;
    const bf16 *hidden;
    const int64 *first;
    const int64 *int_params;
    const float *float_params;
    const int64 *seeds, *frames, *forced;
    bf16 *hidden_tiles, *normed, *attended, *inner, *keys, *values;
    float *qkv, *partial, *logits;
    int64 *codes;
    bf16 *embedding;
    unsigned *barrier;
    int rows;
    float eps;
};

#include "sampling.h"

constexpr int WEIGHT_SLOT = max_of(max_of(Qkv::N, Out::N), max_of(GateUp::N, Head::N)) * DEPTH * 2;

#include "phases.h"

struct Shared {
    RingBarriers rings;
    Sampler<TEAM_THREADS>::Scratch sampling[TEAMS];
    float squares[2][COMPUTE_WARPS];
    int codes[TEAMS][CODEBOOKS];
};
