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

/* Version. */
#define SHMEM_MAJOR_VERSION 1                /* major version of the specification */
#define SHMEM_MINOR_VERSION 6                /* minor version of the specification */
#define SHMEM_MAX_NAME_LEN  256              /* most bytes of SHMEM_VENDOR_STRING, the closing zero included */
#define SHMEM_VENDOR_STRING "Selvedge 0.1.0" /* name and version of the library */

/* Handles. */
#define SHMEM_CTX_INVALID  ((shmem_ctx_t)0)  /* no context */
#define SHMEM_CTX_DEFAULT  ((shmem_ctx_t)1)  /* the default context: that of calls without a context */
#define SHMEM_TEAM_INVALID ((shmem_team_t)0) /* no team */
#define SHMEM_TEAM_WORLD   ((shmem_team_t)1) /* the world team: all PEs */
#define SHMEM_TEAM_SHARED  ((shmem_team_t)2) /* PEs whose memory this PE can load and store (shmem_ptr) */
#define SHMEM_CT_INVALID   ((shmem_ct_t)0)   /* no counter (Selvedge) */

/* Levels of thread support. */
#define SHMEM_THREAD_SINGLE     0 /* the process has one thread */
#define SHMEM_THREAD_FUNNELED   1 /* only the main thread calls the library */
#define SHMEM_THREAD_SERIALIZED 2 /* threads call the library, one at a time */
#define SHMEM_THREAD_MULTIPLE   3 /* any thread calls the library at any time */

/* Hints to shmem_malloc_with_hints; bits that may be combined. */
#define SHMEM_MALLOC_ATOMICS_REMOTE (1l << 0) /* other PEs will use atomic operations on the memory */
#define SHMEM_MALLOC_SIGNAL_REMOTE  (1l << 1) /* other PEs will update signals in the memory */

/* Teams, contexts and sessions. */
#define SHMEM_TEAM_NUM_CONTEXTS     (1l << 0) /* config_mask: selects num_contexts of shmem_team_config_t */
#define SHMEM_CTX_PRIVATE           (1l << 0) /* option: only the thread that made the context uses it */
#define SHMEM_CTX_SERIALIZED        (1l << 1) /* option: one thread at a time uses the context */
#define SHMEM_CTX_NOSTORE           (1l << 2) /* option: fence and quiet need not cover stores to memory */
#define SHMEM_CTX_SESSION_TOTAL_OPS (1l << 0) /* config_mask: selects total_ops of shmem_ctx_session_config_t */
#define SHMEM_CTX_SESSION_BATCH     (1l << 0) /* option: operations may be delayed and sent in batches */

/* Signal operators (sig_op). */
#define SHMEM_SIGNAL_SET 0 /* sets the signal */
#define SHMEM_SIGNAL_ADD 1 /* adds to the signal */

/* Comparisons of waits and tests (cmp). */
#define SHMEM_CMP_EQ 1 /* equal */
#define SHMEM_CMP_NE 2 /* not equal */
#define SHMEM_CMP_GT 3 /* greater */
#define SHMEM_CMP_GE 4 /* greater or equal */
#define SHMEM_CMP_LT 5 /* less */
#define SHMEM_CMP_LE 6 /* less or equal */

/* Work arrays of collectives over active sets (deprecated since 1.5). */
#define SHMEM_SYNC_VALUE              0  /* value of each element of psync before a call and on return */
#define SHMEM_SYNC_SIZE               16 /* elements of psync for any collective */
#define SHMEM_BCAST_SYNC_SIZE         16 /* elements of psync for broadcast */
#define SHMEM_REDUCE_SYNC_SIZE        16 /* elements of psync for reductions */
#define SHMEM_BARRIER_SYNC_SIZE       16 /* elements of psync for shmem_barrier and shmem_sync */
#define SHMEM_COLLECT_SYNC_SIZE       16 /* elements of psync for collect and fcollect */
#define SHMEM_ALLTOALL_SYNC_SIZE      16 /* elements of psync for alltoall */
#define SHMEM_ALLTOALLS_SYNC_SIZE     16 /* elements of psync for alltoalls */
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1  /* fewest elements of pwrk */

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

/* Each list calls X(type, name, Y) for each type of a set; name is that of the type in function names. A DISTINCT list
 * leaves out types that are the same as another one: int64_t is long. */

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

/* the unsigned and the fixed-size types */
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

/* ---- Macros that declare functions ----------------------------------------------------------------------- */

/* Declares a function, and its second name for profilers. */
#define SELVEDGE_FN(RETURNS, NAME, ...) \
    RETURNS NAME(__VA_ARGS__) SHMEM_FUNCTION_ATTRIBUTES; \
    RETURNS p##NAME(__VA_ARGS__) SHMEM_FUNCTION_ATTRIBUTES;

