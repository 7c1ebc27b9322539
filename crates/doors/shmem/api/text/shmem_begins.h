/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shmem.h: OpenSHMEM 1.6, as Selvedge provides it, deprecated functions included.
 *
 * Made by `make docs-pages` from the table in crates/doors/shmem/api; not to be edited.
 * docs/reference/shmem-api.md lists the same functions.
 *
 * Notation. SELVEDGE_FN(int, shmem_my_pe, void) declares int shmem_my_pe(void), and pshmem_my_pe for profilers.
 * A family of functions is declared once for all its types. T is the name of the type in function names:
 *     SELVEDGE_CTX_FN(void, P, T##_put, TYPE *dest, const TYPE *source, size_t nelems, int pe)
 * declares shmem_int_put(int *dest, ..), shmem_ctx_int_put(shmem_ctx_t ctx, int *dest, ..), and so on for each type of
 * the list that follows the family. At the end of the header are names without a type (shmem_put): in C11 and C++ they
 * select a function by the types of the arguments.
 *
 * Rules for all functions:
 *  1. An argument that names memory of another PE (dest of a put, source of a get, psync) is symmetric, as are ivar and
 *     sig_addr: it comes from shmem_malloc or a function like it, or is a global or static object. The program passes
 *     the address at its own PE.
 *  2. PE numbers are those of the world team, or of the team of the context or of the collective.
 *  3. Lengths and strides count elements. Functions with mem in their names count bytes.
 *  4. A call with an invalid argument does nothing. The first such call of a process is reported on standard error;
 *     with SHMEM_DEBUG set, each is.
 *  5. Operations that write at another PE and return no value may still be under way on return; shmem_quiet completes
 *     them.
 *  6. Atomic operations are atomic with respect to each other, for objects of the same type. Objects of atomic
 *     operations, signals, waits and tests must be aligned to their size.
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

typedef struct shmem_impl_ctx  *shmem_ctx_t;  /* a communication context; programs only copy and compare it */
typedef struct shmem_impl_team *shmem_team_t; /* a team of PEs; likewise */
typedef struct shmem_impl_ct   *shmem_ct_t;   /* a counter of counting puts; likewise (Selvedge) */

/* The configuration of a new team. */
typedef struct {
    int num_contexts; /* contexts to be made of the team; selected by SHMEM_TEAM_NUM_CONTEXTS */
} shmem_team_config_t;

/* The configuration of a session. */
typedef struct {
    size_t total_ops; /* expected number of operations; selected by SHMEM_CTX_SESSION_TOTAL_OPS */
} shmem_ctx_session_config_t;

/* Complex numbers, by names that C++ accepts, too. */
#ifdef __cplusplus
__extension__ typedef double _Complex shmem_impl_complexd;
__extension__ typedef float _Complex shmem_impl_complexf;
#else
typedef double _Complex shmem_impl_complexd;
typedef float _Complex shmem_impl_complexf;
#endif

/* ---- Constants ------------------------------------------------------------------------------------------- */
