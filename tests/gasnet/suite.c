/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Shared part of the GASNet suite: start, end, segments, waiting. See suite.h for the contract. */
#include "suite.h"

gasnet_handlerentry_t *handlers;
int handlers_count;
static gasnet_seginfo_t segments[RANKS_MAX];

int rank(void) { return (int)gasnet_mynode(); }
int ranks(void) { return (int)gasnet_nodes(); }
unsigned char *segment(int rank) { return segments[rank].addr; }

void barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    OK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS));
}

void wait_a_little(void)
{
    /* One iteration of GASNET_BLOCKUNTIL: its condition fails once. */
    volatile int rounds = 0;
    GASNET_BLOCKUNTIL(rounds++ > 0);
}

void sleep_ms(int ms)
{
    for (long long end = now_ms() + ms; now_ms() < end;) wait_a_little();
}

static int run_case(const struct test_case *c)
{
    if (c->extra.flags & RAW) {
        c->body();
        return 0;
    }
    OK(gasnet_init(NULL, NULL));
    OK(gasnet_attach(handlers, handlers_count, SEGMENT, 0));
    OK(gasnet_getSegmentInfo(segments, ranks()));
    c->body();
    barrier();
    gasnet_exit(0);
}

static void end_job(void) { gasnet_exit(1); }

static const char *value_name(const char *found_text, const char *wanted_text, unsigned long long value)
{
    (void)found_text;
    return strstr(wanted_text, "GASNET_") == wanted_text ? gasnet_ErrorName((int)value) : "";
}

static const struct suite suite = {.ranks_max = RANKS_MAX, .run = run_case, .end_job = end_job, .value_name = value_name};

const struct suite *the_suite(void) { return &suite; }
