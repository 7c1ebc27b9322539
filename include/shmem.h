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

/* Version. */
#define SHMEM_MAJOR_VERSION 1                /* of the specification */
#define SHMEM_MINOR_VERSION 6                /* of the specification */
#define SHMEM_MAX_NAME_LEN  256              /* characters of SHMEM_VENDOR_STRING, its end included */
#define SHMEM_VENDOR_STRING "Selvedge 0.1.0" /* name and version of the library */

/* Handles. */
#define SHMEM_CTX_INVALID  ((shmem_ctx_t)0)  /* no context */
#define SHMEM_CTX_DEFAULT  ((shmem_ctx_t)1)  /* the context of operations that name none */
#define SHMEM_TEAM_INVALID ((shmem_team_t)0) /* no team */
#define SHMEM_TEAM_WORLD   ((shmem_team_t)1) /* all PEs */
#define SHMEM_TEAM_SHARED  ((shmem_team_t)2) /* the PEs whose memory this PE can read and write by itself */
#define SHMEM_CT_INVALID   ((shmem_ct_t)0)   /* no counter (Selvedge) */

/* Levels of thread support. */
#define SHMEM_THREAD_SINGLE     0 /* one thread */
#define SHMEM_THREAD_FUNNELED   1 /* threads, of which only the main one calls the library */
#define SHMEM_THREAD_SERIALIZED 2 /* threads that never call the library at the same time */
#define SHMEM_THREAD_MULTIPLE   3 /* any thread calls at any time */

/* Hints to shmem_malloc_with_hints; they may be combined. */
#define SHMEM_MALLOC_ATOMICS_REMOTE (1l << 0) /* other PEs will do atomic operations on it */
#define SHMEM_MALLOC_SIGNAL_REMOTE  (1l << 1) /* other PEs will signal in it */

/* Teams, contexts and sessions. */
#define SHMEM_TEAM_NUM_CONTEXTS     (1l << 0) /* mask: num_contexts of a shmem_team_config_t counts */
#define SHMEM_CTX_PRIVATE           (1l << 0) /* option: used only by the thread that made it */
#define SHMEM_CTX_SERIALIZED        (1l << 1) /* option: used by one thread at a time */
#define SHMEM_CTX_NOSTORE           (1l << 2) /* option: fence and quiet need not cover the PE's own stores */
#define SHMEM_CTX_SESSION_TOTAL_OPS (1l << 0) /* mask: total_ops of a shmem_ctx_session_config_t counts */
#define SHMEM_CTX_SESSION_BATCH     (1l << 0) /* option: operations may be held back to go together */

/* How signals are updated. */
#define SHMEM_SIGNAL_SET 0 /* the signal is set */
#define SHMEM_SIGNAL_ADD 1 /* the signal is added to */

/* Comparisons of waits and tests: object CMP value. */
#define SHMEM_CMP_EQ 1 /* = */
#define SHMEM_CMP_NE 2 /* not = */
#define SHMEM_CMP_GT 3 /* > */
#define SHMEM_CMP_GE 4 /* >= */
#define SHMEM_CMP_LT 5 /* < */
#define SHMEM_CMP_LE 6 /* <= */

/* Work arrays of collectives over active sets (deprecated since 1.5). */
#define SHMEM_SYNC_VALUE              0  /* value of each element of psync before and after a call */
#define SHMEM_SYNC_SIZE               16 /* elements of psync, for any collective */
#define SHMEM_BCAST_SYNC_SIZE         16 /* for broadcasts */
#define SHMEM_REDUCE_SYNC_SIZE        16 /* for reductions */
#define SHMEM_BARRIER_SYNC_SIZE       16 /* for shmem_barrier and shmem_sync */
#define SHMEM_COLLECT_SYNC_SIZE       16 /* for collect and fcollect */
#define SHMEM_ALLTOALL_SYNC_SIZE      16 /* for alltoall */
#define SHMEM_ALLTOALLS_SYNC_SIZE     16 /* for alltoalls */
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1  /* elements of pwrk */

/* The same constants by their old names (deprecated since 1.3). */
#define _SHMEM_MAJOR_VERSION           SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION           SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN            SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING           SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ                  SHMEM_CMP_EQ
#define _SHMEM_CMP_NE                  SHMEM_CMP_NE
#define _SHMEM_CMP_GT                  SHMEM_CMP_GT
#define _SHMEM_CMP_GE                  SHMEM_CMP_GE
#define _SHMEM_CMP_LT                  SHMEM_CMP_LT
#define _SHMEM_CMP_LE                  SHMEM_CMP_LE
#define _SHMEM_SYNC_VALUE              SHMEM_SYNC_VALUE
#define _SHMEM_BCAST_SYNC_SIZE         SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE        SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE       SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE       SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

/* ---- Types of elements ----------------------------------------------------------------------------------- */

/* Each list applies X to each type of a set, to the type's name within names of functions, and to Y. In a list of
 * DISTINCT types no two are the same type: int64_t is long. */

/* the standard RMA types */
#define SELVEDGE_RMA_DISTINCT(X, Y) \
    X(float, float, Y) X(double, double, Y) X(long double, longdouble, Y) X(char, char, Y) X(signed char, schar, Y) \
    X(short, short, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) X(unsigned char, uchar, Y) \
    X(unsigned short, ushort, Y) X(unsigned int, uint, Y) X(unsigned long, ulong, Y) \
    X(unsigned long long, ulonglong, Y)
#define SELVEDGE_RMA(X, Y) \
    SELVEDGE_RMA_DISTINCT(X, Y) X(int8_t, int8, Y) X(int16_t, int16, Y) X(int32_t, int32, Y) X(int64_t, int64, Y) \
    X(uint8_t, uint8, Y) X(uint16_t, uint16, Y) X(uint32_t, uint32, Y) X(uint64_t, uint64, Y) X(size_t, size, Y) \
    X(ptrdiff_t, ptrdiff, Y)

/* the standard AMO types */
#define SELVEDGE_AMO_DISTINCT(X, Y) \
    X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) X(unsigned int, uint, Y) X(unsigned long, ulong, Y) \
    X(unsigned long long, ulonglong, Y)
#define SELVEDGE_AMO(X, Y) \
    SELVEDGE_AMO_DISTINCT(X, Y) X(int32_t, int32, Y) X(int64_t, int64, Y) X(uint32_t, uint32, Y) \
    X(uint64_t, uint64, Y) X(size_t, size, Y) X(ptrdiff_t, ptrdiff, Y)

/* the extended AMO types */
#define SELVEDGE_AMO_EXTENDED_DISTINCT(X, Y) \
    X(float, float, Y) X(double, double, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) \
    X(unsigned int, uint, Y) X(unsigned long, ulong, Y) X(unsigned long long, ulonglong, Y)
#define SELVEDGE_AMO_EXTENDED(X, Y) \
    SELVEDGE_AMO_EXTENDED_DISTINCT(X, Y) X(int32_t, int32, Y) X(int64_t, int64, Y) X(uint32_t, uint32, Y) \
    X(uint64_t, uint64, Y) X(size_t, size, Y) X(ptrdiff_t, ptrdiff, Y)

/* the bitwise AMO types */
#define SELVEDGE_AMO_BITWISE_DISTINCT(X, Y) \
    X(unsigned int, uint, Y) X(unsigned long, ulong, Y) X(unsigned long long, ulonglong, Y) X(int32_t, int32, Y) \
    X(int64_t, int64, Y)
