/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared part of the OpenSHMEM suite: the job, memory. See suite.h for the contract.
 *
 * Invariants
 * 1. `given` lists the memory that cases have, with its guards. Symmetric memory has the same order there on every PE.
 * 2. The suite asks for the PE's number once: checks work before shmem_init, after shmem_finalize, and in any thread.
 * 3. A PE that fails prints its message on standard error before it ends the job.
 */
#include "suite.h"

enum { GIVEN_MAX = 1024 };

enum origin { SYMMETRIC_HEAP, SYMMETRIC_STATIC, PRIVATE };

struct given {
    enum origin origin;
    void *block; /* with its guards */
    size_t bytes;
};

static struct given given[GIVEN_MAX];
static int given_count;
static unsigned char static_arena[SYMMETRIC_STATIC_BYTES] __attribute__((aligned(BLOCK_ALIGN_BYTES)));
static size_t static_used;
static enum memory memory_now;
static bool is_initialised;
static int my_number = -1, pes_count = -1;

uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* ---- The job -------------------------------------------------------------------------------------------- */

int rank(void) { return my_number; }
int ranks(void) { return pes_count; }
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

static void *take(enum origin origin, size_t bytes)
{
    void *start = NULL;
    switch (origin) {
    case SYMMETRIC_HEAP:
        start = shmem_align(BLOCK_ALIGN_BYTES, bytes);
        break;
    case SYMMETRIC_STATIC:
        if (bytes > sizeof static_arena - static_used) FAIL("no %zu bytes left of the static arena", bytes);
        start = static_arena + static_used;
        static_used += bytes;
        break;
    case PRIVATE:
        start = aligned_alloc(BLOCK_ALIGN_BYTES, bytes);
        break;
    }
    if (start == NULL) FAIL("no %zu bytes of memory", bytes);
    return start;
}

static void *give(enum origin origin, size_t bytes)
{
    if (given_count == GIVEN_MAX) FAIL("too many blocks of memory for the suite");
    void *block = take(origin, guarded_bytes(bytes));
    given[given_count++] = (struct given){origin, block, bytes};
    return guard_block(block, bytes);
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
    for (int i = 0; i < given_count; i++) check_block(given[i].block, given[i].bytes);
}

static void take_back(void)
{
    while (given_count > 0) {
        const struct given *g = &given[--given_count];
        if (g->origin == SYMMETRIC_HEAP) shmem_free(g->block);
        if (g->origin == PRIVATE) free(g->block);
    }
    static_used = 0;
}

void sleep_ms(int ms) { nap_us(ms * 1000L); }

/* ---- The program ---------------------------------------------------------------------------------------- */

static void run_body(const struct test_case *c, enum memory memory)
{
    memory_now = memory;
    c->body();
    shmem_barrier_all();
    about("%s", "");
    check_guards();
    take_back();
}

static int run_case(const struct test_case *c)
{
    if (c->extra.flags & OWN_INIT) {
        c->body();
        return 0;
    }
    shmem_init();
    joined();
    if (pes_count != c->ranks && pes_count != c->extra.crowded) FAIL("%s wants %d PEs, has %d", c->name, c->ranks, n_pes());
    run_body(c, HEAP);
    if (c->extra.flags & BOTH_MEMORIES) run_body(c, STATIC);
    shmem_barrier_all(); /* a PE whose check fails late still fails the case of the others */
    left();
    shmem_finalize();
    return 0;
}

static void end_job(void)
{
    if (is_initialised) shmem_global_exit(1);
}

static const char *context(void) { return memory_now == STATIC ? ", static objects" : ""; }

const struct suite *the_suite(void)
{
    static const struct suite suite = {.ranks_max = PES_MAX, .run = run_case, .end_job = end_job, .context = context};
    return &suite;
}
