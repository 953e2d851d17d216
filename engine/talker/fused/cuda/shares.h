// How the blocks of a persistent kernel with wgmma products share its matrices and rows. Sizes are macros of the kernel's
// Python module.
//
// The blocks of a group compute up to ROWS rows of the batch and share all matrices. Rows are the M side of products.
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
constexpr int ROW_SLOT = ROWS * DEPTH * 2;
static_assert(HEADS == 2 * KV_HEADS && HEAD_DIM == 128 && ROWS % 8 == 0 && ROWS <= 128, "unsupported sizes");

// Teams of threads that own rows: team t of block b owns row b + t * BLOCKS of the group.
constexpr int TEAMS = ROWS > BLOCKS ? 2 : 1, TEAM_THREADS = COMPUTE_THREADS / TEAMS;
static_assert(ROWS <= TEAMS * BLOCKS, "every row needs an owner");

// How the blocks of a group share a matrix [OUT x K]: each has N outputs of one of SPLIT parts of the columns.
template <int OUT, int K, int SPLIT> struct Share {
    static constexpr int N = OUT * SPLIT / BLOCKS, TILES = OUT / N, STAGES = K / DEPTH / SPLIT, ALL_STAGES = K / DEPTH;
    static_assert(TILES * N == OUT && TILES * SPLIT == BLOCKS && STAGES * SPLIT * DEPTH == K, "does not divide");
    static_assert(N % 16 == 0, "does not divide");
};

enum Result { TO_QKV, TO_PARTIAL, TO_INNER, TO_LOGITS };  // what a product's sums become

__device__ constexpr int max_of(int a, int b) { return a > b ? a : b; }
