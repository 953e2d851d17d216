// Sizes of the batched kernel, which are macros (BatchedSizes.macros in batched.py), and how blocks share the matrices.
//
// The blocks of a group compute up to ROWS rows of the batch and share all matrices. A matrix is packed in tiles of
// outputs x DEPTH columns, in the layout of a stage of the ring buffer: eight outputs, 64 columns at a time.
#pragma once
#ifdef EMULATED
#include "emulate.h"
#else
#include "barriers.h"
#include "device.h"
#include "wgmma.h"
#endif

constexpr int BLOCKS = CTAS / GROUPS;  // of a group
constexpr int QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM, ATTENDED = HEADS * HEAD_DIM;
constexpr int COMPUTE_WARPS = 8, COMPUTE_THREADS = COMPUTE_WARPS * 32, THREADS = COMPUTE_THREADS + 128;
constexpr int MULTIPLY_THREADS = ROWS > 64 ? 256 : 128;  // a warpgroup multiplies 64 rows
constexpr int DEPTH = 128;                               // columns of a stage
constexpr int OCT_BYTES = 8 * DEPTH * 2;                 // of eight rows: two times 64 columns
static_assert(HEADS == 2 * KV_HEADS && HEAD_DIM == 128 && ROWS % 8 == 0 && ROWS <= 128, "unsupported sizes");

// Teams of threads that own rows: team t of block b owns row b + t * BLOCKS of the group.
constexpr int TEAMS = ROWS > BLOCKS ? 2 : 1, TEAM_THREADS = COMPUTE_THREADS / TEAMS;
static_assert(ROWS <= TEAMS * BLOCKS, "every row needs an owner");

// How the blocks of a group share a matrix [OUT x K]: each has N outputs of one of SPLIT parts of the columns. The packed
// tiles have PACKED outputs, for one group and PACKED_SPLIT parts.
template <int OUT, int K, int SPLIT, int PACKED_SPLIT> struct Share {
    static constexpr int N = OUT * SPLIT / BLOCKS, TILES = OUT / N, STAGES = K / DEPTH / SPLIT, ALL_STAGES = K / DEPTH;
    static constexpr int PACKED = OUT * PACKED_SPLIT / CTAS, TILE_BYTES = PACKED * DEPTH * 2, COPIES = N / PACKED;
    static_assert(TILES * N == OUT && TILES * SPLIT == BLOCKS && STAGES * SPLIT * DEPTH == K, "does not divide");
    static_assert(COPIES * PACKED == N && N % 16 == 0, "does not divide");
};
typedef Share<HIDDEN, TALKER, PARTS, PACKED_PARTS> Project;
typedef Share<QKV, HIDDEN, 1, 1> Qkv;
typedef Share<HIDDEN, ATTENDED, PARTS, PACKED_PARTS> Out;
typedef Share<2 * INNER, HIDDEN, 1, 1> GateUp;
typedef Share<HIDDEN, INNER, PARTS, PACKED_PARTS> Down;
typedef Share<VOCAB, HIDDEN, 1, 1> Head;

// Where the matrices are, in elements.
constexpr int64 LAYERS_AT = PROJECT ? (int64)HIDDEN * TALKER : 0;
constexpr int64 OUT_AT = (int64)QKV * HIDDEN, GATE_UP_AT = OUT_AT + (int64)HIDDEN * ATTENDED;
constexpr int64 DOWN_AT = GATE_UP_AT + 2ll * INNER * HIDDEN, LAYER = DOWN_AT + (int64)HIDDEN * INNER;
constexpr int64 HEADS_AT = LAYERS_AT + LAYERS * LAYER, HEAD = (int64)VOCAB * HIDDEN;

// The kernel's argument; must match ``Params`` in batched.py. int_params, float_params: SamplingTensors of the rows
// (sampling_params.py), of which the macros COLUMN_... number the columns. Operands of products (hidden_tiles, normed,
// attended, inner) are [groups, columns / 128, ROWS / 8, 2, 8, 64] with a 128-byte swizzle.
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

__device__ constexpr int max_of(int a, int b) { return a > b ? a : b; }
constexpr int WEIGHT_SLOT = max_of(max_of(Qkv::N, Out::N), max_of(GateUp::N, Head::N)) * DEPTH * 2;
constexpr int ROW_SLOT = ROWS * DEPTH * 2;

struct Shared {
    uint64 weights_full[WEIGHT_SLOTS], weights_empty[WEIGHT_SLOTS], rows_full[ROW_SLOTS], rows_empty[ROW_SLOTS];
    Sampler<TEAM_THREADS>::Scratch sampling[TEAMS];
    float squares[2][COMPUTE_WARPS];
    int codes[TEAMS][CODEBOOKS];
};

// A block's place in its group, and how many phases the group has begun. A phase ends when all blocks have signalled.
struct Group {
    const Params &P;
    int group, block, first_row, rows;  // the group's rows of the batch
    unsigned phases;

    __device__ Group(const Params &params) : P(params), phases(0) { locate(block_index()); }

    __device__ void locate(int index) {
        const int most = (P.rows + GROUPS - 1) / GROUPS;
        group = index / BLOCKS, block = index % BLOCKS, first_row = group * most;
        rows = P.rows < first_row ? 0 : P.rows - first_row < most ? P.rows - first_row : most;
    }
    __device__ unsigned *word() const { return P.barrier + group * 32; }
    __device__ void wait() { wait_for_word(word(), phases * BLOCKS); }
};

// Position of an element in an operand of products, in elements.
__device__ __forceinline__ int64 tile_offset(int group, int columns, int row, int column) {
    const int oct = (group * (columns / DEPTH) + column / DEPTH) * (ROWS / 8) + row / 8;
    const int chunk = column % 64 / 8 ^ row % 8;
    return (int64)oct * (OCT_BYTES / 2) + column % DEPTH / 64 * 512 + row % 8 * 64 + chunk * 8 + column % 8;
}
