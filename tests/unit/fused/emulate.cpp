// A kernel as a function of a shared library: run(params, seed of the order in which threads run). The macro SOURCE names
// the kernel's source file, and KERNEL the kernel.
#include SOURCE

static const Params *parameters;

static void thread_main() {
    KERNEL(*parameters);
    machine::now->done = true;
    machine::yield();
}

extern "C" void run(const Params *params, unsigned seed) {
    using namespace machine;
    std::mt19937 random(seed);
    parameters = params;
    const int threads = CTAS * WARPS * 32;
    fibers = std::vector<Fiber>(threads);
    named = std::vector<Barrier>(CTAS * 16);
    warps = std::vector<Lanes>(CTAS * WARPS);
    barriers.assign(CTAS, {});
    copies.assign(CTAS, {});
    shared.assign(CTAS, std::vector<char>(shared_bytes + 64, (char)0xFF));
    std::vector<int> order(WARPS * 32);
    for (int i = 0; i < threads; i++) {
        Fiber &fiber = fibers[i];
        order[i % (WARPS * 32)] = i % (WARPS * 32);
        fiber.cta = i / (WARPS * 32);
        fiber.thread = i % (WARPS * 32);
        fiber.stack.resize(64 << 10);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, thread_main, 0);
    }
    waiting.assign(CTAS, 0);
    const int in_block = WARPS * 32;
    std::vector<int> left(CTAS, in_block);
    for (int all = threads; all;) {
        int cta = random() % CTAS;
        std::shuffle(order.begin(), order.end(), random);
        do {
            for (int i : order) {
                Fiber &fiber = fibers[cta * in_block + i];
                if (fiber.done) continue;
                now = &fiber;
                resume();
                left[cta] -= fiber.done;
                all -= fiber.done;
            }
        } while (left[cta] && !waiting[cta]);
    }
}
