/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The harness of the OpenSHMEM suite: main(), the table of cases, checks, memory. See harness.h for the contract.
 *
 * Invariants
 * 1. What was handed out stands in `given` with its guards; symmetric memory stands there in the same order on every PE.
 * 2. The PE's number is asked for once: checks work before shmem_init and after shmem_finalize, and in any thread.
 * 3. A PE that fails ends the job only after its message is on stderr.
 */
#include "harness.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

enum { CASES_MAX = 256, GIVEN_MAX = 1024, GUARD_BYTE = 0xee, ALIGN_BYTES = 64 };

struct shmem_case {
    const char *name;
    const char *rule;
    void (*body)(void);
    int pes;
    struct case_extra extra;
};

enum origin { SYMMETRIC_HEAP, SYMMETRIC_STATIC, PRIVATE };

struct given {
    enum origin origin;
    unsigned char *start; /* of the guard before it */
    size_t bytes;         /* rounded, without the guards */
};

static struct shmem_case cases[CASES_MAX];
static int cases_count;
static struct given given[GIVEN_MAX];
static int given_count;
static unsigned char static_arena[SYMMETRIC_STATIC_BYTES] __attribute__((aligned(ALIGN_BYTES)));
static size_t static_used;
static enum memory memory_now;
static bool is_initialised;
static int my_number = -1, pes_count = -1;
static _Thread_local char subject[256];

/* ---- Checks --------------------------------------------------------------------------------------------- */

void about(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(subject, sizeof subject, format, arguments);
    va_end(arguments);
}

void fail_at(const char *file, int line, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const char *before = subject[0] ? ", " : "", *where = memory_now == STATIC ? ", static objects" : "";
    fprintf(stderr, "%s:%d: PE %d%s%s%s: %s\n", file, line, my_number, where, before, subject, message);
    fflush(stderr);
    if (is_initialised) shmem_global_exit(1);
    _exit(1);
}

void check_eq_at(const char *file, int line, const char *found_text, unsigned long long found, const char *wanted_text,
                 unsigned long long wanted)
{
    if (found == wanted) return;
    fail_at(file, line, "%s is %lld (0x%llx), wanted %s = %lld (0x%llx)", found_text, (long long)found, found,
            wanted_text, (long long)wanted, wanted);
}

void check_number_at(const char *file, int line, const char *found_text, long double found, const char *wanted_text,
                     long double wanted)
{
    if (found == wanted) return;
    fail_at(file, line, "%s is %.21Lg, wanted %s = %.21Lg", found_text, found, wanted_text, wanted);
}

void check_bytes_at(const char *file, int line, const void *start, size_t bytes, int value)
{
    const unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)value)
            fail_at(file, line, "byte %zu of %zu is 0x%02x, wanted 0x%02x", i, bytes, at[i], (unsigned char)value);
}

uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static unsigned char pattern_byte(size_t at, unsigned seed)
{
    uint64_t mixed = (at + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(mixed >> 56);
}

void pattern_fill(void *start, size_t bytes, unsigned seed)
{
    unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++) at[i] = pattern_byte(i, seed);
}

void check_pattern_at(const char *file, int line, const void *start, size_t bytes, unsigned seed)
{
    const unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_byte(i, seed))
            fail_at(file, line, "byte %zu of %zu is 0x%02x, wanted 0x%02x of pattern %u", i, bytes, at[i],
                    pattern_byte(i, seed), seed);
}

/* ---- The job -------------------------------------------------------------------------------------------- */

int me(void) { return my_number; }
int n_pes(void) { return pes_count; }
void barrier(void) { shmem_barrier_all(); }

void joined(void)
{
    my_number = shmem_my_pe();
    pes_count = shmem_n_pes();
    is_initialised = true;
}

void left(void) { is_initialised = false; }