#define SELVEDGE_AMO_BITWISE(X, Y) \
    SELVEDGE_AMO_BITWISE_DISTINCT(X, Y) X(uint32_t, uint32, Y) X(uint64_t, uint64, Y)

/* the standard AMO types, short, unsigned short */
#define SELVEDGE_SYNC_DISTINCT(X, Y) \
    X(short, short, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) X(unsigned short, ushort, Y) \
    X(unsigned int, uint, Y) X(unsigned long, ulong, Y) X(unsigned long long, ulonglong, Y)
#define SELVEDGE_SYNC(X, Y) \
    SELVEDGE_SYNC_DISTINCT(X, Y) X(int32_t, int32, Y) X(int64_t, int64, Y) X(uint32_t, uint32, Y) \
    X(uint64_t, uint64, Y) X(size_t, size, Y) X(ptrdiff_t, ptrdiff, Y)

/* the unsigned types and those of fixed size */
#define SELVEDGE_BITWISE_DISTINCT(X, Y) \
    X(unsigned char, uchar, Y) X(unsigned short, ushort, Y) X(unsigned int, uint, Y) X(unsigned long, ulong, Y) \
    X(unsigned long long, ulonglong, Y) X(int8_t, int8, Y) X(int16_t, int16, Y) X(int32_t, int32, Y) \
    X(int64_t, int64, Y)
#define SELVEDGE_BITWISE(X, Y) \
    SELVEDGE_BITWISE_DISTINCT(X, Y) X(uint8_t, uint8, Y) X(uint16_t, uint16, Y) X(uint32_t, uint32, Y) \
    X(uint64_t, uint64, Y) X(size_t, size, Y)

/* the standard RMA types, double _Complex, float _Complex */
#define SELVEDGE_NUMBERS_DISTINCT(X, Y) \
    X(float, float, Y) X(double, double, Y) X(long double, longdouble, Y) X(char, char, Y) X(signed char, schar, Y) \
    X(short, short, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) X(unsigned char, uchar, Y) \
    X(unsigned short, ushort, Y) X(unsigned int, uint, Y) X(unsigned long, ulong, Y) \
    X(unsigned long long, ulonglong, Y) X(shmem_impl_complexd, complexd, Y) X(shmem_impl_complexf, complexf, Y)
#define SELVEDGE_NUMBERS(X, Y) \
    SELVEDGE_NUMBERS_DISTINCT(X, Y) X(int8_t, int8, Y) X(int16_t, int16, Y) X(int32_t, int32, Y) \
    X(int64_t, int64, Y) X(uint8_t, uint8, Y) X(uint16_t, uint16, Y) X(uint32_t, uint32, Y) X(uint64_t, uint64, Y) \
    X(size_t, size, Y) X(ptrdiff_t, ptrdiff, Y)

/* short, int, long, long long */
#define SELVEDGE_INTEGERS_OLD(X, Y) \
    X(short, short, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y)

/* short, int, long, long long, float, double, long double */
#define SELVEDGE_REALS_OLD(X, Y) \
    X(short, short, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) X(float, float, Y) \
    X(double, double, Y) X(long double, longdouble, Y)

/* short, int, long, long long, float, double, long double, double _Complex, float _Complex */
#define SELVEDGE_NUMBERS_OLD(X, Y) \
    X(short, short, Y) X(int, int, Y) X(long, long, Y) X(long long, longlong, Y) X(float, float, Y) \
    X(double, double, Y) X(long double, longdouble, Y) X(shmem_impl_complexd, complexd, Y) \
    X(shmem_impl_complexf, complexf, Y)

/* 8, 16, 32, 64, 128 bits */
#define SELVEDGE_SIZES(X, Y) \
    X(void, 8, Y) X(void, 16, Y) X(void, 32, Y) X(void, 64, Y) X(void, 128, Y)

/* 8, 16, 32, 64, 128 bits, and bytes (mem) */
#define SELVEDGE_BLOCKS(X, Y) \
    X(void, 8, Y) X(void, 16, Y) X(void, 32, Y) X(void, 64, Y) X(void, 128, Y) X(void, mem, Y)

/* 32, 64 bits */
#define SELVEDGE_SIZES_OLD(X, Y) \
    X(void, 32, Y) X(void, 64, Y)

/* ---- How functions are declared -------------------------------------------------------------------------- */

/* A function, and the same for profilers. */
#define SELVEDGE_FN(RETURNS, NAME, ...) \
    RETURNS NAME(__VA_ARGS__) SHMEM_FUNCTION_ATTRIBUTES; \
    RETURNS p##NAME(__VA_ARGS__) SHMEM_FUNCTION_ATTRIBUTES;

