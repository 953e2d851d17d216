// The model's sizes, which are macros (Sizes.macros in persistent.py), and how blocks and warps share its matrices.
#pragma once
#ifdef EMULATED
#include "emulate.h"
#else
#include "device.h"
#endif

constexpr int ROTATED = HEAD_DIM / 2, PER_LANE = ROTATED / 32, GROUP = HEADS / KV_HEADS;
constexpr int QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM, ATTENDED = HEADS * HEAD_DIM, THREADS = WARPS * 32;

// How a matrix [OUT x K] is split: each block has OCTS groups of 8 rows, K is split into SLICES, and each warp has NO
// octs of one slice, of UN units each.
template <int OUT, int K, int SLICES> struct Share {
    static constexpr int OCTS = OUT / 8 / CTAS, S = SLICES, NO = OCTS / (WARPS / SLICES), UN = K / 32 / SLICES;
    static constexpr int UNITS = NO * UN;
    static_assert(OCTS * 8 * CTAS == OUT && NO * (WARPS / SLICES) == OCTS && UN * 32 * SLICES == K, "does not divide");
};
typedef Share<HIDDEN, TALKER, SLICES_PROJECT> Project;
typedef Share<QKV, HIDDEN, SLICES_QKV> Qkv;
typedef Share<HIDDEN, ATTENDED, SLICES_OUT> Out;
typedef Share<2 * INNER, HIDDEN, SLICES_GATE_UP> GateUp;
typedef Share<HIDDEN, INNER, SLICES_DOWN> Down;
typedef Share<VOCAB, HIDDEN, SLICES_HEAD> Head;

constexpr int PROJECT_UNITS = PROJECT ? Project::UNITS : 0;
constexpr int AFTER_QKV = Out::UNITS + GateUp::UNITS + Down::UNITS;
constexpr int LAYER_UNITS = LAYERS * (Qkv::UNITS + AFTER_QKV);
constexpr int STREAM_UNITS = PROJECT_UNITS + LAYER_UNITS + (CODEBOOKS - 1) * Head::UNITS;

__device__ constexpr int max_of(int a, int b) { return a > b ? a : b; }
constexpr int WIDEST = max_of(max_of(Qkv::S * Qkv::OCTS, Out::S * Out::OCTS),
                              max_of(GateUp::S * GateUp::OCTS, max_of(Down::S * Down::OCTS, Head::S * Head::OCTS)));
constexpr int PARTIALS = max_of(WIDEST, PROJECT ? Project::S * Project::OCTS : 1) * 8;  // floats per row

// The kernel's argument; must match ``Params`` in persistent.py. int_params, float_params: SamplingTensors of the rows
// (sampling_params.py), of which the macros COLUMN_... number the columns.
struct Params {
    const uint4 *stream;
    const float *input_norm, *post_norm, *q_norm, *k_norm, *norm, *bias, *cos, *sin;
    const bf16 *inputs, *tables;
    const int64 *offsets;
    const bf16 *hidden;
    const int64 *first;
    const int64 *int_params;
    const float *float_params;
    const int64 *seeds, *frames, *forced;
    float *x, *qkv;
    bf16 *attended, *inner, *keys, *values;
    float *logits;
    int64 *codes;
    bf16 *embedding;
    unsigned *barrier;
    int rows;
    float eps;
    unsigned fp8_factor;  // with FP8: bfloat16_factor in fp8.py
};

#include "sampling.h"

// Rows per tile, and the strides of their activations in shared memory. The padding spreads reads of eight rows over
// all banks.
constexpr int ROWS = 16, STRIDE = HIDDEN + 32, WIDE_STRIDE = ATTENDED + 32;

struct Shared {
    static constexpr int ACTIVATIONS = FUSED ? max_of(ROWS * STRIDE, 2 * WIDE_STRIDE) : ROWS * STRIDE;
    alignas(16) bf16 activations[ACTIVATIONS];
    float partial[PARTIALS * ROWS];
    Sampler<THREADS>::Scratch sampling;
    int2 segments[2 * CODEBOOKS + 1];
    int codes[ROWS][CODEBOOKS];
};

constexpr int PAIR = FP8 ? 32 : 64;  // 16-byte words per pair of units in the stream
constexpr int RING_BYTES = WARPS * STAGES * PAIR * sizeof(uint4);  // the ring buffer of a warp holds STAGES pairs