bool variant_is(const char *name)
{
    const char *found = getenv("SHMEM_TESTS_VARIANT");
    return strcmp(found != NULL ? found : "other", name) == 0;
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

static unsigned char *take(enum origin origin, size_t bytes)
{
    void *start = NULL;
    switch (origin) {
    case SYMMETRIC_HEAP:
        start = shmem_align(ALIGN_BYTES, bytes);
        break;
    case SYMMETRIC_STATIC:
        if (bytes > sizeof static_arena - static_used) FAIL("no %zu bytes left of the static arena", bytes);
        start = static_arena + static_used;
        static_used += bytes;
        break;
    case PRIVATE:
        start = aligned_alloc(ALIGN_BYTES, bytes);
        break;
    }
    if (start == NULL) FAIL("no %zu bytes of memory", bytes);
    return start;
}

static void *give(enum origin origin, size_t bytes)
{
    if (given_count == GIVEN_MAX) FAIL("too much memory in pieces for the harness");
    size_t rounded = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    unsigned char *start = take(origin, rounded + 2 * GUARD_BYTES);
    given[given_count++] = (struct given){origin, start, bytes};
    memset(start, GUARD_BYTE, rounded + 2 * GUARD_BYTES);
    return memset(start + GUARD_BYTES, 0, bytes);
}

void *symmetric_in(enum memory memory, size_t bytes)
{
    void *start = give(memory == HEAP ? SYMMETRIC_HEAP : SYMMETRIC_STATIC, bytes);
    shmem_barrier_all();
    return start;
}

void *symmetric(size_t bytes) { return symmetric_in(memory_now, bytes); }
enum memory memory_in_use(void) { return memory_now; }
void *local(size_t bytes) { return give(PRIVATE, bytes); }

void check_guards(void)
{
    for (int i = 0; i < given_count; i++) {
        const struct given *g = &given[i];
        const unsigned char *after = g->start + GUARD_BYTES + g->bytes;
        for (int k = 0; k < GUARD_BYTES; k++) {
            if (g->start[k] != GUARD_BYTE)
                FAIL("%d bytes before memory of %zu bytes: 0x%02x was written", GUARD_BYTES - k, g->bytes, g->start[k]);
            if (after[k] != GUARD_BYTE)
                FAIL("%d bytes behind memory of %zu bytes: 0x%02x was written", k, g->bytes, after[k]);
        }
    }
}

static void take_back(void)
{
    while (given_count > 0) {
        const struct given *g = &given[--given_count];
        if (g->origin == SYMMETRIC_HEAP) shmem_free(g->start);
        if (g->origin == PRIVATE) free(g->start);
    }
    static_used = 0;
}

/* ---- The rest ------------------------------------------------------------------------------------------- */

uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du;
}

void sleep_ms(int ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&nap, NULL);
}

long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- The program ---------------------------------------------------------------------------------------- */

void case_register(const char *name, int pes, const char *rule, void (*body)(void), struct case_extra extra)
{
    if (cases_count == CASES_MAX || pes < 1 || pes > PES_MAX || extra.crowded > PES_MAX) abort();
    cases[cases_count++] = (struct shmem_case){name, rule, body, pes, extra};
}

static const char *or_nothing(const char *text) { return text != NULL ? text : ""; }

static void list_cases(void)
{
    for (int i = 0; i < cases_count; i++) {
        const struct case_extra *extra = &cases[i].extra;
        printf("%s\t%d\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", cases[i].name, cases[i].pes, extra->crowded,
               extra->virtual_time ? "virtual_time" : extra->in_place ? "in_place" : "any", extra->status, or_nothing(extra->environment),
               or_nothing(extra->prints), or_nothing(extra->prints_not), cases[i].rule);
    }
}

static void run_body(const struct shmem_case *c, enum memory memory)
{
    memory_now = memory;
    c->body();
    shmem_barrier_all();
    about("%s", "");
    check_guards();
    take_back();
}

static int run_case(const struct shmem_case *c)
{
    if (c->extra.own_init) {
        c->body();
        return 0;
    }
    shmem_init();
    joined();
    if (pes_count != c->pes && pes_count != c->extra.crowded) FAIL("%s wants %d PEs, has %d", c->name, c->pes, n_pes());
    run_body(c, HEAP);
    if (c->extra.both_memories) run_body(c, STATIC);
    shmem_barrier_all(); /* a PE that fails late still fails the others' case */
    left();
    shmem_finalize();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_cases();
        return 0;
    }
    for (int i = 0; argc == 2 && i < cases_count; i++)
        if (strcmp(argv[1], cases[i].name) == 0) return run_case(&cases[i]);
    fprintf(stderr, "usage: %s --list | CASE (one of %d)\n", argv[0], cases_count);
    return 2;
}
