/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The header of every C test suite: cases, checks, ranks and barriers. check.c has main(). Each suite's additions are in the `suite.h`
 * beside its programs, which includes this file, and in its `suite.c`, which defines `suite`.
 *
 * A program holds a family of cases. A case states one rule and shows that it holds:
 *
 *     CASE(sum_of_all, 4, "reduce: every rank has the sum")
 *     {
 *         ...
 *         CHECK_EQ(sum, 6);
 *     }
 *
 *     program --list      prints one line for each case; the runner (tests/runner) reads it
 *     program NAME        runs one rank of that case, or starts all of its ranks: see the suite's own header
 *
 * After the rule, a case may name members of `struct case_extra`, in C++ in the order of their declaration:
 *
 *     CASE(sum_of_all, 4, "...", .crowded = 9, .environment = "SHMEM_DEBUG=1")
 *
 * 1. A failed check prints file, line, rank, expression, the value and the wanted value. It ends the whole job.
 * 2. about() adds the current subject (a type, a size) to that line.
 * 3. skip() ends a case that cannot be tried here. It is a failure unless the suite allows it.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* members that a case does not name are zero */
extern "C" {
#endif

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Cases ---------------------------------------------------------------------------------------------- */

struct case_extra {
    unsigned flags;          /* bits that the suite defines */
    int crowded;             /* if not 0: the case also runs with this number of ranks, more than there are cores */
    const char *needs;       /* the case runs only in variants that offer this; see the suite's table of variants */
    int status;              /* the job must end with this exit status */
    const char *environment; /* "NAME=VALUE NAME=VALUE": set for the job */
    const char *prints;      /* the job must print this, on standard output or standard error */
    const char *prints_not;  /* the job must not print this */
    const char *stock;       /* "LIBRARY: deviation | LIBRARY: ...": other libraries that break the rule */
};

struct test_case {
    const char *name;
    int ranks;
    const char *rule;
    void (*body)(void);
    struct case_extra extra;
};

void case_register(const char *name, int ranks, const char *rule, void (*body)(void), struct case_extra extra);

#define CASE(name, ranks, rule, ...)                                        \
    static void case_##name(void);                                          \
    __attribute__((constructor)) static void case_register_##name(void)     \
    {                                                                       \
        struct case_extra extra = {__VA_ARGS__};                            \
        case_register(#name, ranks, rule, case_##name, extra);              \
    }                                                                       \
    static void case_##name(void)

/* ---- Definitions of a suite ----------------------------------------------------------------------------- */

struct suite {
    int ranks_max;                            /* the largest number of ranks of a case */
    int (*run)(const struct test_case *c);    /* runs the case; returns the exit status of this process */
    void (*end_job)(void);                    /* after a failed check: ends all other ranks; may not return. NULL: nothing to do */
    const char *(*context)(void);             /* text for the line of a failed check, or "". NULL: none */
    /* Returns the name of a value (of an error code, of an event), or "". The texts of both expressions show the kind of the value.
     * NULL: values have no names. */
    const char *(*value_name)(const char *found_text, const char *wanted_text, unsigned long long value);
    bool may_skip;                            /* skip() is no failure */
};

const struct suite *the_suite(void);

int rank(void);     /* of this process; works before the library is initialised and after it is finalised */
int ranks(void);    /* of the job */
void barrier(void); /* waits for every rank of the job, and keeps the library's progress going meanwhile */

/* ---- Checks --------------------------------------------------------------------------------------------- */

/* Ends the job: prints "file:line: rank r, SUBJECT: message", where about() sets the subject. */
void fail_at(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Sets the subject of later failures, until the next call. Each thread has its own. */
void about(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *what_is_tried(void);

void check_eq_at(const char *file, int line, const char *found_text, unsigned long long found, const char *wanted_text,
                 unsigned long long wanted);
void check_either_at(const char *file, int line, const char *found_text, unsigned long long found, const char *one_text,
                     unsigned long long one, const char *other_text, unsigned long long other);
void check_number_at(const char *file, int line, const char *found_text, long double found, const char *wanted_text,
                     long double wanted);
void check_text_at(const char *file, int line, const char *found_text, const char *found, const char *wanted_text,
                   const char *wanted);
void check_same_at(const char *file, int line, const char *found_text, const void *found, const char *wanted_text,
                   const void *wanted, size_t bytes);
void check_bytes_at(const char *file, int line, const char *text, const void *start, size_t bytes, int value);
void check_pattern_at(const char *file, int line, const char *text, const void *start, size_t bytes, unsigned seed);

enum value_kind { VALUE_SIGNED, VALUE_UNSIGNED, VALUE_FLOAT, VALUE_DOUBLE, VALUE_LONG_DOUBLE, VALUE_POINTER };

void fail_op_at(const char *file, int line, const char *found_text, const void *found, const char *op,
                const char *wanted_text, const void *wanted, enum value_kind kind, size_t bytes)
    __attribute__((noreturn));

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(expr) ((expr) ? (void)0 : fail_at(__FILE__, __LINE__, "%s is false, wanted true", #expr))
/* Integers of any width, and handles that convert to one. */
#define CHECK_EQ(found, wanted) \
    check_eq_at(__FILE__, __LINE__, #found, (unsigned long long)(found), #wanted, (unsigned long long)(wanted))
#define CHECK_EITHER(found, one, other)                                                                       \
    check_either_at(__FILE__, __LINE__, #found, (unsigned long long)(found), #one, (unsigned long long)(one), #other, \
                    (unsigned long long)(other))
#define CHECK_PTR(found, wanted) \
    check_eq_at(__FILE__, __LINE__, #found, (uintptr_t)(found), #wanted, (uintptr_t)(wanted))
/* Numbers of any real type: integers of 64 bits are exact in a long double. */
#define CHECK_NUMBER(found, wanted) \
    check_number_at(__FILE__, __LINE__, #found, (long double)(found), #wanted, (long double)(wanted))
/* Check that two texts are equal / that `bytes` bytes at two places are equal. */
#define CHECK_TEXT(found, wanted) check_text_at(__FILE__, __LINE__, #found, found, #wanted, wanted)
#define CHECK_SAME(found, wanted, bytes) check_same_at(__FILE__, __LINE__, #found, found, #wanted, wanted, bytes)
/* Check that memory holds `value` in every byte / the pattern of pattern_fill(start, bytes, seed). */
#define CHECK_BYTES(start, bytes, value) check_bytes_at(__FILE__, __LINE__, #start, start, bytes, value)
#define CHECK_PATTERN(start, bytes, seed) check_pattern_at(__FILE__, __LINE__, #start, start, bytes, seed)

#ifndef __cplusplus
/* Checks `found op wanted`, by C's own rules of conversion: CHECK_OP(count, <=, LIMIT). Evaluates both once. */
#define CHECK_OP(found, op, wanted)                                                                           \
    do {                                                                                                      \
        const __typeof__(1 ? (found) : (wanted)) found_ = (__typeof__(found_))(found);                        \
        const __typeof__(1 ? (found) : (wanted)) wanted_ = (__typeof__(wanted_))(wanted);                     \
        if (!(found_ op wanted_))                                                                             \
            fail_op_at(__FILE__, __LINE__, #found, &found_, #op, #wanted, &wanted_, VALUE_KIND(found_),       \
                       sizeof found_);                                                                        \
    } while (0)
#define VALUE_KIND(value)                                                                                     \
    _Generic((value), int: VALUE_SIGNED, long: VALUE_SIGNED, long long: VALUE_SIGNED, unsigned: VALUE_UNSIGNED, \
        unsigned long: VALUE_UNSIGNED, unsigned long long: VALUE_UNSIGNED, float: VALUE_FLOAT,                \
        double: VALUE_DOUBLE, long double: VALUE_LONG_DOUBLE, default: VALUE_POINTER)
#endif

/* ---- Memory with guards --------------------------------------------------------------------------------- */

/* A suite allocates memory of `bytes` bytes within a block of guarded_bytes(bytes): GUARD_BYTES of guard before it, and at least
 * as many behind it. */
enum { GUARD_BYTES = 64, BLOCK_ALIGN_BYTES = 64 };
size_t guarded_bytes(size_t bytes);
/* Writes the guards; returns the memory between them, zeroed. */
void *guard_block(void *block, size_t bytes);
void check_block(const void *block, size_t bytes);

/* ---- The rest ------------------------------------------------------------------------------------------- */

void pattern_fill(void *start, size_t bytes, unsigned seed);
uint64_t random_next(uint64_t *state); /* any seed but 0; the same sequence everywhere */
long long now_ms(void);
void nap_us(long us);  /* sleeps, and calls nothing of the library */
void sleep_ms(int ms); /* the suite defines it: a sleep that keeps the library's progress going, if it must */

#ifdef __cplusplus
}
#endif

#endif