/* Declares a function without and with a context. P is the prefix of the names. */
#define SELVEDGE_CTX_FN(RETURNS, P, NAME, ...) \
    SELVEDGE_FN(RETURNS, P##NAME, __VA_ARGS__) \
    SELVEDGE_FN(RETURNS, P##ctx_##NAME, shmem_ctx_t ctx, __VA_ARGS__)

/* Marks a function that does not return. */
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

/* Starts the library, or counts one more start. Collective over all PEs. The call that starts it returns after a
 * barrier; if it fails, the program ends with an error message. Each call needs a shmem_finalize. OpenSHMEM 1.5,
 * 9.1.1. */
SELVEDGE_FN(void, shmem_init, void)

/* Returns the number of this PE in the job, counted from 0; -1 if the library is not running. OpenSHMEM 1.5,
 * 9.1.2. */
SELVEDGE_FN(int, shmem_my_pe, void)

/* Returns the number of PEs in the job; -1 if the library is not running. OpenSHMEM 1.5, 9.1.3. */
SELVEDGE_FN(int, shmem_n_pes, void)

/* Undoes one start, after a barrier that completes all operations. Collective over all PEs. The call that undoes
 * the last start ends the library: symmetric objects, teams and contexts must not be used after it. OpenSHMEM 1.5,
 * 9.1.4. */
SELVEDGE_FN(void, shmem_finalize, void)

/* Writes 1 to *initialized if the library is running, else 0. Callable at any time. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void, shmem_query_initialized, int *initialized)

/* Ends all PEs of the job, with this exit status. Any one PE may call it. Does not return. OpenSHMEM 1.5, 9.1.5. */
SELVEDGE_FN(SELVEDGE_NEVER void, shmem_global_exit, int status)

/* Returns 1 if pe is a PE of the job, else 0. This PE can communicate with every PE of the job. OpenSHMEM 1.5,
 * 9.1.6. */
SELVEDGE_FN(int, shmem_pe_accessible, int pe)

/* Returns 1 if addr is in symmetric memory and pe is a PE of the job, else 0. OpenSHMEM 1.5, 9.1.7. */
SELVEDGE_FN(int, shmem_addr_accessible, const void *addr, int pe)

/* Returns the address at which this PE can load and store dest of PE pe; NULL if that memory is not mapped here.
 * OpenSHMEM 1.5, 9.1.8. */
SELVEDGE_FN(void *, shmem_ptr, const void *dest, int pe)

/* Same as shmem_ptr, for PE pe of team. Returns NULL for SHMEM_TEAM_INVALID. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void *, shmem_team_ptr, shmem_team_t team, const void *dest, int pe)

/* Writes SHMEM_MAJOR_VERSION to *major and SHMEM_MINOR_VERSION to *minor. OpenSHMEM 1.5, 9.1.9. */
SELVEDGE_FN(void, shmem_info_get_version, int *major, int *minor)

/* Copies SHMEM_VENDOR_STRING to name, which has room for SHMEM_MAX_NAME_LEN bytes. OpenSHMEM 1.5, 9.1.10. */
SELVEDGE_FN(void, shmem_info_get_name, char *name)

/* Starts the library as shmem_init does, but without a shmem_finalize: the library ends with the program. Does
 * nothing if the library is running. npes is ignored. OpenSHMEM 1.5, 9.1.11. (Deprecated since 1.2.) */
SELVEDGE_FN(void, start_pes, int npes)

/* Same as shmem_my_pe. (Deprecated since 1.2.) */
SELVEDGE_FN(int, _my_pe, void)

/* Same as shmem_n_pes. (Deprecated since 1.2.) */
SELVEDGE_FN(int, _num_pes, void)

/* ---- Thread support -------------------------------------------------------------------------------------------- */

/* Same as shmem_init, with a thread level (SHMEM_THREAD_*). Writes the granted level to *provided: the requested
 * one, or that of the first start if the library is running. Returns 0 on success, nonzero if requested is not a
 * level or the start fails. OpenSHMEM 1.5, 9.2.1. */
SELVEDGE_FN(int, shmem_init_thread, int requested, int *provided)

/* Writes the granted thread level (SHMEM_THREAD_*) to *provided. OpenSHMEM 1.5, 9.2.2. */
SELVEDGE_FN(void, shmem_query_thread, int *provided)

/* ---- Memory management ----------------------------------------------------------------------------------------- */

/* Allocates size bytes in the symmetric heap of every PE and returns the address at this PE. Returns NULL at all
 * PEs if size is 0 or a PE has no room. Collective over all PEs, with the same size; returns after a barrier
 * unless size is 0. OpenSHMEM 1.5, 9.3.1. */
SELVEDGE_FN(void *, shmem_malloc, size_t size)

/* Frees memory of the symmetric heap, after a barrier. Collective over all PEs, with the same ptr. Does nothing if
 * ptr is NULL. OpenSHMEM 1.5, 9.3.1. */
SELVEDGE_FN(void, shmem_free, void *ptr)

/* Changes the size of an allocation to size bytes, after a barrier. Returns its address, which may have changed.
 * Keeps the contents up to the smaller size. Returns NULL and keeps the allocation as it was if a PE has no room.
 * Same as shmem_malloc if ptr is NULL, as shmem_free if size is 0. Collective over all PEs, with the same
 * arguments. OpenSHMEM 1.5, 9.3.1. */
SELVEDGE_FN(void *, shmem_realloc, void *ptr, size_t size)

/* Same as shmem_malloc, at a multiple of alignment bytes. Returns NULL also if alignment is not a power of two or
 * is above 2^30. The specification also asks for a multiple of sizeof(void *). OpenSHMEM 1.5, 9.3.1. */
SELVEDGE_FN(void *, shmem_align, size_t alignment, size_t size)

/* Same as shmem_malloc. hints is a combination of SHMEM_MALLOC_* bits; they have no effect. OpenSHMEM 1.5, 9.3.2. */
SELVEDGE_FN(void *, shmem_malloc_with_hints, size_t size, long hints)

/* Same as shmem_malloc, for count objects of size bytes each, with all bytes 0. OpenSHMEM 1.5, 9.3.3. */
SELVEDGE_FN(void *, shmem_calloc, size_t count, size_t size)

/* Same as shmem_malloc. (Deprecated since 1.2.) */
SELVEDGE_FN(void *, shmalloc, size_t size)

/* Same as shmem_free. (Deprecated since 1.2.) */
SELVEDGE_FN(void, shfree, void *ptr)

/* Same as shmem_realloc. (Deprecated since 1.2.) */
SELVEDGE_FN(void *, shrealloc, void *ptr, size_t size)

/* Same as shmem_align. (Deprecated since 1.2.) */
SELVEDGE_FN(void *, shmemalign, size_t alignment, size_t size)

/* ---- Team management ------------------------------------------------------------------------------------------- */

/* Returns the number of this PE in team, counted from 0; -1 for SHMEM_TEAM_INVALID and invalid handles. OpenSHMEM
 * 1.5, 9.4.1. */
SELVEDGE_FN(int, shmem_team_my_pe, shmem_team_t team)

/* Returns the number of PEs in team; -1 for SHMEM_TEAM_INVALID and invalid handles. OpenSHMEM 1.5, 9.4.2. */
SELVEDGE_FN(int, shmem_team_n_pes, shmem_team_t team)

/* Writes the fields of the configuration of team that config_mask selects to *config. Returns 0 on success,
 * nonzero for SHMEM_TEAM_INVALID and invalid arguments. OpenSHMEM 1.5, 9.4.4. */
SELVEDGE_FN(int, shmem_team_get_config, shmem_team_t team, long config_mask, shmem_team_config_t *config)

/* Returns the number in dest_team of PE src_pe of src_team; -1 if that PE is not in dest_team or an argument is
 * invalid. OpenSHMEM 1.5, 9.4.5. */
SELVEDGE_FN(int, shmem_team_translate_pe, shmem_team_t src_team, int src_pe, shmem_team_t dest_team)

/* Makes a team of size PEs of parent_team: start, start + stride, and so on. Writes its handle to *new_team, and
 * SHMEM_TEAM_INVALID at PEs that are not members. Collective over parent_team, with the same arguments. Returns 0
 * on success; nonzero, with SHMEM_TEAM_INVALID, if an argument is invalid or the PEs have no free team in common
 * (each has 64, the predefined ones included). OpenSHMEM 1.5, 9.4.6. */
SELVEDGE_FN(int, shmem_team_split_strided, shmem_team_t parent_team, int start, int stride, int size,
            const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)

/* Arranges parent_team in rows of xrange PEs. Makes a team of the PEs in the row of this PE (*xaxis_team) and one
 * of the PEs in its column (*yaxis_team). Collective over parent_team. Returns 0 on success; nonzero, with
 * SHMEM_TEAM_INVALID for both, in the same cases as shmem_team_split_strided. OpenSHMEM 1.5, 9.4.7. */
SELVEDGE_FN(int, shmem_team_split_2d, shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config,
            long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
            shmem_team_t *yaxis_team)

/* Destroys a team and the contexts made of it. Collective over the team. Does nothing for SHMEM_TEAM_INVALID.
 * Predefined teams cannot be destroyed. OpenSHMEM 1.5, 9.4.8. */
SELVEDGE_FN(void, shmem_team_destroy, shmem_team_t team)

/* ---- Communication contexts ------------------------------------------------------------------------------------ */

/* Makes a context of the world team and writes its handle to *ctx. A quiet on a context waits for the operations
 * of that context. options is a combination of SHMEM_CTX_* bits; they have no effect. Returns 0 on success;
 * nonzero, with SHMEM_CTX_INVALID, if an option is unknown or no context is free (at most 1024 exist at once).
 * OpenSHMEM 1.5, 9.5.1. */
SELVEDGE_FN(int, shmem_ctx_create, long options, shmem_ctx_t *ctx)

/* Same as shmem_ctx_create, for a context with the PE numbers of team. Returns nonzero also if team is
 * SHMEM_TEAM_INVALID. OpenSHMEM 1.5, 9.5.2. */
SELVEDGE_FN(int, shmem_team_create_ctx, shmem_team_t team, long options, shmem_ctx_t *ctx)

/* Completes the operations of a context and destroys it. Does nothing for SHMEM_CTX_INVALID. SHMEM_CTX_DEFAULT
 * cannot be destroyed. OpenSHMEM 1.5, 9.5.3. */
SELVEDGE_FN(void, shmem_ctx_destroy, shmem_ctx_t ctx)

/* Writes the team of a context to *team. Returns 0 on success; nonzero, with SHMEM_TEAM_INVALID, for
 * SHMEM_CTX_INVALID and invalid handles. OpenSHMEM 1.5, 9.5.4. */
SELVEDGE_FN(int, shmem_ctx_get_team, shmem_ctx_t ctx, shmem_team_t *team)

/* ---- Remote memory access -------------------------------------------------------------------------------------- */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Copies nelems elements from source to dest at PE pe. Returns when source may be reused; shmem_quiet \
     * completes the put. OpenSHMEM 1.5, 9.6.1.1. */ \
    SELVEDGE_CTX_FN(void, P, T##_put, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Writes one element, value, to dest at PE pe. shmem_quiet completes it. OpenSHMEM 1.5, 9.6.1.2. */ \
    SELVEDGE_CTX_FN(void, P, T##_p, TYPE *dest, TYPE value, int pe) \
    /* Same as shmem_put, with strides of dst elements in dest and of sst elements in source, both at least 1. \
     * OpenSHMEM 1.5, 9.6.1.3. */ \
    SELVEDGE_CTX_FN(void, P, T##_iput, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                    int pe) \
    /* Same as shmem_put, for nblocks blocks of bsize elements. Blocks begin dst elements apart in dest and sst \
     * apart in source. Both strides are at least bsize. New in OpenSHMEM 1.6. */ \
    SELVEDGE_CTX_FN(void, P, T##_ibput, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
                    size_t nblocks, int pe) \
    /* Copies nelems elements from source at PE pe to dest. Returns when they are in dest. OpenSHMEM 1.5, \
     * 9.6.1.4. */ \
    SELVEDGE_CTX_FN(void, P, T##_get, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Returns one element, read from source at PE pe. OpenSHMEM 1.5, 9.6.1.5. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_g, const TYPE *source, int pe) \
    /* Same as shmem_get, with strides of dst elements in dest and of sst elements in source, both at least 1. \
     * OpenSHMEM 1.5, 9.6.1.6. */ \
    SELVEDGE_CTX_FN(void, P, T##_iget, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                    int pe) \
    /* Same as shmem_get, for nblocks blocks of bsize elements. Blocks begin dst elements apart in dest and sst \
     * apart in source. Both strides are at least bsize. New in OpenSHMEM 1.6. */ \
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
    /* Same as shmem_put, but source may be reused only after a shmem_quiet. OpenSHMEM 1.5, 9.6.2.1. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_nbi, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Same as shmem_get, but the elements are in dest only after a shmem_quiet. OpenSHMEM 1.5, 9.6.2.2. */ \
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

/* Makes a counter with the value 0 at every PE and writes its handle to *ct; SHMEM_CT_INVALID if all counters are
 * in use (SELVEDGE_SHMEM_COUNTERS sets their number, 4096 by default). Collective over all PEs. Returns when all
 * PEs have called it. */
SELVEDGE_FN(void, shmem_ct_create, shmem_ct_t *ct)

/* Frees a counter, after a barrier, and sets *ct to SHMEM_CT_INVALID. Collective over all PEs. Does nothing if *ct
 * is SHMEM_CT_INVALID. */
SELVEDGE_FN(void, shmem_ct_free, shmem_ct_t *ct)

/* Returns the value of the counter at this PE. */
SELVEDGE_FN(long, shmem_ct_get, shmem_ct_t ct)

/* Sets the counter at this PE to value. Arrivals during the call are not lost. */
SELVEDGE_FN(void, shmem_ct_set, shmem_ct_t ct, long value)

/* Waits until the counter at this PE is at least wait_for. The data of the counted puts has then arrived. */
SELVEDGE_FN(void, shmem_ct_wait, shmem_ct_t ct, long wait_for)

/* Returns 1 if the counter at this PE is at least wait_for, else 0. Does not wait. */
SELVEDGE_FN(int, shmem_ct_test, shmem_ct_t ct, long wait_for)

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_put, and adds 1 to the counter at PE pe after the data has arrived there. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_ct, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Same as shmem_put_ct, but source may be reused only after a shmem_quiet. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_ct_nbi, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Same as shmem_get, and adds 1 to the counter at PE pe. So PE pe learns that its data has been read. */ \
    SELVEDGE_CTX_FN(void, P, T##_get_ct, shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe) \
    /* Same as shmem_p, and adds 1 to the counter at PE pe after the element has arrived there. */ \
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
    /* Atomically reads source at PE pe and returns its value. OpenSHMEM 1.5, 9.7.1.1. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch, const TYPE *source, int pe) \
    /* Atomically writes value to dest at PE pe. OpenSHMEM 1.5, 9.7.1.2. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_set, TYPE *dest, TYPE value, int pe) \
    /* Atomically writes value to dest at PE pe. Returns the old value. OpenSHMEM 1.5, 9.7.1.4. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_swap, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Atomically writes value to dest at PE pe if dest equals cond. Returns the old value of dest. OpenSHMEM \
     * 1.5, 9.7.1.3. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_compare_swap, TYPE *dest, TYPE cond, TYPE value, int pe) \
    /* Atomically adds 1 to dest at PE pe. Returns the old value. OpenSHMEM 1.5, 9.7.1.5. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_inc, TYPE *dest, int pe) \
    /* Atomically adds 1 to dest at PE pe. OpenSHMEM 1.5, 9.7.1.6. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_inc, TYPE *dest, int pe) \
    /* Atomically adds value to dest at PE pe. Returns the old value. OpenSHMEM 1.5, 9.7.1.7. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_add, TYPE *dest, TYPE value, int pe) \
    /* Atomically adds value to dest at PE pe. OpenSHMEM 1.5, 9.7.1.8. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_add, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the bitwise AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Atomically combines dest at PE pe with value by bitwise AND. Returns the old value. OpenSHMEM 1.5, \
     * 9.7.1.9. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_and, TYPE *dest, TYPE value, int pe) \
    /* Atomically combines dest at PE pe with value by bitwise AND. OpenSHMEM 1.5, 9.7.1.10. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_and, TYPE *dest, TYPE value, int pe) \
    /* Atomically combines dest at PE pe with value by bitwise OR. Returns the old value. OpenSHMEM 1.5, \
     * 9.7.1.11. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_or, TYPE *dest, TYPE value, int pe) \
    /* Atomically combines dest at PE pe with value by bitwise OR. OpenSHMEM 1.5, 9.7.1.12. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_or, TYPE *dest, TYPE value, int pe) \
    /* Atomically combines dest at PE pe with value by bitwise XOR. Returns the old value. OpenSHMEM 1.5, \
     * 9.7.1.13. */ \
    SELVEDGE_CTX_FN(TYPE, P, T##_atomic_fetch_xor, TYPE *dest, TYPE value, int pe) \
    /* Atomically combines dest at PE pe with value by bitwise XOR. OpenSHMEM 1.5, 9.7.1.14. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_xor, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_BITWISE(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Non-blocking atomic memory operations --------------------------------------------------------------------- */

/* For the extended AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_atomic_fetch, but the value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.1. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_nbi, TYPE *fetch, const TYPE *source, int pe) \
    /* Same as shmem_atomic_swap, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.3. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_swap_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_atomic_compare_swap, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.2. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_compare_swap_nbi, TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe) \
    /* Same as shmem_atomic_fetch_inc, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.4. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_inc_nbi, TYPE *fetch, TYPE *dest, int pe) \
    /* Same as shmem_atomic_fetch_add, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.5. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_add_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the bitwise AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_atomic_fetch_and, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.6. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_and_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe) \
    /* Same as shmem_atomic_fetch_or, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.7. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_or_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe) \
    /* Same as shmem_atomic_fetch_xor, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, \
     * 9.7.2.8. */ \
    SELVEDGE_CTX_FN(void, P, T##_atomic_fetch_xor_nbi, TYPE *fetch, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_BITWISE(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Atomic memory operations by their old names --------------------------------------------------------------- */

/* For the extended AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_atomic_fetch. OpenSHMEM 1.5, 9.7.1.1. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_fetch, const TYPE *source, int pe) \
    /* Same as shmem_atomic_set. OpenSHMEM 1.5, 9.7.1.2. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_set, TYPE *dest, TYPE value, int pe) \
    /* Same as shmem_atomic_swap. OpenSHMEM 1.5, 9.7.1.4. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_swap, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO_EXTENDED(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard AMO types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_atomic_compare_swap. OpenSHMEM 1.5, 9.7.1.3. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_cswap, TYPE *dest, TYPE cond, TYPE value, int pe) \
    /* Same as shmem_atomic_fetch_inc. OpenSHMEM 1.5, 9.7.1.5. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_finc, TYPE *dest, int pe) \
    /* Same as shmem_atomic_inc. OpenSHMEM 1.5, 9.7.1.6. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_inc, TYPE *dest, int pe) \
    /* Same as shmem_atomic_fetch_add. OpenSHMEM 1.5, 9.7.1.7. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(TYPE, P##T##_fadd, TYPE *dest, TYPE value, int pe) \
    /* Same as shmem_atomic_add. OpenSHMEM 1.5, 9.7.1.8. (Deprecated since 1.4.) */ \
    SELVEDGE_FN(void, P##T##_add, TYPE *dest, TYPE value, int pe)
SELVEDGE_AMO(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Signalling ------------------------------------------------------------------------------------------------ */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_put, and updates the signal sig_addr at PE pe after the data has arrived there. sig_op says \
     * how: SHMEM_SIGNAL_SET sets it to signal, SHMEM_SIGNAL_ADD adds signal to it. OpenSHMEM 1.5, 9.8.3. */ \
    SELVEDGE_CTX_FN(void, P, T##_put_signal, TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr, \
                    uint64_t signal, int sig_op, int pe) \
    /* Same as shmem_put_signal, but source may be reused only after a shmem_quiet. OpenSHMEM 1.5, 9.8.4. */ \
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

/* Atomically adds signal to the signal sig_addr at PE pe. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void, shmem_signal_add, uint64_t *sig_addr, uint64_t signal, int pe)
SELVEDGE_FN(void, shmem_ctx_signal_add, shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)

/* Atomically sets the signal sig_addr at PE pe to signal. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void, shmem_signal_set, uint64_t *sig_addr, uint64_t signal, int pe)
SELVEDGE_FN(void, shmem_ctx_signal_set, shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)

/* Returns the value of the signal sig_addr of this PE. OpenSHMEM 1.5, 9.8.5. */
SELVEDGE_FN(uint64_t, shmem_signal_fetch, const uint64_t *sig_addr)

/* Waits until the signal sig_addr of this PE satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value. Returns
 * the value that did. OpenSHMEM 1.5, 9.10.15. */
SELVEDGE_FN(uint64_t, shmem_signal_wait_until, uint64_t *sig_addr, int cmp, uint64_t cmp_value)

/* ---- Sessions -------------------------------------------------------------------------------------------------- */

/* Starts a session: tells the library that a series of operations on the context follows. options is a combination
 * of SHMEM_CTX_SESSION_* bits. The arguments are checked and have no effect. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void, shmem_ctx_session_start, shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config,
            long config_mask)

/* Ends a session on the context. Does not complete its operations. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void, shmem_ctx_session_stop, shmem_ctx_t ctx)

/* ---- Collectives: barrier and sync ----------------------------------------------------------------------------- */

/* Completes all operations of the default context and waits until all PEs have called it. OpenSHMEM 1.5, 9.9.1. */
SELVEDGE_FN(void, shmem_barrier_all, void)

/* Waits until all PEs have called it. Makes their earlier stores to memory visible; does not complete puts and
 * other operations. OpenSHMEM 1.5, 9.9.4. */
SELVEDGE_FN(void, shmem_sync_all, void)

/* Same as shmem_sync_all, for the PEs of team. Returns 0 on success, nonzero for an invalid team. Its type-generic
 * name is shmem_sync. OpenSHMEM 1.5, 9.9.3. */
SELVEDGE_FN(int, shmem_team_sync, shmem_team_t team)

/* ---- Collectives: moving data ---------------------------------------------------------------------------------- */

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Exchanges blocks of nelems elements among the PEs of team: block i of source goes to PE i, and block i of \
     * dest comes from PE i. Returns 0 when dest is complete and source may be reused, nonzero on an error. \
     * OpenSHMEM 1.5, 9.9.5. */ \
    SELVEDGE_FN(int, P##T##_alltoall, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* Same as shmem_alltoall, with strides of dst elements in dest and of sst elements in source, both at least \
     * 1. OpenSHMEM 1.5, 9.9.6. */ \
    SELVEDGE_FN(int, P##T##_alltoalls, shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, \
                ptrdiff_t sst, size_t nelems) \
    /* Copies nelems elements from source at PE pe_root of team to dest at every PE of team, the root included. \
     * Returns 0 when dest is complete and source may be reused, nonzero on an error. OpenSHMEM 1.5, 9.9.7. */ \
    SELVEDGE_FN(int, P##T##_broadcast, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, \
                int pe_root) \
    /* Concatenates the sources of all PEs of team, in the order of PE numbers, in dest at every PE. nelems may \
     * differ between PEs. Returns 0 when dest is complete and source may be reused, nonzero on an error. \
     * OpenSHMEM 1.5, 9.9.8. */ \
    SELVEDGE_FN(int, P##T##_collect, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* Same as shmem_collect, with the same nelems at every PE. OpenSHMEM 1.5, 9.9.8. */ \
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

/* For the unsigned and the fixed-size types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Computes the bitwise AND of the sources of all PEs of team, for each of nreduce elements, and writes it to \
     * dest at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. OpenSHMEM 1.5, 9.9.9.1. */ \
    SELVEDGE_FN(int, P##T##_and_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* Computes the bitwise OR of the sources of all PEs of team, for each of nreduce elements, and writes it to \
     * dest at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. OpenSHMEM 1.5, 9.9.9.2. */ \
    SELVEDGE_FN(int, P##T##_or_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* Computes the bitwise XOR of the sources of all PEs of team, for each of nreduce elements, and writes it to \
     * dest at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. OpenSHMEM 1.5, 9.9.9.3. */ \
    SELVEDGE_FN(int, P##T##_xor_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_BITWISE(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard RMA types. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Computes the maximum of the sources of all PEs of team, for each of nreduce elements, and writes it to \
     * dest at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. OpenSHMEM 1.5, 9.9.9.4. */ \
    SELVEDGE_FN(int, P##T##_max_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* Computes the minimum of the sources of all PEs of team, for each of nreduce elements, and writes it to \
     * dest at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. OpenSHMEM 1.5, 9.9.9.5. */ \
    SELVEDGE_FN(int, P##T##_min_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_RMA(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For the standard RMA types, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Computes the sum of the sources of all PEs of team, for each of nreduce elements, and writes it to dest at \
     * every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an \
     * error. OpenSHMEM 1.5, 9.9.9.6. */ \
    SELVEDGE_FN(int, P##T##_sum_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    /* Computes the product of the sources of all PEs of team, for each of nreduce elements, and writes it to \
     * dest at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. OpenSHMEM 1.5, 9.9.9.7. */ \
    SELVEDGE_FN(int, P##T##_prod_reduce, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)
SELVEDGE_NUMBERS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Collectives: scans ---------------------------------------------------------------------------------------- */

/* For the standard RMA types, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Writes the sum of the sources of this PE and all PEs of team before it to dest, for each of nelems \
     * elements. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an \
     * error. New in OpenSHMEM 1.6. */ \
    SELVEDGE_FN(int, P##T##_sum_inscan, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    /* Writes the sum of the sources of all PEs of team before this one to dest, for each of nelems elements; 0 \
     * at the first PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on \
     * an error. New in OpenSHMEM 1.6. */ \
    SELVEDGE_FN(int, P##T##_sum_exscan, shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)
SELVEDGE_NUMBERS(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Collectives over active sets ------------------------------------------------------------------------------ */

/* Completes all operations of the default context and waits until all PEs of the active set have called it. The
 * active set is pe_size PEs: pe_start, and others at distances of 2^log_pe_stride. psync is a symmetric array of
 * SHMEM_SYNC_SIZE elements. Each holds SHMEM_SYNC_VALUE before the call and on return. OpenSHMEM 1.5, 9.9.2.
 * (Deprecated since 1.5.) */
SELVEDGE_FN(void, shmem_barrier, int pe_start, int log_pe_stride, int pe_size, long *psync)

/* Same as shmem_sync_all, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.3. (Deprecated since 1.5.) */
SELVEDGE_FN(void, shmem_sync, int pe_start, int log_pe_stride, int pe_size, long *psync)

/* For 32, 64 bits. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Copies nelems elements from source at the root to dest at all other PEs of an active set (see \
     * shmem_barrier). pe_root is the number of the root within the set. dest of the root is not written. \
     * OpenSHMEM 1.5, 9.9.7. (Deprecated since 1.5.) */ \
    SELVEDGE_FN(void, P##broadcast##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_root, int pe_start, \
                int log_pe_stride, int pe_size, long *psync) \
    /* Same as the collect of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.8. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##collect##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_start, int log_pe_stride, \
                int pe_size, long *psync) \
    /* Same as the fcollect of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.8. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##fcollect##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_start, \
                int log_pe_stride, int pe_size, long *psync) \
    /* Same as the alltoall of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.5. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##alltoall##T, TYPE *dest, const TYPE *source, size_t nelems, int pe_start, \
                int log_pe_stride, int pe_size, long *psync) \
    /* Same as the alltoalls of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.6. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##alltoalls##T, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                int pe_start, int log_pe_stride, int pe_size, long *psync)
SELVEDGE_SIZES_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For short, int, long, long long. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_and_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.1. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_and_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* Same as shmem_or_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.2. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_or_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* Same as shmem_xor_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.3. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_xor_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)
SELVEDGE_INTEGERS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For short, int, long, long long, float, double, long double. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_max_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.4. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_max_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* Same as shmem_min_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.5. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_min_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)
SELVEDGE_REALS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* For short, int, long, long long, float, double, long double, double _Complex, float _Complex. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Same as shmem_sum_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.6. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_sum_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync) \
    /* Same as shmem_prod_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks \
     * for max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.7. (Deprecated \
     * since 1.5.) */ \
    SELVEDGE_FN(void, P##T##_prod_to_all, TYPE *dest, const TYPE *source, int nreduce, int pe_start, \
                int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)
SELVEDGE_NUMBERS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Point-to-point synchronisation: waiting ------------------------------------------------------------------- */

/* For the standard AMO types, short, unsigned short. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Waits until the symmetric object ivar of this PE satisfies the comparison cmp (SHMEM_CMP_*) with \
     * cmp_value. OpenSHMEM 1.5, 9.10.1. */ \
    SELVEDGE_FN(void, P##T##_wait_until, TYPE *ivar, int cmp, TYPE cmp_value) \
    /* Waits until each of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value. \
     * Skips objects whose element of status is not 0; status may be NULL. Returns at once if all are skipped. \
     * OpenSHMEM 1.5, 9.10.2. */ \
    SELVEDGE_FN(void, P##T##_wait_until_all, TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    /* Waits until one of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value. \
     * Returns its index. Skips objects whose element of status is not 0; status may be NULL. Returns SIZE_MAX if \
     * all are skipped. OpenSHMEM 1.5, 9.10.3. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_any, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                TYPE cmp_value) \
    /* Waits until at least one of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with \
     * cmp_value. Writes the indices of all that do to indices and returns their number. Skips objects whose \
     * element of status is not 0; status may be NULL. Returns 0 if all are skipped. OpenSHMEM 1.5, 9.10.4. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_some, TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
                int cmp, TYPE cmp_value) \
    /* Same as shmem_wait_until_all, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.5. */ \
    SELVEDGE_FN(void, P##T##_wait_until_all_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* Same as shmem_wait_until_any, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.6. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_any_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* Same as shmem_wait_until_some, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.7. */ \
    SELVEDGE_FN(size_t, P##T##_wait_until_some_vector, TYPE *ivars, size_t nelems, size_t *indices, \
                const int *status, int cmp, const TYPE *cmp_values)
SELVEDGE_SYNC(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Same as shmem_long_wait_until, for C without type-generic names. OpenSHMEM 1.5, 9.10.1. (Deprecated since 1.4.) */
SELVEDGE_FN(void, shmem_wait_until, long *ivar, int cmp, long cmp_value)

/* For short, int, long, long long. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Waits until the object ivar of this PE differs from cmp_value. OpenSHMEM 1.5, 9.10.1. (Deprecated since \
     * 1.4.) */ \
    SELVEDGE_FN(void, P##T##_wait, TYPE *ivar, TYPE cmp_value)
SELVEDGE_INTEGERS_OLD(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* Same as shmem_long_wait. OpenSHMEM 1.5, 9.10.1. (Deprecated since 1.4.) */
SELVEDGE_FN(void, shmem_wait, long *ivar, long cmp_value)

/* ---- Point-to-point synchronisation: testing ------------------------------------------------------------------- */

/* For the standard AMO types, short, unsigned short. */
#define SELVEDGE_F(TYPE, T, P) \
    /* Returns 1 if the symmetric object ivar of this PE satisfies the comparison cmp (SHMEM_CMP_*) with \
     * cmp_value, else 0. Does not wait. OpenSHMEM 1.5, 9.10.8. */ \
    SELVEDGE_FN(int, P##T##_test, TYPE *ivar, int cmp, TYPE cmp_value) \
    /* Returns 1 if each of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value, \
     * else 0. Skips objects whose element of status is not 0; status may be NULL. Returns 1 if all are skipped. \
     * Does not wait. OpenSHMEM 1.5, 9.10.9. */ \
    SELVEDGE_FN(int, P##T##_test_all, TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    /* Returns the index of one of the nelems objects ivars that satisfies the comparison cmp (SHMEM_CMP_*) with \
     * cmp_value; SIZE_MAX if none does. Skips objects whose element of status is not 0; status may be NULL. Does \
     * not wait. OpenSHMEM 1.5, 9.10.10. */ \
    SELVEDGE_FN(size_t, P##T##_test_any, TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value) \
    /* Writes the indices of all of the nelems objects ivars that satisfy the comparison cmp (SHMEM_CMP_*) with \
     * cmp_value to indices and returns their number, which may be 0. Skips objects whose element of status is \
     * not 0; status may be NULL. Does not wait. OpenSHMEM 1.5, 9.10.11. */ \
    SELVEDGE_FN(size_t, P##T##_test_some, TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                TYPE cmp_value) \
    /* Same as shmem_test_all, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.12. */ \
    SELVEDGE_FN(int, P##T##_test_all_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* Same as shmem_test_any, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.13. */ \
    SELVEDGE_FN(size_t, P##T##_test_any_vector, TYPE *ivars, size_t nelems, const int *status, int cmp, \
                const TYPE *cmp_values) \
    /* Same as shmem_test_some, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.14. */ \
    SELVEDGE_FN(size_t, P##T##_test_some_vector, TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
                int cmp, const TYPE *cmp_values)
SELVEDGE_SYNC(SELVEDGE_F, shmem_)
#undef SELVEDGE_F

/* ---- Memory ordering ------------------------------------------------------------------------------------------- */

/* Orders the operations of a context: at each PE, those started before the fence arrive before those started after
 * it. Does not wait for them. OpenSHMEM 1.5, 9.11.1. */
SELVEDGE_FN(void, shmem_fence, void)
SELVEDGE_FN(void, shmem_ctx_fence, shmem_ctx_t ctx)

/* Returns when all operations of a context are complete and visible at all PEs. OpenSHMEM 1.5, 9.11.2. */
SELVEDGE_FN(void, shmem_quiet, void)
SELVEDGE_FN(void, shmem_ctx_quiet, shmem_ctx_t ctx)

/* Same as shmem_quiet, for operations towards the npes PEs of target_pes. Here it waits for all operations of the
 * context. New in OpenSHMEM 1.6. */
SELVEDGE_FN(void, shmem_pe_quiet, const int *target_pes, size_t npes)
SELVEDGE_FN(void, shmem_ctx_pe_quiet, shmem_ctx_t ctx, const int *target_pes, size_t npes)

/* ---- Distributed locks ----------------------------------------------------------------------------------------- */

/* Releases a lock that this PE holds, after a quiet of the default context. A lock is a symmetric long with the
 * initial value 0. OpenSHMEM 1.5, 9.12.1. */
SELVEDGE_FN(void, shmem_clear_lock, long *lock)

/* Waits until a lock is free and takes it. Waiting PEs get it in the order of their calls. A PE must not take a
 * lock that it holds. OpenSHMEM 1.5, 9.12.1. */
SELVEDGE_FN(void, shmem_set_lock, long *lock)

/* Takes a lock if it is free, without waiting. Returns 0 if this PE has taken the lock, else 1. OpenSHMEM 1.5,
 * 9.12.1. */
SELVEDGE_FN(int, shmem_test_lock, long *lock)

/* ---- Profiling ------------------------------------------------------------------------------------------------- */

/* Level 1 begins the region main, level 0 ends it (shmemx_region_begin). Other levels do nothing. A profiling
 * library may define it and use level. OpenSHMEM 1.5, 10.1.1. */
SELVEDGE_FN(void, shmem_pcontrol, int level, ...)

/* ---- Cache control --------------------------------------------------------------------------------------------- */

/* Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_set_cache_inv, void)

/* Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_set_cache_line_inv, void *dest)

/* Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_clear_cache_inv, void)

/* Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_clear_cache_line_inv, void *dest)

/* Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_udcflush, void)

/* Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5. (Deprecated since 1.3.) */
SELVEDGE_FN(void, shmem_udcflush_line, void *dest)

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus)

/* ---- Type-generic names: C++ ----------------------------------------------------------------------------------- */

/* Overloads P##NAME by the function P##T##_##NAME. ARGUMENTS are in parentheses. */
#define SELVEDGE_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, ...) \
    inline RETURNS P##NAME(__VA_ARGS__) { return P##T##_##NAME ARGUMENTS; }
/* Overloads it without and with a context. */
#define SELVEDGE_CTX_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, ...) \
    SELVEDGE_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, __VA_ARGS__) \
    inline RETURNS P##NAME(shmem_ctx_t ctx, __VA_ARGS__) { return P##ctx_##T##_##NAME(ctx, SELVEDGE_LIST ARGUMENTS); }
#define SELVEDGE_LIST(...) __VA_ARGS__

/* Converts the address of a std::complex<float> to that of a float _Complex. */
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

/* Maps a type, with any qualifier, to its function. The function's prototype checks the qualifiers. */
#define SELVEDGE_CASE(TYPE, T, OP)       SELVEDGE_QUALIFIED(TYPE, shmem_##T##OP)
#define SELVEDGE_CTX_CASE(TYPE, T, OP)   SELVEDGE_QUALIFIED(TYPE, shmem_ctx_##T##OP)
#define SELVEDGE_QUALIFIED(TYPE, CHOICE) , TYPE *: CHOICE, const TYPE *: CHOICE, volatile TYPE *: CHOICE
/* A selection that compiles for every type: the compiler also checks the branch that is not taken. */
#define SELVEDGE_OR_NONE(ARGUMENT, ...) _Generic((ARGUMENT) __VA_ARGS__, default: SELVEDGE_NONE)
#define SELVEDGE_NONE                   "OpenSHMEM has no such function for this element type"

/* Selects by the type of an argument. CTX: by that of the next argument, if the first is a context. */
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
/* Selects by the first argument, which may be volatile, because other PEs write the object. */
#define SELVEDGE_BY_VOLATILE(EACH, OP, OBJECT, ...) \
    _Generic((OBJECT) SELVEDGE_##EACH(SELVEDGE_CASE, OP))((void *)(OBJECT), __VA_ARGS__)
/* Selects THEN if the first argument is a TYPE, otherwise ELSE. */
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
