// The talker's decoder layers in one cooperative launch, for small steps: products on tensor cores of Hopper GPUs (wgmma), and
// attention to vLLM's paged KV cache. With PROMPTS, rows of the same utterance may attend to each other; else each row is
// another utterance's.
//
// CTAS blocks stay on their multiprocessors for all layers. Each has a share of the outputs of every matrix, or of the
// outputs and columns; then the owner of a row adds the partial products. The blocks meet after every phase.
//
// In a block, one warp copies weights into a ring buffer in shared memory, ahead over phases and layers, by tensor maps of
// vLLM's own matrices. One warp copies rows into another ring buffer when the phase before has ended. Two warpgroups
// compute.
#include "layers_sizes.h"

#include "block_products.h"
#include "layers_rows.h"

struct LayerWeightCopies : WeightStages {
    const Params &P;
    const int block;

    __device__ LayerWeightCopies(const Params &params, const Group &group, const WeightRing &weights)
        : WeightStages(weights), P(params), block(group.block) {}

    template <class SHARE, Result TO> __device__ void product(int64 matrix, const bf16 *, int) {
        const int tile = block % SHARE::TILES, part = block / SHARE::TILES;
        const char *map = P.maps + matrix * 128;
#pragma unroll 1
        for (int stage = 0; stage < SHARE::STAGES; stage++) {
            begin_stage(SHARE::N * DEPTH * 2);
            const int column = (part * SHARE::STAGES + stage) * DEPTH;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned to = ring.address() + half * SHARE::HALF_BYTES;
                if (TO == TO_INNER) {
                    const int first = tile * (SHARE::N / 2);
                    copy_box(to, map, column + half * 64, first, ring.full_barrier(), policy);
                    copy_box(to + SHARE::HALF_BYTES / 2, map, column + half * 64, INNER + first, ring.full_barrier(), policy);
                } else {
                    copy_box(to, map, column + half * 64, tile * SHARE::N, ring.full_barrier(), policy);
                }
            }
            ring.next();
        }
    }
    __device__ void begin() {}
    __device__ void store_positions(int) {}
    __device__ void attention(int, int) {}
    __device__ void add_partial(const float *) {}
    __device__ void end() {}
};

// The phases of all layers, for a warp that copies or computes. splits: most splits of a row in attention.
template <class ROLE> __device__ void run_phases(ROLE &role, const Params &P, int splits) {
    role.begin();
#pragma unroll 1
    for (int layer = 0; layer < LAYERS; layer++) {
        const int64 matrices = layer * MATRICES;
        role.template product<Qkv, TO_QKV>(matrices + QKV_MATRIX, P.normed, 0);
        if (PROMPTS) role.store_positions(layer);
        role.attention(layer, splits);
        role.template product<Out, TO_PARTIAL>(matrices + OUT_MATRIX, P.attended, 0);
        role.add_partial(P.post_norm + layer * HIDDEN);
        role.template product<GateUp, TO_INNER>(matrices + GATE_UP_MATRIX, P.normed, 0);
        role.template product<Down, TO_PARTIAL>(matrices + DOWN_MATRIX, P.inner, 0);
        if (layer + 1 < LAYERS) role.add_partial(P.input_norm + (layer + 1) * HIDDEN);
    }
    role.end();
}

// Shared memory in bytes, read by the host.
extern "C" __device__ const int shared_bytes = SLOT_BYTES + (int)sizeof(Shared);

extern "C" __global__ void __launch_bounds__(THREADS, 1) run_layers(const __grid_constant__ Params params) {
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
        BlockProducts<LayerRows> compute(params, group, memory, weights, rows);
        run_phases(compute, params, compute.most_splits());
        compute.leave();
    } else {
        fewer_registers();
        if (thread_index() % 32) return;
        if (warp == COMPUTE_WARPS) {
            LayerWeightCopies copies(params, group, weights);
            run_phases(copies, params, 0);
        }
        if (warp == COMPUTE_WARPS + 1) {
            RowCopies copies(group, rows);
            run_phases(copies, params, 0);
        }
    }
}
