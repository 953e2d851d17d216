// The model's sizes, which come as macros, and how blocks and warps share its matrices.
#pragma once
#ifdef EMULATED
#include "emulate.h"
#else
#include "device.h"
#endif

constexpr int ROTATED = HEAD_DIM / 2, EACH = ROTATED / 32, GROUP = HEADS / KV_HEADS;
constexpr int QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM, MIXED = HEADS * HEAD_DIM, THREADS = WARPS * 32;
constexpr int DRAWN = VOCAB / THREADS, CODEBOOKS = 16;

// How a product [ROWS x K] is split: OCTS groups of 8 rows a block; SLICES of K; each warp NO octs of one slice.
template <int OUT, int K, int SLICES> struct Share {
    static constexpr int OCTS = OUT / 8 / CTAS, S = SLICES, NO = OCTS / (WARPS / SLICES), UN = K / 32 / SLICES;
    static constexpr int UNITS = NO * UN;
    static_assert(OCTS * 8 * CTAS == OUT && NO * (WARPS / SLICES) == OCTS && UN * 32 * SLICES == K, "does not divide");
};
typedef Share<HIDDEN, TALKER, SLICES_ENTRANCE> Entrance;
typedef Share<QKV, HIDDEN, SLICES_QKV> Qkv;
typedef Share<HIDDEN, MIXED, SLICES_OUT> Out;
typedef Share<2 * INNER, HIDDEN, SLICES_GATE_UP> GateUp;
typedef Share<HIDDEN, INNER, SLICES_DOWN> Down;
typedef Share<VOCAB, HIDDEN, SLICES_HEAD> Head;

constexpr int ENTRANCE_UNITS = PROJECT ? Entrance::UNITS : 0;
constexpr int AFTER_QKV = Out::UNITS + GateUp::UNITS + Down::UNITS;
constexpr int LAYER_UNITS = LAYERS * (Qkv::UNITS + AFTER_QKV);
constexpr int STREAM_UNITS = ENTRANCE_UNITS + LAYER_UNITS + (BOOKS - 1) * Head::UNITS;

__device__ constexpr int most(int a, int b) { return a > b ? a : b; }
constexpr int WIDEST = most(most(Qkv::S * Qkv::OCTS, Out::S * Out::OCTS),
                            most(GateUp::S * GateUp::OCTS, most(Down::S * Down::OCTS, Head::S * Head::OCTS)));
constexpr int PARTIALS = most(WIDEST, PROJECT ? Entrance::S * Entrance::OCTS : 1) * 8;  // floats a row

struct Params {
    const uint4 *stream;
    const float *input_norm, *post_norm, *q_norm, *k_norm, *norm, *bias, *cos, *sin;
    const bf16 *inputs, *tables;
    const int64 *offsets;
    const bf16 *hidden;
    const int64 *first;
    const float *temperature;
    const int64 *top_k;
    const float *top_p;
    const int64 *seeds, *frames, *forced;
    float *x, *qkv;
    bf16 *mixed, *inner, *keys, *values;
    float *logits;
    int64 *codes;
    bf16 *embedding;
    unsigned *barrier;
    int rows;
    float eps;
    unsigned unit;  // of FP8: see fp8.py
};

// Of rows of frames: how many a tile holds, and how far apart their activations are, so that reads of eight rows spread
// over all banks.
constexpr int ROWS = 16, STRIDE = HIDDEN + 32, WIDE = MIXED + 32;

struct Shared {
    static constexpr int ACTIVATIONS = FUSED ? most(ROWS * STRIDE, 2 * WIDE) : ROWS * STRIDE;
    alignas(16) bf16 activations[ACTIVATIONS];
    float partial[PARTIALS * ROWS];
    double sums[2][WARPS];
    uint64 tops[2][WARPS];
    int counts[2][WARPS];
    int2 segments[2 * BOOKS + 1];
    int codes[ROWS][BOOKS];
};

constexpr int PAIR = FP8 ? 32 : 64;  // words of 16 bytes that a pair of units has in the stream
constexpr int RING_BYTES = WARPS * STAGES * PAIR * sizeof(uint4);  // a warp's ring holds STAGES pairs
