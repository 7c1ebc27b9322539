/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shmemx.h: the names of Sandia OpenSHMEM for counting puts, and for functions that OpenSHMEM 1.6 has made standard.
 * New programs should use shmem.h, which has the same functions and explains the notation of this header.
 *
 * Made by `make docs-pages` from the table in crates/doors/shmem/api; not to be edited.
 */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

/* Programs test for this name before they use shmemx_wtime. */
#define HAVE_SHMEMX_WTIME 1

typedef shmem_ct_t shmemx_ct_t; /* a counter of counting puts */

#define SHMEMX_TEAM_NODE SHMEM_TEAM_SHARED /* the PEs of this machine */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Counting puts --------------------------------------------------------------------------------------------- */

/* Same as shmem_ct_create. */
SELVEDGE_FN(void, shmemx_ct_create, shmemx_ct_t *ct)

/* Same as shmem_ct_free. */
SELVEDGE_FN(void, shmemx_ct_free, shmemx_ct_t *ct)

/* Same as shmem_ct_get. */
SELVEDGE_FN(long, shmemx_ct_get, shmemx_ct_t ct)

/* Same as shmem_ct_set. */
SELVEDGE_FN(void, shmemx_ct_set, shmemx_ct_t ct, long value)

/* Same as shmem_ct_wait. */
SELVEDGE_FN(void, shmemx_ct_wait, shmemx_ct_t ct, long wait_for)

/* Same as shmem_ct_test. */
SELVEDGE_FN(int, shmemx_ct_test, shmemx_ct_t ct, long wait_for)

/* The same for bytes (mem). */
SELVEDGE_FN(void, shmemx_putmem_ct, shmemx_ct_t ct, void *dest, const void *source, size_t nelems, int pe)
SELVEDGE_FN(void, shmemx_getmem_ct, shmemx_ct_t ct, void *dest, const void *source, size_t nelems, int pe)

/* ---- Remote memory access in blocks ---------------------------------------------------------------------------- */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_ibput. */ \
    SELVEDGE_CTX_FN(void, P, T##_ibput, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe) \
    /* Same as shmem_ibget. */ \
    SELVEDGE_CTX_FN(void, P, T##_ibget, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe)
SELVEDGE_RMA(SELVEDGE_F, shmemx_)
#undef SELVEDGE_F

/* The same for elements of 8, 16, 32, 64, 128 bits. */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_FN(void, P, ibput##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe) \
    SELVEDGE_CTX_FN(void, P, ibget##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe)
SELVEDGE_SIZES(SELVEDGE_F, shmemx_)
#undef SELVEDGE_F

/* ---- Signals --------------------------------------------------------------------------------------------------- */

/* Same as shmem_signal_add. */
SELVEDGE_FN(void, shmemx_signal_add, uint64_t *sig_addr, uint64_t signal, int pe)
SELVEDGE_FN(void, shmemx_ctx_signal_add, shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)

/* Same as shmem_signal_set. */
SELVEDGE_FN(void, shmemx_signal_set, uint64_t *sig_addr, uint64_t signal, int pe)
SELVEDGE_FN(void, shmemx_ctx_signal_set, shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)

/* ---- Scans ----------------------------------------------------------------------------------------------------- */

/* For the standard RMA types, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_sum_inscan. */ \
    SELVEDGE_FN(int, P##T##_sum_inscan, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* Same as shmem_sum_exscan. */ \
    SELVEDGE_FN(int, P##T##_sum_exscan, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_NUMBERS(SELVEDGE_F, shmemx_)
#undef SELVEDGE_F

/* ---- Queries --------------------------------------------------------------------------------------------------- */

/* Returns the time in seconds since a fixed moment of this process. */
SELVEDGE_FN(double, shmemx_wtime, void)

/* Returns the name of the host of this PE. The string belongs to the library: do not change or free it. */
SELVEDGE_FN(char *, shmemx_nodename, void)

/* ---- Regions --------------------------------------------------------------------------------------------------- */

/* Begins a region of the program, on which a report may be about: selvedge sim --region NAME, or live
 * SELVEDGE_REGION. Regions nest and repeat. Not collective. */
SELVEDGE_FN(void, shmemx_region_begin, const char *name)

/* Ends a region. */
SELVEDGE_FN(void, shmemx_region_end, const char *name)

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus)

/* ---- Type-generic names: C++ ----------------------------------------------------------------------------------- */

/* Remote memory access in blocks */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, ibput, (dest, source, dst, sst, bsize, nblocks, pe), \
                          TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                          size_t nblocks, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, ibget, (dest, source, dst, sst, bsize, nblocks, pe), \
                          TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                          size_t nblocks, int pe)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmemx_)
#undef SELVEDGE_F

/* Signals */
inline void shmemx_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
    return shmemx_ctx_signal_add(ctx, sig_addr, signal, pe);
}
inline void shmemx_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
    return shmemx_ctx_signal_set(ctx, sig_addr, signal, pe);
}

/* Scans */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, sum_inscan, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    SELVEDGE_OVERLOAD(int, P, T, sum_exscan, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_NUMBERS_DISTINCT(SELVEDGE_F, shmemx_)
#undef SELVEDGE_F
#define SELVEDGE_F(PART, T, P) \
    template <template <typename> class Complex> \
    SELVEDGE_OVERLOAD(int, P, T, sum_inscan, (team, shmem_impl_as<shmem_impl_##T>(dest), \
                       shmem_impl_as<const shmem_impl_##T>(source), nelems), \
                      shmem_team_t team, Complex<PART> *dest, const Complex<PART> *source, size_t nelems) \
    template <template <typename> class Complex> \
    SELVEDGE_OVERLOAD(int, P, T, sum_exscan, (team, shmem_impl_as<shmem_impl_##T>(dest), \
                       shmem_impl_as<const shmem_impl_##T>(source), nelems), \
                      shmem_team_t team, Complex<PART> *dest, const Complex<PART> *source, size_t nelems)
SELVEDGE_F(double, complexd, shmemx_)
SELVEDGE_F(float, complexf, shmemx_)
#undef SELVEDGE_F

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

/* ---- Type-generic names: C11 ----------------------------------------------------------------------------------- */

/* Remote memory access in blocks */
#define shmemx_ibput(...) shmem_ibput(__VA_ARGS__)
#define shmemx_ibget(...) shmem_ibget(__VA_ARGS__)

/* Signals */
#define shmemx_signal_add(...) shmem_signal_add(__VA_ARGS__)
#define shmemx_signal_set(...) shmem_signal_set(__VA_ARGS__)

/* Scans */
#define shmemx_sum_inscan(...) shmem_sum_inscan(__VA_ARGS__)
#define shmemx_sum_exscan(...) shmem_sum_exscan(__VA_ARGS__)

#endif

#endif /* SHMEMX_H */
