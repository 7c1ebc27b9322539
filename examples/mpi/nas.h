/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nas: code shared by the four ports of NAS parallel benchmarks here (ep, is, ft, dt). They are written from the
 * benchmarks' definition, "The NAS Parallel Benchmarks" (Bailey and others, RNR-94-007, and its later additions), and
 * compare their results with the values published for the small problems, classes S and W.
 *
 * Random numbers are x' = 5^13 x mod 2^46, as fractions of 2^46. An unsigned product wraps at 2^64, so its low 46 bits
 * are right.
 */
#ifndef NAS_H
#define NAS_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#define NAS_MULTIPLIER UINT64_C(1220703125) /* 5^13 */
#define NAS_MASK       ((UINT64_C(1) << 46) - 1)

/* Returns the next number, in 0..1. */
static inline double nas_random(uint64_t *x)
{
    *x = *x * NAS_MULTIPLIER & NAS_MASK;
    return (double)*x * 0x1p-46;
}

/* Skips `count` numbers, to the start of a rank's part of the sequence. */
static inline uint64_t nas_skip(uint64_t seed, uint64_t count)
{
    for (uint64_t a = NAS_MULTIPLIER; count != 0; count >>= 1, a = a * a & NAS_MASK)
        if (count & 1)
            seed = seed * a & NAS_MASK;
    return seed;
}

/* Returns the start of rank `rank`'s part of n items shared by `size` ranks. It ends where the next rank's starts. */
static inline long nas_first(long n, int rank, int size)
{
    return (long)((int64_t)n * rank / size);
}

/* Returns 0 for class S, 1 for class W; for another argument prints the usage and returns -1. */
static inline int nas_class(int argc, char **argv, int at, const char *usage)
{
    const char *given = argc > at ? argv[at] : "S";
    if (given[0] != '\0' && given[1] == '\0' && (given[0] == 'S' || given[0] == 'W'))
        return given[0] == 'W';
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        fprintf(stderr, "usage: %s\n", usage);
    return -1;
}

/* Whether a result is the published one, to a relative error. */
static inline int nas_near(double got, double published, double error)
{
    double off = got > published ? got - published : published - got;
    return off <= error * (published > 0 ? published : -published);
}

#endif
