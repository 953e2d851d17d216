// The warps that copy operands of products to shared memory. Each is one thread that goes through the frame's schedule.
#pragma once
#include "batched_sizes.h"

enum Result { TO_QKV, TO_PARTIAL, TO_INNER, TO_LOGITS };  // what a product's sums become

// A ring buffer: the number of the next stage gives its slot, and the parity of the slot's barriers.
template <int SLOTS, int SLOT_BYTES> struct Ring {
    unsigned memory, full, empty;
    int slot, parity;

    __device__ Ring(void *slots, uint64 *full_barriers, uint64 *empty_barriers)
        : memory(shared_address(slots)), full(shared_address(full_barriers)), empty(shared_address(empty_barriers)), slot(0),
          parity(0) {}
    __device__ unsigned address() const { return memory + slot * SLOT_BYTES; }
    __device__ unsigned full_barrier() const { return full + slot * 8; }
    __device__ unsigned empty_barrier() const { return empty + slot * 8; }
    __device__ void next() {
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
};
typedef Ring<WEIGHT_SLOTS, WEIGHT_SLOT> WeightRing;
typedef Ring<ROW_SLOTS, ROW_SLOT> RowRing;

// Weights depend on nothing, so their copies run ahead over phases, layers and passes. At most WEIGHTS_IN_FLIGHT stages
// are on their way, because more delay the other accesses to memory, for which phases wait.
struct WeightCopies {
    const Params &P;
    WeightRing ring, in_flight;  // the next stage, and the oldest stage that is not known to be complete
    int stages_in_flight;
    const int block;
    const uint64 policy;

    __device__ WeightCopies(const Params &params, const Group &group, const WeightRing &weights)
        : P(params), ring(weights), in_flight(weights), stages_in_flight(0), block(group.block),
          policy(evict_first_policy()) {}

    template <class SHARE, Result> __device__ void product(int64 matrix, const bf16 *, int) {
        const int tile = block % SHARE::TILES, part = block / SHARE::TILES;
        const char *from = (const char *)(P.matrices + matrix) +
                           (int64)(tile * SHARE::COPIES * SHARE::ALL_STAGES + part * SHARE::STAGES) * SHARE::TILE_BYTES;
#pragma unroll 1
        for (int stage = 0; stage < SHARE::STAGES; stage++, from += SHARE::TILE_BYTES) {
            if (stages_in_flight == WEIGHTS_IN_FLIGHT) {
                wait(in_flight.full_barrier(), in_flight.parity);
                in_flight.next();
            } else {
                stages_in_flight++;
            }
            wait(ring.empty_barrier(), ring.parity ^ 1);
            expect(ring.full_barrier(), SHARE::COPIES * SHARE::TILE_BYTES);
#pragma unroll
            for (int copy = 0; copy < SHARE::COPIES; copy++)
                copy_bytes(ring.address() + copy * SHARE::TILE_BYTES,
                           from + (int64)copy * SHARE::ALL_STAGES * SHARE::TILE_BYTES, SHARE::TILE_BYTES,
                           ring.full_barrier(), policy);
            ring.next();
        }
    }
    __device__ void store_hidden() {}
    __device__ void begin_position_0() {}
    __device__ void attention(int, int, bool) {}
    __device__ void add_partial(const float *) {}
    __device__ void sample(int) {}
};

// Rows are copied when the phase before the product has ended.
struct RowCopies {
    Group group;
    RowRing ring;

    __device__ RowCopies(const Group &place, const RowRing &rows) : group(place), ring(rows) {}

    template <class SHARE, Result> __device__ void product(int64, const bf16 *operand, int) {
        const int part = group.block / SHARE::TILES, bytes = (group.rows + 7) / 8 * OCT_BYTES;
        const char *from =
            (const char *)operand + (int64)(group.group * SHARE::ALL_STAGES + part * SHARE::STAGES) * ROW_SLOT;
        group.wait();
        fence_global_copies();
#pragma unroll 1
        for (int stage = 0; stage < SHARE::STAGES; stage++, from += ROW_SLOT) {
            wait(ring.empty_barrier(), ring.parity ^ 1);
            expect(ring.full_barrier(), bytes);
            if (bytes) copy_bytes(ring.address(), from, bytes, ring.full_barrier());
            ring.next();
        }
        group.phases++;
    }
    __device__ void store_hidden() { group.phases++; }
    __device__ void begin_position_0() { group.phases++; }
    __device__ void attention(int, int, bool) { group.phases++; }
    __device__ void add_partial(const float *) { group.phases++; }
    __device__ void sample(int) { group.phases++; }
};
