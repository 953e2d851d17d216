// The code predictor in one cooperative launch per frame, for batches of up to 256 rows: products on tensor cores of
// Hopper GPUs (wgmma).
//
// CTAS blocks stay on their multiprocessors for the whole frame. They form GROUPS groups, each of which computes its own
// rows. Within a group, each block has a share of the outputs of every matrix, or of the outputs and columns; then the
// owner of a row adds the partial products. The blocks of a group meet after every phase.
//
// In a block, one warp copies weights into a ring buffer in shared memory, ahead over phases and passes, and one warp
// copies rows into another ring buffer when the phase before has ended. Two warpgroups compute.
#include "batched_sizes.h"

#include "batched_copies.h"
#include "batched_rows.h"
#include "block_products.h"

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

// Shared memory in bytes, read by the host.
extern "C" __device__ const int shared_bytes = SLOT_BYTES + (int)sizeof(Shared);

extern "C" __global__ void __launch_bounds__(THREADS, 1) predict_frame(const __grid_constant__ Params params) {
    char *const slots = shared_memory();  // aligned to 1024 bytes: there is no static shared memory
    Shared &memory = *(Shared *)(slots + SLOT_BYTES);
    const Group group(params);
    RingBarriers &barriers = memory.rings;
    const RowRing rows(slots, barriers.rows_full, barriers.rows_empty);
    const WeightRing weights(slots + ROW_SLOTS * ROW_SLOT, barriers.weights_full, barriers.weights_empty);
    if (thread_index() == 0) barriers.begin();
    block_barrier();
    const int warp = thread_index() / 32;
    if (warp < COMPUTE_WARPS) {
        more_registers();
        BlockProducts<Rows> compute(params, group, memory, weights, rows);
        run_frame(compute, params);
        compute.sum_embeddings();
        compute.leave();
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
