/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shmem.h: OpenSHMEM 1.6, as Selvedge provides it, deprecated functions included.
 *
 * Made by `make docs-pages` from the table in crates/doors/shmem/api; not to be edited. docs/reference/shmem-api.md lists the same.
 *
 * How to read it. SELVEDGE_FN(int, shmem_my_pe, void) declares int shmem_my_pe(void), and pshmem_my_pe for profilers.
 * A family stands once for all its types, T being the type's name within the function's:
 *     SELVEDGE_CTX_FN(void, P, T##_put, TYPE *dest, const TYPE *source, size_t nelems, int pe)
 * declares shmem_int_put(int *dest, ..), shmem_ctx_int_put(shmem_ctx_t ctx, int *dest, ..), and so on for every type of
 * the list that follows it. In C11 and in C++, names without a type (shmem_put) select a function by the types of their
 * arguments; they come last.
 *
 * Invariants:
 *  1. An argument for memory of another PE (dest of a put, source of a get, ivar, psync) is symmetric: it comes from
 *     shmem_malloc and its like, or is a global or static object. The address is this PE's own.
 *  2. PE numbers are those of the world team, or of the team of the context or the collective.
 *  3. A call with an argument that cannot be right does nothing and reports that on standard error: the first of a
 *     process, and with SHMEM_DEBUG set all of them.
 *  4. Lengths are in elements; of functions with mem in their names, in bytes.
 */
#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>

/* The first name tells programs that this is Selvedge's header; the others, that the interface is complete. */
#define SELVEDGE_SHMEM 1
#define SHMEM_DEF_H    1
#if defined(__GNUC__)
#define SHMEM_FUNCTION_ATTRIBUTES __attribute__((visibility("default")))
#else
#define SHMEM_FUNCTION_ATTRIBUTES
#endif

/* ---- Types ----------------------------------------------------------------------------------------------- */

typedef struct shmem_impl_ctx  *shmem_ctx_t;  /* a communication context; programs copy and compare it only */
typedef struct shmem_impl_team *shmem_team_t; /* a team of PEs; likewise */
typedef struct shmem_impl_ct   *shmem_ct_t;   /* a counter of counting puts; likewise (Selvedge) */

/* The configuration of a new team. */
typedef struct {
    int num_contexts; /* contexts that the program will make of it; SHMEM_TEAM_NUM_CONTEXTS */
} shmem_team_config_t;

/* The configuration of a session. */
typedef struct {
    size_t total_ops; /* about how many operations it will have; SHMEM_CTX_SESSION_TOTAL_OPS */
} shmem_ctx_session_config_t;

/* Complex numbers, under names that C++ accepts, too. */
#ifdef __cplusplus
__extension__ typedef double _Complex shmem_impl_complexd;
__extension__ typedef float _Complex shmem_impl_complexf;
#else
typedef double _Complex shmem_impl_complexd;
typedef float _Complex shmem_impl_complexf;
#endif

/* ---- Constants ------------------------------------------------------------------------------------------- */