/* A function, and the same with a context. P is how names begin. */
#define SELVEDGE_CTX_FN(RETURNS, P, NAME, ...) \
    SELVEDGE_FN(RETURNS, P##NAME, __VA_ARGS__) \
    SELVEDGE_FN(RETURNS, P##ctx_##NAME, shmem_ctx_t ctx, __VA_ARGS__)

/* Of a function that does not return. */
#if defined(__cplusplus)
#define SELVEDGE_NEVER [[noreturn]]
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define SELVEDGE_NEVER _Noreturn
#else
#define SELVEDGE_NEVER
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Library setup, exit and query ----------------------------------------------------------------------------- */

/* Starts OpenSHMEM in this process. Collective. Further calls are counted; each needs a shmem_finalize. */
SELVEDGE_FN(void, shmem_init, void)

/* Returns the number of this PE in the job, from 0. */
SELVEDGE_FN(int, shmem_my_pe, void)

/* Returns the number of PEs of the job. */
SELVEDGE_FN(int, shmem_n_pes, void)

/* Undoes one start; the last one completes all communication of all PEs and frees all objects. Collective. */
SELVEDGE_FN(void, shmem_finalize, void)

/* Sets *initialized to 1 between start and end, else to 0. Callable at any time. */
SELVEDGE_FN(void, shmem_query_initialized, int *initialized)

/* Ends the whole job, whose exit status becomes status. Any one PE may call it. */
SELVEDGE_FN(SELVEDGE_NEVER void, shmem_global_exit, int status)

/* Returns 1 if this PE can communicate with PE pe, else 0. */
SELVEDGE_FN(int, shmem_pe_accessible, int pe)

/* Returns 1 if addr is symmetric and can be reached at PE pe, else 0. */
SELVEDGE_FN(int, shmem_addr_accessible, const void *addr, int pe)

/* Returns the address at which this PE can load and store PE pe's copy of dest; NULL if it cannot. */
SELVEDGE_FN(void *, shmem_ptr, const void *dest, int pe)

/* As shmem_ptr, for PE pe of team. */
SELVEDGE_FN(void *, shmem_team_ptr, shmem_team_t team, const void *dest, int pe)

/* Returns the version of the specification that the library carries out. */
SELVEDGE_FN(void, shmem_info_get_version, int *major, int *minor)

/* Copies SHMEM_VENDOR_STRING to name, which has room for SHMEM_MAX_NAME_LEN characters. */
SELVEDGE_FN(void, shmem_info_get_name, char *name)

/* shmem_init; npes is ignored. (Deprecated since 1.2.) */
SELVEDGE_FN(void, start_pes, int npes)

/* shmem_my_pe. (Deprecated since 1.2.) */
SELVEDGE_FN(int, _my_pe, void)

/* shmem_n_pes. (Deprecated since 1.2.) */
SELVEDGE_FN(int, _num_pes, void)

/* ---- Thread support -------------------------------------------------------------------------------------------- */

/* As shmem_init, asking for a SHMEM_THREAD_* level; writes the granted level to *provided. Returns 0 on success. */
SELVEDGE_FN(int, shmem_init_thread, int requested, int *provided)

/* Writes the granted level of thread support to *provided. */
SELVEDGE_FN(void, shmem_query_thread, int *provided)

/* ---- Memory management ----------------------------------------------------------------------------------------- */

/* Allocates size bytes of every PE's symmetric heap. Returns NULL if there is no room. Collective, as are the
 * others: all PEs call with the same arguments, and a barrier comes before the return. */
SELVEDGE_FN(void *, shmem_malloc, size_t size)

/* Frees memory, after a barrier. */
SELVEDGE_FN(void, shmem_free, void *ptr)

/* Makes an allocation larger or smaller, and moves it if it has to. Keeps as much of its contents as fits. */
SELVEDGE_FN(void *, shmem_realloc, void *ptr, size_t size)

/* As shmem_malloc, at a multiple of alignment, which is a power of two and of sizeof(void *). */
SELVEDGE_FN(void *, shmem_align, size_t alignment, size_t size)

/* As shmem_malloc, with SHMEM_MALLOC_* hints on the use of the memory. */
SELVEDGE_FN(void *, shmem_malloc_with_hints, size_t size, long hints)

/* As shmem_malloc, for count objects of size bytes, all zero. */
SELVEDGE_FN(void *, shmem_calloc, size_t count, size_t size)

/* shmem_malloc. (Deprecated since 1.2.) */
SELVEDGE_FN(void *, shmalloc, size_t size)

/* shmem_free. (Deprecated since 1.2.) */
SELVEDGE_FN(void, shfree, void *ptr)

/* shmem_realloc. (Deprecated since 1.2.) */
SELVEDGE_FN(void *, shrealloc, void *ptr, size_t size)

/* shmem_align. (Deprecated since 1.2.) */
SELVEDGE_FN(void *, shmemalign, size_t alignment, size_t size)

/* ---- Team management ------------------------------------------------------------------------------------------- */

/* Returns the number of this PE in team, from 0; -1 if it is no member. */
SELVEDGE_FN(int, shmem_team_my_pe, shmem_team_t team)

/* Returns the number of PEs of team; -1 for SHMEM_TEAM_INVALID. */
SELVEDGE_FN(int, shmem_team_n_pes, shmem_team_t team)

/* Writes those fields of a team's configuration that config_mask names. Returns 0 on success. */
SELVEDGE_FN(int, shmem_team_get_config, shmem_team_t team, long config_mask, shmem_team_config_t *config)

/* Returns the number in dest_team of the PE that is src_pe in src_team; -1 if it has none. */
SELVEDGE_FN(int, shmem_team_translate_pe, shmem_team_t src_team, int src_pe, shmem_team_t dest_team)

/* Makes a team of PEs start, start + stride, and so on of parent_team. Collective over the parent. Returns 0 on
 * success. */
SELVEDGE_FN(int, shmem_team_split_strided, shmem_team_t parent_team, int start, int stride, int size,
            const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)

/* Lays parent_team out in rows of xrange PEs; makes a team of this PE's row and one of its column. Returns 0 on
 * success. */
SELVEDGE_FN(int, shmem_team_split_2d, shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config,
            long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
            shmem_team_t *yaxis_team)

/* Destroys a team and those of its contexts that are not private. Collective over the team. */
SELVEDGE_FN(void, shmem_team_destroy, shmem_team_t team)

/* ---- Communication contexts ------------------------------------------------------------------------------------ */

/* Makes a context of the world team, with SHMEM_CTX_* options: a stream of operations with a quiet of its own.
 * Returns 0 on success. */
SELVEDGE_FN(int, shmem_ctx_create, long options, shmem_ctx_t *ctx)

/* Makes a context whose PE numbers are those of team. Returns 0 on success. */
SELVEDGE_FN(int, shmem_team_create_ctx, shmem_team_t team, long options, shmem_ctx_t *ctx)

/* Completes the operations of a context, and destroys it. */
SELVEDGE_FN(void, shmem_ctx_destroy, shmem_ctx_t ctx)

/* Writes the team of a context to *team. Returns 0 on success. */
SELVEDGE_FN(int, shmem_ctx_get_team, shmem_ctx_t ctx, shmem_team_t *team)

/* ---- Remote memory access -------------------------------------------------------------------------------------- */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Copies nelems elements of source to dest at PE pe. source may be used again on return. */ \
    SELVEDGE_CTX_FN(void, P, T##_put, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Writes one element to dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_p, TYPE *dest, TYPE value, int pe) \
    /* As shmem_put, with a stride of dst elements in dest and of sst in source. */ \
    SELVEDGE_CTX_FN(void, P, T##_iput, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                    int pe) \
    /* As shmem_iput, for nblocks blocks of bsize elements; strides are from block to block. */ \
    SELVEDGE_CTX_FN(void, P, T##_ibput, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe) \
    /* Copies nelems elements of source at PE pe to dest. They are there on return. */ \
    SELVEDGE_CTX_FN(void, P, T##_get, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Returns one element of source at PE pe. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_g, const TYPE *source, int pe) \
    /* As shmem_get, with a stride of dst elements in dest and of sst in source. */ \
    SELVEDGE_CTX_FN(void, P, T##_iget, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                    int pe) \
    /* As shmem_iget, for nblocks blocks of bsize elements; strides are from block to block. */ \
    SELVEDGE_CTX_FN(void, P, T##_ibget, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* The same for elements of 8, 16, 32, 64, 128 bits, and bytes (mem). */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_FN(void, P, put##T, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_FN(void, P, get##T, TYPE *dest, const TYPE *source, size_t nelems, int pe)
SELVEDGE_BLOCKS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* The same for elements of 8, 16, 32, 64, 128 bits. */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_FN(void, P, iput##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                    int pe) \
    SELVEDGE_CTX_FN(void, P, ibput##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe) \
    SELVEDGE_CTX_FN(void, P, iget##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                    int pe) \
    SELVEDGE_CTX_FN(void, P, ibget##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe)
SELVEDGE_SIZES(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Non-blocking remote memory access ------------------------------------------------------------------------- */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As shmem_put; source may be used again after a shmem_quiet. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_nbi, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* As shmem_get; the elements are there after a shmem_quiet. */ \
    SELVEDGE_CTX_FN(void, P, T##_get_nbi, TYPE *dest, const TYPE *source, size_t nelems, int pe)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* The same for elements of 8, 16, 32, 64, 128 bits, and bytes (mem). */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_FN(void, P, put##T##_nbi, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_FN(void, P, get##T##_nbi, TYPE *dest, const TYPE *source, size_t nelems, int pe)
SELVEDGE_BLOCKS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Selvedge: counting puts ----------------------------------------------------------------------------------- */

/* Makes a counter, 0 at every PE. *ct is SHMEM_CT_INVALID if there are too many. Collective over the world team. */
SELVEDGE_FN(void, shmem_ct_create, shmem_ct_t *ct)

/* Frees a counter and sets *ct to SHMEM_CT_INVALID. Collective over the world team. */
SELVEDGE_FN(void, shmem_ct_free, shmem_ct_t *ct)

/* Returns the value of this PE's counter. */
SELVEDGE_FN(long, shmem_ct_get, shmem_ct_t ct)

/* Sets this PE's counter. */
SELVEDGE_FN(void, shmem_ct_set, shmem_ct_t ct, long value)

/* Waits until this PE's counter has reached wait_for. The counted data has then arrived. */
SELVEDGE_FN(void, shmem_ct_wait, shmem_ct_t ct, long wait_for)

/* Returns 1 if this PE's counter has reached wait_for, else 0. */
SELVEDGE_FN(int, shmem_ct_test, shmem_ct_t ct, long wait_for)

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As shmem_put, and adds one to the counter of PE pe once the data is there. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_ct, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* As shmem_put_ct; source may be used again after a shmem_quiet. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_ct_nbi, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* As shmem_get, and adds one to the counter of PE pe, which so learns that its data has been read. */ \
    SELVEDGE_CTX_FN(void, P, T##_get_ct, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* As shmem_p, and adds one to the counter of PE pe once the element is there. */ \
    SELVEDGE_CTX_FN(void, P, T##_p_ct, shmem_ct_t ct, TYPE *dest, TYPE value, int pe)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* The same for elements of 8, 16, 32, 64, 128 bits, and bytes (mem). */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_FN(void, P, put##T##_ct, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_FN(void, P, put##T##_ct_nbi, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_FN(void, P, get##T##_ct, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)
SELVEDGE_BLOCKS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Atomic memory operations ---------------------------------------------------------------------------------- */

/* For the extended AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Reads source at PE pe. It is atomic, as all of these, with respect to other atomic operations on the same \
     * object and type. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch, const TYPE *source, int pe) \
    /* Writes dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_set, TYPE *dest, TYPE value, int pe) \
    /* Writes dest at PE pe. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_swap, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Writes dest at PE pe if it equals cond. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_compare_swap, TYPE *dest, TYPE cond, TYPE value, int pe) \
    /* Adds one to dest at PE pe. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_inc, TYPE *dest, int pe) \
    /* Adds one to dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_inc, TYPE *dest, int pe) \
    /* Adds value to dest at PE pe. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_add, TYPE *dest, TYPE value, int pe) \
    /* Adds value to dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_add, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the bitwise AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Bitwise and of value into dest at PE pe. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_and, TYPE *dest, TYPE value, int pe) \
    /* Bitwise and of value into dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_and, TYPE *dest, TYPE value, int pe) \
    /* Bitwise or of value into dest at PE pe. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_or, TYPE *dest, TYPE value, int pe) \
    /* Bitwise or of value into dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_or, TYPE *dest, TYPE value, int pe) \
    /* Bitwise exclusive or of value into dest at PE pe. Returns the old value. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_xor, TYPE *dest, TYPE value, int pe) \
    /* Bitwise exclusive or of value into dest at PE pe. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_xor, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_BITWISE(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Non-blocking atomic memory operations --------------------------------------------------------------------- */

/* For the extended AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As shmem_atomic_fetch; the value is in *fetch after a shmem_quiet, as with all of these. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_nbi, TYPE *fetch, const TYPE *source, int pe) \
    /* As shmem_atomic_swap. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_swap_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As shmem_atomic_compare_swap. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_compare_swap_nbi, TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe) \
    /* As shmem_atomic_fetch_inc. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_inc_nbi, TYPE *fetch, TYPE *dest, int pe) \
    /* As shmem_atomic_fetch_add. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_add_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the bitwise AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As shmem_atomic_fetch_and. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_and_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe) \
    /* As shmem_atomic_fetch_or. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_or_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe) \
    /* As shmem_atomic_fetch_xor. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_xor_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_BITWISE(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Atomic memory operations by their old names --------------------------------------------------------------- */

/* For the extended AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* shmem_atomic_fetch. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_fetch, const TYPE *source, int pe) \
    /* shmem_atomic_set. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_set, TYPE *dest, TYPE value, int pe) \
    /* shmem_atomic_swap. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_swap, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* shmem_atomic_compare_swap. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_cswap, TYPE *dest, TYPE cond, TYPE value, int pe) \
    /* shmem_atomic_fetch_inc. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_finc, TYPE *dest, int pe) \
    /* shmem_atomic_inc. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_inc, TYPE *dest, int pe) \
    /* shmem_atomic_fetch_add. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_fadd, TYPE *dest, TYPE value, int pe) \
    /* shmem_atomic_add. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_add, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Signalling ------------------------------------------------------------------------------------------------ */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As shmem_put; then, once the data is there, sets or adds signal to sig_addr at PE pe, as sig_op \
     * (SHMEM_SIGNAL_*) says. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_signal, TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, \
                    uint64_t signal, int sig_op, int pe) \
    /* As shmem_put_signal; source may be used again after a shmem_quiet. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_signal_nbi, TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, \
                    uint64_t signal, int sig_op, int pe)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* The same for elements of 8, 16, 32, 64, 128 bits, and bytes (mem). */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_FN(void, P, put##T##_signal, TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, \
                    uint64_t signal, int sig_op, int pe) \
    SELVEDGE_CTX_FN(void, P, put##T##_signal_nbi, TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, \
                    uint64_t signal, int sig_op, int pe)
SELVEDGE_BLOCKS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Adds to a signal at PE pe. */
SELVEDGE_FN(void, shmem_signal_add, uint64_t *sig_addr, uint64_t signal, int pe)
SELVEDGE_FN(void, shmem_ctx_signal_add, shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)

/* Sets a signal at PE pe. */
SELVEDGE_FN(void, shmem_signal_set, uint64_t *sig_addr, uint64_t signal, int pe)
SELVEDGE_FN(void, shmem_ctx_signal_set, shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)

/* Returns the value of a signal of this PE. */
SELVEDGE_FN(uint64_t, shmem_signal_fetch, const uint64_t *sig_addr)

/* Waits until a signal of this PE compares (SHMEM_CMP_*) with cmp_value. Returns that value. */
SELVEDGE_FN(uint64_t, shmem_signal_wait_until, uint64_t *sig_addr, int cmp, uint64_t cmp_value)

/* ---- Sessions -------------------------------------------------------------------------------------------------- */

/* Announces a series of operations on a context, with SHMEM_CTX_SESSION_* options. */
SELVEDGE_FN(void, shmem_ctx_session_start, shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config,
            long config_mask)

/* Ends a session. Completes no operation. */
SELVEDGE_FN(void, shmem_ctx_session_stop, shmem_ctx_t ctx)

/* ---- Collectives: barrier and sync ----------------------------------------------------------------------------- */

/* Completes all operations of the default context, everywhere, and waits for all PEs. */
SELVEDGE_FN(void, shmem_barrier_all, void)

/* Waits for all PEs. Completes only the stores of the PEs themselves. */
SELVEDGE_FN(void, shmem_sync_all, void)

/* As shmem_sync_all, for the PEs of team. Returns 0 on success. Its type-generic name is shmem_sync. */
SELVEDGE_FN(int, shmem_team_sync, shmem_team_t team)

/* ---- Collectives: moving data ---------------------------------------------------------------------------------- */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Sends nelems elements from each PE of team to each: source block i goes to PE i, dest block i comes from \
     * PE i. Returns 0 on success, as do all collectives with a result. */ \
    SELVEDGE_FN(int, P##T##_alltoall, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* As shmem_alltoall, with strides of dst and sst elements. */ \
    SELVEDGE_FN(int, P##T##_alltoalls, shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, \
                ptrdiff_t sst, size_t nelems) \
    /* Copies nelems elements of source at PE pe_root of team to dest at every PE of it, the root included. */ \
    SELVEDGE_FN(int, P##T##_broadcast, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, \
                int pe_root) \
    /* Puts the sources of all PEs of team in dest, one behind the other. nelems may differ from PE to PE. */ \
    SELVEDGE_FN(int, P##T##_collect, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* As shmem_collect, with the same nelems at every PE. */ \
    SELVEDGE_FN(int, P##T##_fcollect, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* The same for bytes (mem). */
SELVEDGE_FN(int, shmem_alltoallmem, shmem_team_t team, void *dest, const void *source, size_t nelems)
SELVEDGE_FN(int, shmem_alltoallsmem, shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,
            size_t nelems)
SELVEDGE_FN(int, shmem_broadcastmem, shmem_team_t team, void *dest, const void *source, size_t nelems, int pe_root)
SELVEDGE_FN(int, shmem_collectmem, shmem_team_t team, void *dest, const void *source, size_t nelems)
SELVEDGE_FN(int, shmem_fcollectmem, shmem_team_t team, void *dest, const void *source, size_t nelems)

/* ---- Collectives: reductions ----------------------------------------------------------------------------------- */

/* For the unsigned types and those of fixed size. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Bitwise and over the PEs of team, element by element. Every PE gets the result. */ \
    SELVEDGE_FN(int, P##T##_and_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* Bitwise or. */ \
    SELVEDGE_FN(int, P##T##_or_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* Bitwise exclusive or. */ \
    SELVEDGE_FN(int, P##T##_xor_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_BITWISE(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* The greatest. */ \
    SELVEDGE_FN(int, P##T##_max_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* The least. */ \
    SELVEDGE_FN(int, P##T##_min_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard RMA types, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* The sum. */ \
    SELVEDGE_FN(int, P##T##_sum_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* The product. */ \
    SELVEDGE_FN(int, P##T##_prod_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_NUMBERS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Collectives: scans ---------------------------------------------------------------------------------------- */

/* For the standard RMA types, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* The sum over the PEs of team up to this one, this one included, element by element. */ \
    SELVEDGE_FN(int, P##T##_sum_inscan, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* The sum over the PEs of team before this one; 0 at the first. */ \
    SELVEDGE_FN(int, P##T##_sum_exscan, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_NUMBERS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Collectives over active sets ------------------------------------------------------------------------------ */

/* As shmem_barrier_all, for pe_size PEs: pe_start, and others at distances of 2^log_pe_stride. psync is symmetric,
 * has SHMEM_SYNC_SIZE elements of SHMEM_SYNC_VALUE, and has them again on return, here and below. (Deprecated
 * since 1.5.) */
SELVEDGE_FN(void, shmem_barrier, int pe_start, int log_pe_stride, int pe_size, long *psync)

/* As shmem_sync_all. (Deprecated since 1.5.) */
SELVEDGE_FN(void, shmem_sync, int pe_start, int log_pe_stride, int pe_size, long *psync)

/* For 32, 64 bits. */
#define SELVEDGE_F(TYPE, T, P) \
    /* As the team's. The root is counted within the set; its dest is not written. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##broadcast##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_root, int pe_start, \
                int log_pe_stride, int pe_size, long *psync) \
    /* As the team's. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##collect##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_start, int log_pe_stride, \
                int pe_size, long *psync) \
    /* As the team's. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##fcollect##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_start, \
                int log_pe_stride, int pe_size, long *psync) \
    /* As the team's. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##alltoall##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_start, \
                int log_pe_stride, int pe_size, long *psync) \
    /* As the team's. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##alltoalls##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                int pe_start, int log_pe_stride, int pe_size, long *psync)
SELVEDGE_SIZES_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For short, int, long, long long. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Bitwise and. pwrk has room for SHMEM_REDUCE_MIN_WRKDATA_SIZE elements, here and below. (Deprecated since \
     * 1.5.) */ \
    SELVEDGE_FN(void, P##T##_and_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* Bitwise or. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_or_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* Bitwise exclusive or. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_xor_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)
SELVEDGE_INTEGERS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For short, int, long, long long, float, double, long double. */
#define SELVEDGE_F(TYPE, T, P) \
    /* The greatest. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_max_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* The least. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_min_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)
SELVEDGE_REALS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For short, int, long, long long, float, double, long double, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* The sum. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_sum_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* The product. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_prod_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)
SELVEDGE_NUMBERS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Point-to-point synchronisation: waiting ------------------------------------------------------------------- */

/* For the standard AMO types, short, unsigned short. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Waits until an object of this PE, which others write, compares (SHMEM_CMP_*) with cmp_value. */ \
    SELVEDGE_FN(void, P##T##_wait_until, TYPE *ivar, int cmp, TYPE cmp_value) \
    /* Waits until each of nelems objects does. Objects whose status is not 0 are left out, here and below. */ \
    SELVEDGE_FN(void, P##T##_wait_until_all, TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    /* Waits until one of them does. Returns its index; SIZE_MAX if all are left out. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_any, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                TYPE cmp_value) \
    /* Waits until at least one of them does. Returns how many do, and writes their indices to indices. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_some, TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
                int cmp, TYPE cmp_value) \
    /* As shmem_wait_until_all, each object with a value of its own. */ \
    SELVEDGE_FN(void, P##T##_wait_until_all_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* As shmem_wait_until_any, each object with a value of its own. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_any_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* As shmem_wait_until_some, each object with a value of its own. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_some_vector, TYPE *ivars, size_t nelems, size_t *indices, \
                const int *status, int cmp, const TYPE *cmp_values)
SELVEDGE_SYNC(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* shmem_long_wait_until, for C without type-generic names. (Deprecated since 1.4.) */
SELVEDGE_FN(void, shmem_wait_until, long *ivar, int cmp, long cmp_value)

/* For short, int, long, long long. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Waits until an object of this PE differs from cmp_value. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_wait, TYPE *ivar, TYPE cmp_value)
SELVEDGE_INTEGERS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* shmem_long_wait. (Deprecated since 1.4.) */
SELVEDGE_FN(void, shmem_wait, long *ivar, long cmp_value)

/* ---- Point-to-point synchronisation: testing ------------------------------------------------------------------- */

/* For the standard AMO types, short, unsigned short. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Returns 1 if an object of this PE, which others write, compares (SHMEM_CMP_*) with cmp_value, else 0. */ \
    SELVEDGE_FN(int, P##T##_test, TYPE *ivar, int cmp, TYPE cmp_value) \
    /* Returns 1 if each of nelems objects does, else 0. Objects whose status is not 0 are left out, here and \
     * below. */ \
    SELVEDGE_FN(int, P##T##_test_all, TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    /* Returns the index of one of them that does; SIZE_MAX if none does. */ \
    SELVEDGE_FN(size_t, P##T##_test_any, TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    /* Returns how many of them do, and writes their indices to indices. */ \
    SELVEDGE_FN(size_t, P##T##_test_some, TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                TYPE cmp_value) \
    /* As shmem_test_all, each object with a value of its own. */ \
    SELVEDGE_FN(int, P##T##_test_all_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* As shmem_test_any, each object with a value of its own. */ \
    SELVEDGE_FN(size_t, P##T##_test_any_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* As shmem_test_some, each object with a value of its own. */ \
    SELVEDGE_FN(size_t, P##T##_test_some_vector, TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
                int cmp, const TYPE *cmp_values)
SELVEDGE_SYNC(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Memory ordering ------------------------------------------------------------------------------------------- */

/* Orders the operations of a context: to each PE, earlier ones arrive before later ones. */
SELVEDGE_FN(void, shmem_fence, void)
SELVEDGE_FN(void, shmem_ctx_fence, shmem_ctx_t ctx)

/* Returns when all operations of a context are complete, at every PE. */
SELVEDGE_FN(void, shmem_quiet, void)
SELVEDGE_FN(void, shmem_ctx_quiet, shmem_ctx_t ctx)

/* As shmem_quiet, for operations towards npes PEs only. */
SELVEDGE_FN(void, shmem_pe_quiet, const int *target_pes, size_t npes)
SELVEDGE_FN(void, shmem_ctx_pe_quiet, shmem_ctx_t ctx, const int *target_pes, size_t npes)

/* ---- Distributed locks ----------------------------------------------------------------------------------------- */

/* Completes this PE's operations and releases a lock that it holds. A lock is a symmetric long, at first 0. */
SELVEDGE_FN(void, shmem_clear_lock, long *lock)

/* Waits for a lock and takes it. Waiting PEs get it in the order in which they came. */
SELVEDGE_FN(void, shmem_set_lock, long *lock)

/* Takes a lock if it is free. Returns 0 if it has taken the lock, 1 if another PE has it. */
SELVEDGE_FN(int, shmem_test_lock, long *lock)

/* ---- Profiling ------------------------------------------------------------------------------------------------- */

/* Does nothing by itself. A profiler may define it and read level. */
SELVEDGE_FN(void, shmem_pcontrol, int level, ...)

/* ---- Cache control --------------------------------------------------------------------------------------------- */

/* Does nothing: caches of this machine are coherent. The specification has dropped it in 1.5, and the next five.
 * (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_set_cache_inv, void)

/* Does nothing. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_set_cache_line_inv, void *dest)

/* Does nothing. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_clear_cache_inv, void)

/* Does nothing. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_clear_cache_line_inv, void *dest)

/* Does nothing. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_udcflush, void)

/* Does nothing. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_udcflush_line, void *dest)

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus)

/* ---- Type-generic names: C++ ----------------------------------------------------------------------------------- */

/* P, T and NAME together are a function's name; without T, the name to be overloaded. ARGUMENTS are in parentheses. */
#define SELVEDGE_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, ...) \
    inline RETURNS P##NAME(__VA_ARGS__) { return P##T##_##NAME ARGUMENTS; }
/* The same, and with a context. */
#define SELVEDGE_CTX_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, ...) \
    SELVEDGE_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, __VA_ARGS__) \
    inline RETURNS P##NAME(shmem_ctx_t ctx, __VA_ARGS__) { return P##ctx_##T##_##NAME(ctx, SELVEDGE_LIST ARGUMENTS); }
#define SELVEDGE_LIST(...) __VA_ARGS__

/* The address of a std::complex<float> as that of a float _Complex. */
template <typename To, typename From> inline To *shmem_impl_as(From *from)
{
    static_assert(sizeof(To) == sizeof(From), "the argument must point to a std::complex");
    return reinterpret_cast<To *>(from);
}

/* Remote memory access */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, put, (dest, source, nelems, pe), \
                          TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, p, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, iput, (dest, source, dst, sst, nelems, pe), \
                          TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, ibput, (dest, source, dst, sst, bsize, nblocks, pe), \
                          TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                          size_t nblocks, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, get, (dest, source, nelems, pe), \
                          TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, g, (source, pe), const TYPE *source, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, iget, (dest, source, dst, sst, nelems, pe), \
                          TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, ibget, (dest, source, dst, sst, bsize, nblocks, pe), \
                          TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                          size_t nblocks, int pe)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Non-blocking remote memory access */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, put_nbi, (dest, source, nelems, pe), \
                          TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, get_nbi, (dest, source, nelems, pe), \
                          TYPE *dest, const TYPE *source, size_t nelems, int pe)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Selvedge: counting puts */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, put_ct, (ct, dest, source, nelems, pe), \
                          shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, put_ct_nbi, (ct, dest, source, nelems, pe), \
                          shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, get_ct, (ct, dest, source, nelems, pe), \
                          shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, p_ct, (ct, dest, value, pe), shmem_ct_t ct, TYPE *dest, TYPE value, int pe)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Atomic memory operations */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_fetch, (source, pe), const TYPE *source, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_set, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_swap, (dest, value, pe), TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_compare_swap, (dest, cond, value, pe), \
                          TYPE *dest, TYPE cond, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_fetch_inc, (dest, pe), TYPE *dest, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_inc, (dest, pe), TYPE *dest, int pe) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_fetch_add, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_add, (dest, value, pe), TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_fetch_and, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_and, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_fetch_or, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_or, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(TYPE, P, T, atomic_fetch_xor, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_xor, (dest, value, pe), TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_BITWISE_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Non-blocking atomic memory operations */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_fetch_nbi, (fetch, source, pe), \
                          TYPE *fetch, const TYPE *source, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_swap_nbi, (fetch, dest, value, pe), \
                          TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_compare_swap_nbi, (fetch, dest, cond, value, pe), \
                          TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_fetch_inc_nbi, (fetch, dest, pe), TYPE *fetch, TYPE *dest, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_fetch_add_nbi, (fetch, dest, value, pe), \
                          TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_fetch_and_nbi, (fetch, dest, value, pe), \
                          TYPE *fetch, TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_fetch_or_nbi, (fetch, dest, value, pe), \
                          TYPE *fetch, TYPE *dest, TYPE value, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, atomic_fetch_xor_nbi, (fetch, dest, value, pe), \
                          TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_BITWISE_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Atomic memory operations by their old names */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(TYPE, P, T, fetch, (source, pe), const TYPE *source, int pe) \
    SELVEDGE_OVERLOAD(void, P, T, set, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_OVERLOAD(TYPE, P, T, swap, (dest, value, pe), TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(TYPE, P, T, cswap, (dest, cond, value, pe), TYPE *dest, TYPE cond, TYPE value, int pe) \
    SELVEDGE_OVERLOAD(TYPE, P, T, finc, (dest, pe), TYPE *dest, int pe) \
    SELVEDGE_OVERLOAD(void, P, T, inc, (dest, pe), TYPE *dest, int pe) \
    SELVEDGE_OVERLOAD(TYPE, P, T, fadd, (dest, value, pe), TYPE *dest, TYPE value, int pe) \
    SELVEDGE_OVERLOAD(void, P, T, add, (dest, value, pe), TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Signalling */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, put_signal, (dest, source, nelems, sig_addr, signal, sig_op, pe), \
                          TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, \
                          int sig_op, int pe) \
    SELVEDGE_CTX_OVERLOAD(void, P, T, put_signal_nbi, (dest, source, nelems, sig_addr, signal, sig_op, pe), \
                          TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, \
                          int sig_op, int pe)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
inline void shmem_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
    return shmem_ctx_signal_add(ctx, sig_addr, signal, pe);
}
inline void shmem_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
    return shmem_ctx_signal_set(ctx, sig_addr, signal, pe);
}

/* Collectives: barrier and sync */
inline int shmem_sync(shmem_team_t team)
{
    return shmem_team_sync(team);
}

/* Collectives: moving data */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, alltoall, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    SELVEDGE_OVERLOAD(int, P, T, alltoalls, (team, dest, source, dst, sst, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, \
                      size_t nelems) \
    SELVEDGE_OVERLOAD(int, P, T, broadcast, (team, dest, source, nelems, pe_root), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int pe_root) \
    SELVEDGE_OVERLOAD(int, P, T, collect, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    SELVEDGE_OVERLOAD(int, P, T, fcollect, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Collectives: reductions */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, and_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    SELVEDGE_OVERLOAD(int, P, T, or_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    SELVEDGE_OVERLOAD(int, P, T, xor_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_BITWISE_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, max_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    SELVEDGE_OVERLOAD(int, P, T, min_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_RMA_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, sum_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    SELVEDGE_OVERLOAD(int, P, T, prod_reduce, (team, dest, source, nreduce), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_NUMBERS_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F
#define SELVEDGE_F(PART, T, P) \
    template <template <typename> class Complex> \
    SELVEDGE_OVERLOAD(int, P, T, sum_reduce, (team, shmem_impl_as<shmem_impl_##T>(dest), \
                       shmem_impl_as<const shmem_impl_##T>(source), nreduce), \
                      shmem_team_t team, Complex<PART> *dest, const Complex<PART> *source, size_t nreduce) \
    template <template <typename> class Complex> \
    SELVEDGE_OVERLOAD(int, P, T, prod_reduce, (team, shmem_impl_as<shmem_impl_##T>(dest), \
                       shmem_impl_as<const shmem_impl_##T>(source), nreduce), \
                      shmem_team_t team, Complex<PART> *dest, const Complex<PART> *source, size_t nreduce)
SELVEDGE_F(double, complexd, shmem_)
SELVEDGE_F(float, complexf, shmem_)
#undef SELVEDGE_F

/* Collectives: scans */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, sum_inscan, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    SELVEDGE_OVERLOAD(int, P, T, sum_exscan, (team, dest, source, nelems), \
                      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_NUMBERS_DISTINCT(SELVEDGE_F, shmem_)
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
SELVEDGE_F(double, complexd, shmem_)
SELVEDGE_F(float, complexf, shmem_)
#undef SELVEDGE_F

/* Point-to-point synchronisation: waiting */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(void, P, T, wait_until, (const_cast<TYPE *>(ivar), cmp, cmp_value), \
                      volatile TYPE *ivar, int cmp, TYPE cmp_value) \
    SELVEDGE_OVERLOAD(void, P, T, wait_until_all, (const_cast<TYPE *>(ivars), nelems, status, cmp, cmp_value), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    SELVEDGE_OVERLOAD(size_t, P, T, wait_until_any, (const_cast<TYPE *>(ivars), nelems, status, cmp, cmp_value), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    SELVEDGE_OVERLOAD(size_t, P, T, wait_until_some, (const_cast<TYPE *>(ivars), nelems, indices, status, cmp, \
                       cmp_value), \
                      volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                      TYPE cmp_value) \
    SELVEDGE_OVERLOAD(void, P, T, wait_until_all_vector, (const_cast<TYPE *>(ivars), nelems, status, cmp, \
                       cmp_values), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values) \
    SELVEDGE_OVERLOAD(size_t, P, T, wait_until_any_vector, (const_cast<TYPE *>(ivars), nelems, status, cmp, \
                       cmp_values), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values) \
    SELVEDGE_OVERLOAD(size_t, P, T, wait_until_some_vector, (const_cast<TYPE *>(ivars), nelems, indices, status, \
                       cmp, cmp_values), \
                      volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                      const TYPE *cmp_values)
SELVEDGE_SYNC_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Point-to-point synchronisation: testing */
#define SELVEDGE_F(TYPE, T, P) \
    SELVEDGE_OVERLOAD(int, P, T, test, (const_cast<TYPE *>(ivar), cmp, cmp_value), \
                      volatile TYPE *ivar, int cmp, TYPE cmp_value) \
    SELVEDGE_OVERLOAD(int, P, T, test_all, (const_cast<TYPE *>(ivars), nelems, status, cmp, cmp_value), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    SELVEDGE_OVERLOAD(size_t, P, T, test_any, (const_cast<TYPE *>(ivars), nelems, status, cmp, cmp_value), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    SELVEDGE_OVERLOAD(size_t, P, T, test_some, (const_cast<TYPE *>(ivars), nelems, indices, status, cmp, cmp_value), \
                      volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                      TYPE cmp_value) \
    SELVEDGE_OVERLOAD(int, P, T, test_all_vector, (const_cast<TYPE *>(ivars), nelems, status, cmp, cmp_values), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values) \
    SELVEDGE_OVERLOAD(size_t, P, T, test_any_vector, (const_cast<TYPE *>(ivars), nelems, status, cmp, cmp_values), \
                      volatile TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values) \
    SELVEDGE_OVERLOAD(size_t, P, T, test_some_vector, (const_cast<TYPE *>(ivars), nelems, indices, status, cmp, \
                       cmp_values), \
                      volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                      const TYPE *cmp_values)
SELVEDGE_SYNC_DISTINCT(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

/* ---- Type-generic names: C11 ----------------------------------------------------------------------------------- */

/* The N-th argument. */
#define SELVEDGE_1ST(...)           SELVEDGE_1ST_(__VA_ARGS__, 0)
#define SELVEDGE_2ND(...)           SELVEDGE_2ND_(__VA_ARGS__, 0, 0)
#define SELVEDGE_3RD(...)           SELVEDGE_3RD_(__VA_ARGS__, 0, 0, 0)
#define SELVEDGE_1ST_(A, ...)       A
#define SELVEDGE_2ND_(A, B, ...)    B
#define SELVEDGE_3RD_(A, B, C, ...) C

/* The function that objects of a type select. That function's prototype checks how they are qualified. */
#define SELVEDGE_CASE(TYPE, T, OP)       SELVEDGE_QUALIFIED(TYPE, shmem_##T##OP)
#define SELVEDGE_CTX_CASE(TYPE, T, OP)   SELVEDGE_QUALIFIED(TYPE, shmem_ctx_##T##OP)
#define SELVEDGE_QUALIFIED(TYPE, CHOICE) , TYPE *: CHOICE, const TYPE *: CHOICE, volatile TYPE *: CHOICE
/* A selection that may fail in a branch that is not taken. */
#define SELVEDGE_OR_NONE(ARGUMENT, ...) _Generic((ARGUMENT) __VA_ARGS__, default: SELVEDGE_NONE)
#define SELVEDGE_NONE                   "there is no such function for objects of this type"

/* Selects by the type of an argument; by the next one if the first is a context. */
#define SELVEDGE_BY_1ST(EACH, OP, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)) SELVEDGE_##EACH(SELVEDGE_CASE, OP))(__VA_ARGS__)
#define SELVEDGE_BY_2ND(EACH, OP, ...) \
    _Generic((SELVEDGE_2ND(__VA_ARGS__)) SELVEDGE_##EACH(SELVEDGE_CASE, OP))(__VA_ARGS__)
#define SELVEDGE_CTX_BY_1ST(EACH, OP, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)) SELVEDGE_##EACH(SELVEDGE_CASE, OP), \
        shmem_ctx_t: SELVEDGE_OR_NONE(SELVEDGE_2ND(__VA_ARGS__), SELVEDGE_##EACH(SELVEDGE_CTX_CASE, OP)) \
    )(__VA_ARGS__)
#define SELVEDGE_CTX_BY_2ND(EACH, OP, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)), \
        default: SELVEDGE_OR_NONE(SELVEDGE_2ND(__VA_ARGS__), SELVEDGE_##EACH(SELVEDGE_CASE, OP)), \
        shmem_ctx_t: SELVEDGE_OR_NONE(SELVEDGE_3RD(__VA_ARGS__), SELVEDGE_##EACH(SELVEDGE_CTX_CASE, OP)) \
    )(__VA_ARGS__)
/* For an object that may be volatile, because other PEs write it. */
#define SELVEDGE_BY_VOLATILE(EACH, OP, OBJECT, ...) \
    _Generic((OBJECT) SELVEDGE_##EACH(SELVEDGE_CASE, OP))((void *)(OBJECT), __VA_ARGS__)
/* Selects by whether the first argument is of a certain type. */
#define SELVEDGE_IF_1ST(TYPE, THEN, ELSE, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)), TYPE: THEN, default: ELSE)(__VA_ARGS__)

/* Remote memory access */
#define shmem_put(...)   SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _put, __VA_ARGS__)
#define shmem_p(...)     SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _p, __VA_ARGS__)
#define shmem_iput(...)  SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _iput, __VA_ARGS__)
#define shmem_ibput(...) SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _ibput, __VA_ARGS__)
#define shmem_get(...)   SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _get, __VA_ARGS__)
#define shmem_g(...)     SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _g, __VA_ARGS__)
#define shmem_iget(...)  SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _iget, __VA_ARGS__)
#define shmem_ibget(...) SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _ibget, __VA_ARGS__)

/* Non-blocking remote memory access */
#define shmem_put_nbi(...) SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _get_nbi, __VA_ARGS__)

/* Selvedge: counting puts */
#define shmem_put_ct(...)     SELVEDGE_CTX_BY_2ND(RMA_DISTINCT, _put_ct, __VA_ARGS__)
#define shmem_put_ct_nbi(...) SELVEDGE_CTX_BY_2ND(RMA_DISTINCT, _put_ct_nbi, __VA_ARGS__)
#define shmem_get_ct(...)     SELVEDGE_CTX_BY_2ND(RMA_DISTINCT, _get_ct, __VA_ARGS__)
#define shmem_p_ct(...)       SELVEDGE_CTX_BY_2ND(RMA_DISTINCT, _p_ct, __VA_ARGS__)

/* Atomic memory operations */
#define shmem_atomic_fetch(...)        SELVEDGE_CTX_BY_1ST(AMO_EXTENDED_DISTINCT, _atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...)          SELVEDGE_CTX_BY_1ST(AMO_EXTENDED_DISTINCT, _atomic_set, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_swap(...)         SELVEDGE_CTX_BY_1ST(AMO_EXTENDED_DISTINCT, _atomic_swap, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...)    SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_inc(...)          SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...)    SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_add(...)          SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_and(...)    SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_and(...)          SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...)     SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_or(...)           SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...)    SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_xor(...)          SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_xor, __VA_ARGS__)

/* Non-blocking atomic memory operations */
#define shmem_atomic_fetch_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_EXTENDED_DISTINCT, _atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_EXTENDED_DISTINCT, _atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_DISTINCT, _atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) SELVEDGE_CTX_BY_1ST(AMO_BITWISE_DISTINCT, _atomic_fetch_xor_nbi, __VA_ARGS__)

/* Atomic memory operations by their old names */
#define shmem_fetch(...) SELVEDGE_BY_1ST(AMO_EXTENDED_DISTINCT, _fetch, __VA_ARGS__)
#define shmem_set(...)   SELVEDGE_BY_1ST(AMO_EXTENDED_DISTINCT, _set, __VA_ARGS__)
#define shmem_cswap(...) SELVEDGE_BY_1ST(AMO_DISTINCT, _cswap, __VA_ARGS__)
#define shmem_swap(...)  SELVEDGE_BY_1ST(AMO_EXTENDED_DISTINCT, _swap, __VA_ARGS__)
#define shmem_finc(...)  SELVEDGE_BY_1ST(AMO_DISTINCT, _finc, __VA_ARGS__)
#define shmem_inc(...)   SELVEDGE_BY_1ST(AMO_DISTINCT, _inc, __VA_ARGS__)
#define shmem_fadd(...)  SELVEDGE_BY_1ST(AMO_DISTINCT, _fadd, __VA_ARGS__)
#define shmem_add(...)   SELVEDGE_BY_1ST(AMO_DISTINCT, _add, __VA_ARGS__)

/* Signalling */
#define shmem_put_signal(...)     SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SELVEDGE_CTX_BY_1ST(RMA_DISTINCT, _put_signal_nbi, __VA_ARGS__)
#define shmem_signal_add(...)     SELVEDGE_IF_1ST(shmem_ctx_t, shmem_ctx_signal_add, shmem_signal_add, __VA_ARGS__)
#define shmem_signal_set(...)     SELVEDGE_IF_1ST(shmem_ctx_t, shmem_ctx_signal_set, shmem_signal_set, __VA_ARGS__)

/* Collectives: barrier and sync */
#define shmem_sync(...) SELVEDGE_IF_1ST(shmem_team_t, shmem_team_sync, shmem_sync, __VA_ARGS__)

/* Collectives: moving data */
#define shmem_alltoall(...)  SELVEDGE_BY_2ND(RMA_DISTINCT, _alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) SELVEDGE_BY_2ND(RMA_DISTINCT, _alltoalls, __VA_ARGS__)
#define shmem_broadcast(...) SELVEDGE_BY_2ND(RMA_DISTINCT, _broadcast, __VA_ARGS__)
#define shmem_collect(...)   SELVEDGE_BY_2ND(RMA_DISTINCT, _collect, __VA_ARGS__)
#define shmem_fcollect(...)  SELVEDGE_BY_2ND(RMA_DISTINCT, _fcollect, __VA_ARGS__)

/* Collectives: reductions */
#define shmem_and_reduce(...)  SELVEDGE_BY_2ND(BITWISE_DISTINCT, _and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...)   SELVEDGE_BY_2ND(BITWISE_DISTINCT, _or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...)  SELVEDGE_BY_2ND(BITWISE_DISTINCT, _xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...)  SELVEDGE_BY_2ND(RMA_DISTINCT, _max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...)  SELVEDGE_BY_2ND(RMA_DISTINCT, _min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...)  SELVEDGE_BY_2ND(NUMBERS_DISTINCT, _sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) SELVEDGE_BY_2ND(NUMBERS_DISTINCT, _prod_reduce, __VA_ARGS__)

/* Collectives: scans */
#define shmem_sum_inscan(...) SELVEDGE_BY_2ND(NUMBERS_DISTINCT, _sum_inscan, __VA_ARGS__)
#define shmem_sum_exscan(...) SELVEDGE_BY_2ND(NUMBERS_DISTINCT, _sum_exscan, __VA_ARGS__)

/* Point-to-point synchronisation: waiting */
#define shmem_wait_until(...)             SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...)         SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...)         SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...)        SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...)  SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...)  SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _wait_until_some_vector, __VA_ARGS__)

/* Point-to-point synchronisation: testing */
#define shmem_test(...)             SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test, __VA_ARGS__)
#define shmem_test_all(...)         SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test_all, __VA_ARGS__)
#define shmem_test_any(...)         SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test_any, __VA_ARGS__)
#define shmem_test_some(...)        SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test_some, __VA_ARGS__)
#define shmem_test_all_vector(...)  SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...)  SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) SELVEDGE_BY_VOLATILE(SYNC_DISTINCT, _test_some_vector, __VA_ARGS__)

#endif

#endif /* SHMEM_H */
