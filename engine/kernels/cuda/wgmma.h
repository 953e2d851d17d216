// Matrix products of a warpgroup on Hopper's tensor cores (wgmma), float16 or bfloat16 with float32 sums.
#pragma once

typedef unsigned long long uint64;

// Descriptor of an operand in shared memory without swizzle: 16 bytes (8 elements of k) of one row, then those of the
// next row. Rows are therefore 16 bytes apart, so that an operand can begin at any row. plane: bytes between the rows'
// elements k to k + 7 and k + 8 to k + 15.
__device__ __forceinline__ uint64 descriptor(unsigned address, unsigned plane) {
    return (uint64)((address & 0x3ffff) >> 4) | (uint64)(plane >> 4) << 16 | (uint64)(128 >> 4) << 32;
}
// Descriptor of an operand whose rows are 128 bytes (64 elements of k) with a 128-byte swizzle: 16-byte chunk i of row r
// is at chunk i ^ r % 8. The operand's memory is aligned to 1024 bytes. address: of the first element of k in row 0.
// stride: bytes from one group of eight rows to the next.
__device__ __forceinline__ uint64 swizzled_descriptor(unsigned address, unsigned stride = 1024) {
    return (uint64)((address & 0x3ffff) >> 4) | (uint64)1 << 16 | (uint64)(stride >> 4) << 32 | (uint64)1 << 62;
}
// The descriptor of an operand that begins `bytes` later.
__device__ __forceinline__ uint64 advanced(uint64 descriptor, unsigned bytes) {
    return descriptor & 0xFFFFFFFF00000000ull | (unsigned)descriptor + (bytes >> 4);
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// Keeps the compiler from moving uses of c across a wait.
template <int N> __device__ __forceinline__ void pin(float (&c)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(c[i])::"memory");
}

// Operands of the instruction: names %0 to %(n - 1) in its text, and the registers.
#define TEN(d) "%" #d "0, %" #d "1, %" #d "2, %" #d "3, %" #d "4, %" #d "5, %" #d "6, %" #d "7, %" #d "8, %" #d "9, "
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_10 NAMES_8 ", %8, %9, "
#define NAMES_16 NAMES_10 "%10, %11, %12, %13, %14, %15"
#define NAMES_24 NAMES_10 TEN(1) "%20, %21, %22, %23"
#define NAMES_32 NAMES_10 TEN(1) TEN(2) "%30, %31"
#define NAMES_40 NAMES_10 TEN(1) TEN(2) TEN(3)
#define NAMES_48 NAMES_40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_64 NAMES_40 TEN(4) TEN(5) "%60, %61, %62, %63"
#define NAMES_96 NAMES_40 TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) "%90, %91, %92, %93, %94, %95"
#define SUMS_8(i) \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_24(i) SUMS_16(i), SUMS_8(i + 16)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_48(i) SUMS_24(i), SUMS_24(i + 24)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define MULTIPLY_TYPE(TYPE, COLUMNS, NAMES, ADD, A_AND_B) \
    "{ .reg .pred add; setp.ne.b32 add, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" \
    NAMES "}, " A_AND_B "; }"
#define MULTIPLY(COLUMNS, NAMES, ADD, A_AND_B) MULTIPLY_TYPE("f16", COLUMNS, NAMES, ADD, A_AND_B)

// c (+)= a b, with 64 rows and 96 or 192 columns. add: 0 overwrites c. a: in shared memory, or in registers, where a
// thread's elements of k are those that it has of the columns of a result.
__device__ __forceinline__ void multiply(float (&c)[48], uint64 a, uint64 b, int add) {
    asm volatile(MULTIPLY("96", NAMES_48, "%50", "%48, %49, add, 1, 1, 0, 0") : SUMS_48(0) : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply(float (&c)[48], const unsigned (&a)[4], uint64 b, int add) {
    asm volatile(MULTIPLY("96", NAMES_48, "%53", "{%48, %49, %50, %51}, %52, add, 1, 1, 0")
                 : SUMS_48(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply(float (&c)[96], uint64 a, uint64 b, int add) {
    asm volatile(MULTIPLY("192", NAMES_96, "%98", "%96, %97, add, 1, 1, 0, 0")
                 : SUMS_48(0), SUMS_48(48) : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply(float (&c)[96], const unsigned (&a)[4], uint64 b, int add) {
    asm volatile(MULTIPLY("192", NAMES_96, "%101", "{%96, %97, %98, %99}, %100, add, 1, 1, 0")
                 : SUMS_48(0), SUMS_48(48) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

// c (+)= a b in bfloat16, with 64 rows and twice as many columns as a thread has sums. Both operands in shared memory.
#define BFLOAT16_PRODUCT(SUMS, COLUMNS, A, B, ADD) \
    __device__ __forceinline__ void multiply_bf16(float (&c)[SUMS], uint64 a, uint64 b, int add) { \
        asm volatile(MULTIPLY_TYPE("bf16", COLUMNS, NAMES_##SUMS, ADD, A ", " B ", add, 1, 1, 0, 0") \
                     : SUMS_##SUMS(0) : "l"(a), "l"(b), "r"(add)); \
    }
BFLOAT16_PRODUCT(8, "16", "%8", "%9", "%10")
BFLOAT16_PRODUCT(16, "32", "%16", "%17", "%18")
BFLOAT16_PRODUCT(24, "48", "%24", "%25", "%26")
BFLOAT16_PRODUCT(32, "64", "%32", "%33", "%34")
BFLOAT16_PRODUCT(48, "96", "%48", "%49", "%50")
BFLOAT16_PRODUCT(64, "128", "%64", "%65", "%66")
