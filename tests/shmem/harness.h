/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What every family of the OpenSHMEM suite is written with.
 *
 * A family is one C program (rma.c, wait.c, ...; C++ where it ends in .cc) linked with harness.c, which holds main().
 * A case states one rule of the OpenSHMEM 1.6 specification and shows that it holds:
 *
 *     CASE(put_is_visible_after_barrier, 2, "put: dest holds the data once a barrier is over (shmem_put, shmem_barrier_all)")
 *     {
 *         long *word = symmetric(sizeof *word);
 *         ...
 *         CHECK_EQ(*word, 7);
 *     }
 *
 *     program --list      one line a case, fields with tabs between; runner.rs reads it
 *     program NAME        runs that case in this PE, one of those that the launcher started
 *
 * After the rule a case may name any of `struct case_extra`, in its order:
 *
 *     CASE(sum_of_all, 4, "...", .crowded = 9)           also at 9 PEs, more than there are cores: use n_pes(), not 4
 *     CASE(stores_through_ptr, 2, "...", .in_place = true)  only where peers' memory is mapped
 *     CASE(ends_with_status, 2, "...", .own_init = true, .status = 3)
 *
 * Rules for cases
 * 1. A case runs in all of its PEs at once, between shmem_init and shmem_finalize of the harness (unless own_init). A
 *    barrier follows its body; then memory of symmetric() and local() is freed. Nothing outlives a case.
 * 2. A failed check anywhere ends the whole job, with shmem_global_exit(1).
 * 3. DATA_CASE: the body runs twice, and symmetric() hands out the symmetric heap first, then a static object.
 * 4. Memory of symmetric() and local() is zero, and lies between guard bytes that are looked at after the body.
 * 5. symmetric() and barrier() are collective.
 * 6. What the standard has since 1.5 or 1.6 stands under `#if SINCE(1, 5)`, so that the other cases can be tried with an
 *    older library (OSHCC and OSHRUN of runner.rs).
 */
#ifndef SHMEM_TESTS_HARNESS_H
#define SHMEM_TESTS_HARNESS_H

#include <shmem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINCE(major, minor) \
    (SHMEM_MAJOR_VERSION > (major) || (SHMEM_MAJOR_VERSION == (major) && SHMEM_MINOR_VERSION >= (minor)))

#ifdef __cplusplus
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* C has the rule that what is not named is zero */
extern "C" {
#endif

enum { PES_MAX = 64, SYMMETRIC_STATIC_BYTES = 1 << 20, GUARD_BYTES = 64 };

/* ---- Cases ---------------------------------------------------------------------------------------------- */

/* Compiled as C++, a case names these in the order in which they stand here. */
struct case_extra {
    bool both_memories;      /* what DATA_CASE sets */
    int crowded;             /* if not 0: also run with so many PEs */
    bool in_place;           /* only in the variant in which peers' memory is mapped */
    bool own_init;           /* the body calls shmem_init and shmem_finalize, or does not; no symmetric() and barrier() */
    int status;              /* what the launcher must end with */
    const char *environment; /* "NAME=VALUE NAME=VALUE": set for the job */
    const char *prints;      /* must be in what the job prints, on stdout or stderr */
    const char *prints_not;  /* must not be */
    bool virtual_time;       /* only in the variant whose clocks are a simulated machine's */
};

void case_register(const char *name, int pes, const char *rule, void (*body)(void), struct case_extra extra);

#define CASE_WITH(name, pes, rule, ...)                                             \
    static void case_##name(void);                                                  \
    __attribute__((constructor)) static void case_register_##name(void)             \
    {                                                                               \
        struct case_extra extra = {__VA_ARGS__};                                    \
        case_register(#name, pes, rule, case_##name, extra);                        \
    }                                                                               \
    static void case_##name(void)

#define CASE(name, pes, rule, ...) CASE_WITH(name, pes, rule, .both_memories = false, ##__VA_ARGS__)
#define DATA_CASE(name, pes, rule, ...) CASE_WITH(name, pes, rule, .both_memories = true, ##__VA_ARGS__)

/* ---- Checks --------------------------------------------------------------------------------------------- */

/* Ends the job: prints "file:line: PE p, what about() said: message". */
void fail_at(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void check_eq_at(const char *file, int line, const char *found_text, unsigned long long found, const char *wanted_text,
                 unsigned long long wanted);
void check_number_at(const char *file, int line, const char *found_text, long double found, const char *wanted_text,
                     long double wanted);
void check_bytes_at(const char *file, int line, const void *start, size_t bytes, int value);
void check_pattern_at(const char *file, int line, const void *start, size_t bytes, unsigned seed);

/* What is being tried (a type, a size), for the message of a check that fails; until the next call, or the case's end. */
void about(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(expr) ((expr) ? (void)0 : fail_at(__FILE__, __LINE__, "not so: %s", #expr))
/* Integers of any width, and handles cast to one. */
#define CHECK_EQ(found, wanted) \
    check_eq_at(__FILE__, __LINE__, #found, (unsigned long long)(found), #wanted, (unsigned long long)(wanted))
#define CHECK_PTR(found, wanted) CHECK_EQ((uintptr_t)(found), (uintptr_t)(wanted))
/* Numbers of any real type: integers of 64 bits are exact in a long double. */
#define CHECK_NUMBER(found, wanted) \
    check_number_at(__FILE__, __LINE__, #found, (long double)(found), #wanted, (long double)(wanted))
/* Memory holds `value` in every byte / what pattern_fill(start, bytes, seed) puts there. */
#define CHECK_BYTES(start, bytes, value) check_bytes_at(__FILE__, __LINE__, start, bytes, value)
#define CHECK_PATTERN(start, bytes, seed) check_pattern_at(__FILE__, __LINE__, start, bytes, seed)

/* ---- The job -------------------------------------------------------------------------------------------- */

/* Known without a call of the library. */
int me(void);
int n_pes(void);
static inline int next_pe(void) { return (me() + 1) % n_pes(); }
static inline int previous_pe(void) { return (me() + n_pes() - 1) % n_pes(); }
void barrier(void); /* shmem_barrier_all */
/* For bodies with own_init: the library has been initialised, me() and n_pes() are known, and a check that fails ends the
 * job by shmem_global_exit; the library will be finalized. */
void joined(void);
void left(void);
/* "in_place", "cma", "bounce", "host", "crowded", "simulated"; "other" under an OpenSHMEM that is not ours. */
bool variant_is(const char *name);

/* ---- Memory --------------------------------------------------------------------------------------------- */

enum memory { HEAP, STATIC };

/* Zeroed, aligned to 64 bytes, between guards, the same object on every PE; zeroed on all of them when it returns.
 * Collective. symmetric(): HEAP; and STATIC in the second run of a DATA_CASE. STATIC has SYMMETRIC_STATIC_BYTES in
 * all. */
void *symmetric(size_t bytes);
void *symmetric_in(enum memory memory, size_t bytes);
enum memory memory_in_use(void);
/* Zeroed memory that is not symmetric, between guards. */
void *local(size_t bytes);
/* The guards of all memory that was handed out are whole; called after each body, too. */
void check_guards(void);

/* ---- The rest ------------------------------------------------------------------------------------------- */

void pattern_fill(void *start, size_t bytes, unsigned seed);
uint64_t mix(uint64_t value);          /* a good hash of 64 bits: values that differ in every byte */
uint64_t random_next(uint64_t *state); /* any non-zero seed; the same everywhere */
void sleep_ms(int ms);
long long now_ms(void);

#ifdef __cplusplus
}
#endif

#endif
