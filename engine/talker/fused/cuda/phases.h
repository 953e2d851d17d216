// Phases of a persistent kernel, and the copies of rows, which wait for them. Include it after Params.
#pragma once
#include "shares.h"

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

// Position of an element in an operand of products, in elements. An operand is
// [groups, columns / 128, ROWS / 8, 2, 8, 64] with a 128-byte swizzle.
__device__ __forceinline__ int64 tile_offset(int group, int columns, int row, int column) {
    const int oct = (group * (columns / DEPTH) + column / DEPTH) * (ROWS / 8) + row / 8;
    const int chunk = column % 64 / 8 ^ row % 8;
    return (int64)oct * (OCT_BYTES / 2) + column % DEPTH / 64 * 512 + row % 8 * 64 + chunk * 8 + column % 8;
}

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

// The barriers of both rings.
struct RingBarriers {
    uint64 weights_full[WEIGHT_SLOTS], weights_empty[WEIGHT_SLOTS], rows_full[ROW_SLOTS], rows_empty[ROW_SLOTS];

    // Called by one thread, before a block barrier.
    __device__ void begin() {
        for (int i = 0; i < WEIGHT_SLOTS; i++) {
            begin_barrier(shared_address(weights_full + i), 1);
            begin_barrier(shared_address(weights_empty + i), MULTIPLY_THREADS / 32);
        }
        for (int i = 0; i < ROW_SLOTS; i++) {
            begin_barrier(shared_address(rows_full + i), 1);
            begin_barrier(shared_address(rows_empty + i), MULTIPLY_THREADS / 32);
        }
        fence_shared_copies();
    }
};
constexpr int SLOT_BYTES = WEIGHT_SLOTS * WEIGHT_SLOT + ROW_SLOTS * ROW_SLOT;
// Operands of a product have 64 rows, also where a slot has fewer; the rows of what follows are not used.
static_assert(ROWS >= 64 || WEIGHT_SLOTS * WEIGHT_SLOT >= 64 * DEPTH * 2, "an operand ends outside the slots");

// The warp that copies weights goes through the schedule of the kernel with one thread. Weights depend on nothing, so
// their copies run ahead over phases, layers and passes. At most WEIGHTS_IN_FLIGHT stages are in flight, because more
// delay the other accesses to memory, for which phases wait.
struct WeightStages {
    WeightRing ring, in_flight;  // the next stage, and the oldest stage that is not known to be complete
    int stages_in_flight;
    const uint64 policy;

    __device__ WeightStages(const WeightRing &weights)
        : ring(weights), in_flight(weights), stages_in_flight(0), policy(evict_first_policy()) {}

    // Wait for room for a stage of this size, whose copies report to ring.full_barrier().
    __device__ void begin_stage(int bytes) {
        if (stages_in_flight == WEIGHTS_IN_FLIGHT) {
            wait(in_flight.full_barrier(), in_flight.parity);
            in_flight.next();
        } else {
            stages_in_flight++;
        }
        wait(ring.empty_barrier(), ring.parity ^ 1);
        expect(ring.full_barrier(), bytes);
    }
};

// The warp that copies rows, with one thread too. Rows are copied when the phase before the product has ended.
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
    __device__ void begin() { group.phases++; }
    __device__ void store_hidden() { group.phases++; }
    __device__ void begin_position_0() { group.phases++; }
    __device__ void store_positions(int) { group.phases++; }
    __device__ void attention(int, int, bool = false) { group.phases++; }
    __device__ void add_partial(const float *) { group.phases++; }
    __device__ void sample(int) { group.phases++; }
    __device__ void end() {}
};
