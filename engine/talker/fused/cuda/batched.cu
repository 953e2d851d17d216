// The code predictor in one cooperative launch per frame, for batches of more rows than persistent.cu: products on
// tensor cores of Hopper GPUs (wgmma).
//
// CTAS blocks stay on their multiprocessors for the whole frame. They form GROUPS groups, each of which computes its own
// rows. Within a group, each block has a share of the outputs of every matrix, or of the outputs and columns; then the
// owner of a row adds the partial products. The blocks of a group meet after every phase.
//
// In a block, one warp copies weights into a ring buffer in shared memory, ahead over phases and passes, and one warp
// copies rows into another ring buffer when the phase before has ended. Two warpgroups compute.
#include "batched_rows.h"

struct Compute : Rows {
    WeightRing weights;
    RowRing operands;

    __device__ Compute(const Params &params, const Group &place, Shared &shared, const WeightRing &weight_ring,
                       const RowRing &row_ring)
        : Rows(params, place, shared), weights(weight_ring), operands(row_ring) {}

    // The products of a stage. They take turns with CHAINS sums, because each waits for the one before with the same sums.
    template <int STEP, int CHAINS, int SUMS>
    __device__ __forceinline__ void multiply_stage(float (&sums)[CHAINS][SUMS], uint64 a, uint64 b) {
        constexpr int AT = STEP / 4 * 1024 + STEP % 4 * 32;
        multiply_bf16(sums[STEP % CHAINS], advanced(a, AT), advanced(b, AT), 1);
        if constexpr (STEP + 1 < DEPTH / 16) multiply_stage<STEP + 1>(sums, a, b);
    }

    template <int CHAIN = 0, int CHAINS, int SUMS> __device__ __forceinline__ void pin_all(float (&sums)[CHAINS][SUMS]) {
        pin(sums[CHAIN]);
        if constexpr (CHAIN + 1 < CHAINS) pin_all<CHAIN + 1>(sums);
    }

    template <int N, int STAGES> __device__ void multiply(float (&result)[N / 2]) {
        constexpr int CHAINS = N > 48 ? 2 : 4;
        float sums[CHAINS][N / 2] = {};  // without values, the registers would be in use from one layer to the next
        unsigned weights_before = 0, rows_before = 0;
        pin_all(sums);
#pragma unroll 1
        for (int stage = 0; stage < STAGES; stage++) {
            const uint64 a = swizzled_descriptor(uniform(operands.address() + warp / 4 * 8 * OCT_BYTES), OCT_BYTES);
            const uint64 b = swizzled_descriptor(uniform(weights.address()), OCT_BYTES);
            wait(operands.full_barrier(), operands.parity);
            wait(weights.full_barrier(), weights.parity);
            begin_products();
            multiply_stage<0>(sums, a, b);
            commit_products();
            wait_products<1>();
            if (stage > 0 && lane == 0) arrive(weights_before), arrive(rows_before);
            weights_before = weights.empty_barrier(), rows_before = operands.empty_barrier();
            weights.next(), operands.next();
        }
        wait_products<0>();
        pin_all(sums);
        if (lane == 0) arrive(weights_before), arrive(rows_before);
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            result[i] = sums[0][i] + sums[1][i];
            if (CHAINS == 4) result[i] += sums[CHAINS - 2][i] + sums[CHAINS - 1][i];
        }
    }

    // Two neighboring sums of a row. column: of this block's outputs.
    template <class SHARE, Result TO>
    __device__ void store(int at, int column, float low, float high, int codebook) {
        const int64 batch = group.first_row + at;
        const int out = group.block % SHARE::TILES * SHARE::N + column, part = group.block / SHARE::TILES;
        float *to;
        if (TO == TO_QKV) to = P.qkv + batch * QKV + out;
        if (TO == TO_PARTIAL) to = P.partial + (((int64)group.group * PARTS + part) * ROWS + at) * HIDDEN + out;
        if (TO == TO_LOGITS) to = P.logits + ((P.forced ? codebook - 1 : 0) * (int64)P.rows + batch) * VOCAB + out;
        *(float2 *)to = float2{low, high};
    }

    template <class SHARE, Result TO> __device__ void product(int64, const bf16 *, int codebook) {
        locate();
        if (MULTIPLY_THREADS < COMPUTE_THREADS && thread >= MULTIPLY_THREADS) {
            group.phases++;
            return;
        }
        float sums[SHARE::N / 2];
        multiply<SHARE::N, SHARE::STAGES>(sums);
        locate();
        const int column = lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = warp * 16 + lane / 4 + half * 8;
            if (at < group.rows) {
#pragma unroll
                for (int i = 0; i < SHARE::N / 8; i++) {
                    const float low = sums[i * 4 + half * 2], high = sums[i * 4 + half * 2 + 1];
                    if (TO != TO_INNER) {
                        store<SHARE, TO>(at, i * 8 + column, low, high, codebook);
                    } else if (i % 2) {  // octs of gates alternate with octs of their ups
                        const float gate = sums[i * 4 - 4 + half * 2], next = sums[i * 4 - 3 + half * 2];
                        const int inner = group.block * (SHARE::N / 2) + i / 2 * 8 + column;
                        *(unsigned *)(P.inner + tile_offset(group.group, INNER, at, inner)) =
                            pack(gate / (1 + exponential(-gate)) * low, next / (1 + exponential(-next)) * high);
                    }
                }
            }
        }
        end_phase<MULTIPLY, MULTIPLY_THREADS>();
    }
};

