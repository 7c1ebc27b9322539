/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The type sets of OpenSHMEM 1.6, one list for each table of the specification: X(TYPENAME, TYPE), or X(SIZE, TYPE).
 *
 * A family gives each type a row of thunks over void pointers, and its cases loop over the rows:
 *
 *     #define ROW(NAME, TYPE) {#NAME, sizeof(TYPE), put_##NAME, ...},
 *     static const struct row rows[] = {RMA_TYPES(ROW)};
 *
 * The exact-width types and size_t, ptrdiff_t have separate names in the interface, but in C they are other spellings of
 * the types above them, so a switch over these lists would be ambiguous.
 */
#ifndef SHMEM_TESTS_TYPES_H
#define SHMEM_TESTS_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* "Remote Memory Access Routines", the standard RMA types: put, get, p, g, iput, iget, ibput, ibget, put_signal, and the
 * collectives that move data. */
#define RMA_TYPES(X)                                \
    X(float, float)                                 \
    X(double, double)                               \
    X(longdouble, long double)                      \
    RMA_INTEGER_TYPES(X)

#define RMA_INTEGER_TYPES(X)                        \
    X(char, char)                                   \
    X(schar, signed char)                           \
    X(short, short)                                 \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)                          \
    X(uchar, unsigned char)                         \
    X(ushort, unsigned short)                       \
    X(uint, unsigned int)                           \
    X(ulong, unsigned long)                         \
    X(ulonglong, unsigned long long)                \
    X(int8, int8_t)                                 \
    X(int16, int16_t)                               \
    X(int32, int32_t)                               \
    X(int64, int64_t)                               \
    X(uint8, uint8_t)                               \
    X(uint16, uint16_t)                             \
    X(uint32, uint32_t)                             \
    X(uint64, uint64_t)                             \
    X(size, size_t)                                 \
    X(ptrdiff, ptrdiff_t)

/* Each type once: the types that a C11 selection or a C++ overload can distinguish. */
#define RMA_DISTINCT_TYPES(X)                       \
    X(float, float)                                 \
    X(double, double)                               \
    X(longdouble, long double)                      \
    X(char, char)                                   \
    X(schar, signed char)                           \
    X(short, short)                                 \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)                          \
    X(uchar, unsigned char)                         \
    X(ushort, unsigned short)                       \
    X(uint, unsigned int)                           \
    X(ulong, unsigned long)                         \
    X(ulonglong, unsigned long long)

/* The block routines by the bits of an element; `mem` by bytes. An element of 128 bits has no type in C. */
struct bits128 {
    uint64_t half[2] __attribute__((aligned(16)));
};
#define RMA_SIZES(X)                                \
    X(8, uint8_t)                                   \
    X(16, uint16_t)                                 \
    X(32, uint32_t)                                 \
    X(64, uint64_t)                                 \
    X(128, struct bits128)

/* The collectives that move data by the bits of an element (active sets, deprecated). */
#define COLLECTIVE_SIZES(X)                         \
    X(32, uint32_t)                                 \
    X(64, uint64_t)

/* "Atomic Memory Operations", standard: compare_swap, fetch_inc, inc, fetch_add, add; also the types of wait and test. */
#define AMO_STANDARD_TYPES(X)                       \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)                          \
    X(uint, unsigned int)                           \
    X(ulong, unsigned long)                         \
    X(ulonglong, unsigned long long)                \
    X(int32, int32_t)                               \
    X(int64, int64_t)                               \
    X(uint32, uint32_t)                             \
    X(uint64, uint64_t)                             \
    X(size, size_t)                                 \
    X(ptrdiff, ptrdiff_t)

/* Extended: fetch, set, swap. */
#define AMO_EXTENDED_TYPES(X)                       \
    X(float, float)                                 \
    X(double, double)                               \
    AMO_STANDARD_TYPES(X)

/* Bitwise: and, or, xor, and their fetching forms. */
#define AMO_BITWISE_TYPES(X)                        \
    X(uint, unsigned int)                           \
    X(ulong, unsigned long)                         \
    X(ulonglong, unsigned long long)                \
    X(int32, int32_t)                               \
    X(int64, int64_t)                               \
    X(uint32, uint32_t)                             \
    X(uint64, uint64_t)

#define AMO_STANDARD_DISTINCT_TYPES(X)              \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)                          \
    X(uint, unsigned int)                           \
    X(ulong, unsigned long)                         \
    X(ulonglong, unsigned long long)

/* The atomics from before 1.4, without `_atomic_` in their names: add, inc, fadd, finc, cswap; and with the floating-point
 * types swap, set, fetch. */
#define AMO_OLD_TYPES(X)                            \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)
#define AMO_OLD_EXTENDED_TYPES(X)                   \
    X(float, float)                                 \
    X(double, double)                               \
    AMO_OLD_TYPES(X)

/* "Point-To-Point Synchronization", the table that 1.5 deprecated for the two narrow types. */
#define SYNC_TYPES(X)                               \
    X(short, short)                                 \
    X(ushort, unsigned short)                       \
    AMO_STANDARD_TYPES(X)

/* The deprecated shmem_TYPE_wait. */
#define WAIT_OLD_TYPES(X)                           \
    X(short, short)                                 \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)

/* Reductions over teams: the rows of the table, by the operations that they have. */
#define REDUCE_BITWISE_TYPES(X)                     \
    X(uchar, unsigned char)                         \
    X(ushort, unsigned short)                       \
    X(uint, unsigned int)                           \
    X(ulong, unsigned long)                         \
    X(ulonglong, unsigned long long)                \
    X(int8, int8_t)                                 \
    X(int16, int16_t)                               \
    X(int32, int32_t)                               \
    X(int64, int64_t)                               \
    X(uint8, uint8_t)                               \
    X(uint16, uint16_t)                             \
    X(uint32, uint32_t)                             \
    X(uint64, uint64_t)                             \
    X(size, size_t)

/* max, min, sum, prod; and the scans. */
#define REDUCE_REAL_TYPES(X)                        \
    X(float, float)                                 \
    X(double, double)                               \
    X(longdouble, long double)
#define REDUCE_ORDERED_TYPES(X)                     \
    X(char, char)                                   \
    X(schar, signed char)                           \
    X(short, short)                                 \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)                          \
    X(ptrdiff, ptrdiff_t)                           \
    REDUCE_BITWISE_TYPES(X)                         \
    REDUCE_REAL_TYPES(X)

/* sum, prod only; and the sums of scans. */
#define REDUCE_COMPLEX_TYPES(X)                     \
    X(complexd, double _Complex)                    \
    X(complexf, float _Complex)

/* The deprecated reductions over active sets: shmem_TYPE_OP_to_all. */
#define TO_ALL_BITWISE_TYPES(X)                     \
    X(short, short)                                 \
    X(int, int)                                     \
    X(long, long)                                   \
    X(longlong, long long)
#define TO_ALL_ORDERED_TYPES(X)                     \
    TO_ALL_BITWISE_TYPES(X)                         \
    REDUCE_REAL_TYPES(X)
#define TO_ALL_COMPLEX_TYPES(X) REDUCE_COMPLEX_TYPES(X)

#endif
