/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A histogram distributed over all nodes: each node owns some of the bins, and active messages count in them. A batch of values travels
 * as one medium message to the node that owns their bins; its handler counts, and replies with the number of values. Checks the total.
 *
 *     selvedge run -n 4 histogram [VALUES]
 */
#define GASNET_SEQ 1
#include <gasnet.h>

#include <stdio.h>
#include <stdlib.h>

enum { BINS = 1024, BATCH = 64, COUNT = 200, COUNTED };

static uint64_t bins[BINS]; /* bins whose number modulo the number of nodes is this node */
static int values_counted, values_here;

static void count(gasnet_token_t token, void *buffer, size_t bytes)
{
    const uint32_t *values = buffer;
    int number = (int)(bytes / sizeof *values);
    for (int i = 0; i < number; i++) bins[values[i]]++;
    values_here += number;
    gasnet_AMReplyShort1(token, COUNTED, number);
}

static void counted(gasnet_token_t token, gasnet_handlerarg_t number)
{
    (void)token;
    values_counted += number;
}

static void check(int code)
{
    if (code == GASNET_OK) return;
    fprintf(stderr, "histogram: %s: %s\n", gasnet_ErrorName(code), gasnet_ErrorDesc(code));
    gasnet_exit(1);
}

static void barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    check(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS));
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t handlers[] = {{COUNT, count}, {COUNTED, counted}};
    check(gasnet_init(&argc, &argv));
    check(gasnet_attach(handlers, 2, 0, 0));
    int me = (int)gasnet_mynode(), nodes = (int)gasnet_nodes();
    int values = argc > 1 ? atoi(argv[1]) : 100000, sent = 0;
    uint32_t(*batches)[BATCH] = calloc((size_t)nodes, sizeof *batches);
    int *filled = calloc((size_t)nodes, sizeof *filled);
    if (batches == NULL || filled == NULL) gasnet_exit(1);

    uint64_t state = 88172645463325252u + (uint64_t)me;
    for (int i = 0; i < values; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t bin = (uint32_t)(state >> 40) % BINS;
        int to = (int)bin % nodes;
        batches[to][filled[to]++] = bin;
        if (filled[to] < BATCH) continue;
        check(gasnet_AMRequestMedium0((gasnet_node_t)to, COUNT, batches[to], sizeof batches[to]));
        sent += filled[to];
        filled[to] = 0;
    }
    for (int to = 0; to < nodes; to++) {
        if (filled[to] == 0) continue;
        check(gasnet_AMRequestMedium0((gasnet_node_t)to, COUNT, batches[to], (size_t)filled[to] * sizeof **batches));
        sent += filled[to];
    }
    GASNET_BLOCKUNTIL(values_counted == sent);
    barrier();

    uint64_t total = 0;
    for (int bin = me; bin < BINS; bin += nodes) total += bins[bin];
    if (sent != values || total != (uint64_t)values_here) {
        fprintf(stderr, "histogram: node %d has lost values\n", me);
        gasnet_exit(1);
    }
    printf("node %d: %llu values in its bins\n", me, (unsigned long long)total);
    barrier();
    gasnet_exit(0);
}