// The phases of a frame, for a warp that copies or computes.
template <class ROLE> __device__ void run_frame(ROLE &role, const Params &P) {
    if (PROJECT) {
        role.store_hidden();
        role.template product<Project, TO_PARTIAL>(0, P.hidden_tiles, 0);
    }
    role.begin_position_0();
#pragma unroll 1
    for (int codebook = 0; codebook < CODEBOOKS; codebook++) {
#pragma unroll 1
        for (int layer = 0; layer < LAYERS; layer++) {
            const bool end = layer == LAYERS - 1, last = codebook == 0 && end;
            const int64 matrices = LAYERS_AT + layer * LAYER;
            role.template product<Qkv, TO_QKV>(matrices, P.normed, 0);
            role.attention(layer, codebook, last);
            if (last) break;
            role.template product<Out, TO_PARTIAL>(matrices + OUT_AT, P.attended, 0);
            role.add_partial(P.post_norm + layer * HIDDEN);
            role.template product<GateUp, TO_INNER>(matrices + GATE_UP_AT, P.normed, 0);
            role.template product<Down, TO_PARTIAL>(matrices + DOWN_AT, P.inner, 0);
            role.add_partial(end ? P.norm : P.input_norm + (layer + 1) * HIDDEN);
        }
        if (codebook == 0) continue;
        role.template product<Head, TO_LOGITS>(HEADS_AT + (codebook - 1) * HEAD, P.normed, codebook);
        role.sample(codebook);
    }
}

constexpr int SLOT_BYTES = WEIGHT_SLOTS * WEIGHT_SLOT + ROW_SLOTS * ROW_SLOT;
// Operands of a product have 64 rows, also where a slot has fewer; the rows of what follows are not used.
static_assert(ROWS >= 64 || WEIGHT_SLOTS * WEIGHT_SLOT >= 64 * DEPTH * 2, "an operand ends outside the slots");

// Shared memory in bytes, read by the host.
extern "C" __device__ const int shared_bytes = SLOT_BYTES + (int)sizeof(Shared);

extern "C" __global__ void __launch_bounds__(THREADS, 1) predict_frame(const __grid_constant__ Params params) {
    char *const slots = shared_memory();  // aligned to 1024 bytes: there is no static shared memory
    Shared &memory = *(Shared *)(slots + SLOT_BYTES);
    const Group group(params);
    const RowRing rows(slots, memory.rows_full, memory.rows_empty);
    const WeightRing weights(slots + ROW_SLOTS * ROW_SLOT, memory.weights_full, memory.weights_empty);
    if (thread_index() == 0) {
        for (int i = 0; i < WEIGHT_SLOTS; i++) {
            begin_barrier(shared_address(memory.weights_full + i), 1);
            begin_barrier(shared_address(memory.weights_empty + i), MULTIPLY_THREADS / 32);
        }
        for (int i = 0; i < ROW_SLOTS; i++) {
            begin_barrier(shared_address(memory.rows_full + i), 1);
            begin_barrier(shared_address(memory.rows_empty + i), MULTIPLY_THREADS / 32);
        }
        fence_shared_copies();
    }
    block_barrier();
    const int warp = thread_index() / 32;
    if (warp < COMPUTE_WARPS) {
        more_registers();
        Compute compute(params, group, memory, weights, rows);
        run_frame(compute, params);
        compute.sum_embeddings();
        named_barrier(Rows::COMPUTE, COMPUTE_THREADS);
        if (thread_index() == 0) leave_word(group.word(), compute.group.phases * BLOCKS, BLOCKS);
    } else {
        fewer_registers();
        if (thread_index() % 32) return;
        if (warp == COMPUTE_WARPS) {
            WeightCopies copies(params, group, weights);
            run_frame(copies, params);
        }
        if (warp == COMPUTE_WARPS + 1) {
            RowCopies copies(group, rows);
            run_frame(copies, params);
        }
    }
}
