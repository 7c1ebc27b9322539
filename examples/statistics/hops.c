/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A statistics plug-in: packets and mean latency by the number of routers that they crossed, and the channel at which packets waited
 * longest. The argument is a file for the table; without it, the table goes to standard output.
 *
 *     selvedge sim --machine torus16 --traffic uniform --statistics build/examples/statistics/hops.so:hops.csv
 */
#include <selvedge_statistics.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOPS_MAX = 256, NAME_BYTES = 96 };

typedef struct Counts {
    FILE *out;
    selvedge_statistics_network network;
    uint64_t packets[HOPS_MAX], latency_ps[HOPS_MAX];
    uint64_t injected, hops, blocked, lost;
    uint64_t *waited_ps; /* by channel */
    char (*names)[NAME_BYTES];
} Counts;

static int begin(const selvedge_statistics_network *network, const char *arguments, void **state)
{
    Counts *counts = calloc(1, sizeof *counts);
    if (counts == NULL) return 1;
    counts->network = *network;
    counts->waited_ps = calloc(network->channels, sizeof *counts->waited_ps);
    counts->names = calloc(network->channels, sizeof *counts->names);
    counts->out = arguments[0] != 0 ? fopen(arguments, "w") : stdout;
    if (counts->waited_ps == NULL || counts->names == NULL || counts->out == NULL) return 1;
    /* The network's description is valid during this call only. */
    for (uint32_t channel = 0; channel < network->channels; channel++)
        network->channel_name(network, channel, counts->names[channel], NAME_BYTES);
    *state = counts;
    return 0;
}

static void injected(void *state, uint64_t at_ps, const selvedge_statistics_packet *packet)
{
    (void)at_ps, (void)packet;
    ((Counts *)state)->injected++;
}

static void blocked(void *state, uint64_t at_ps, const selvedge_statistics_packet *packet, uint32_t channel, uint32_t at_router)
{
    (void)at_ps, (void)packet, (void)channel;
    ((Counts *)state)->blocked += at_router;
}

static void hop(void *state, const selvedge_statistics_packet *packet, const selvedge_statistics_hop *hop)
{
    (void)packet;
    Counts *counts = state;
    counts->hops += hop->head;
    counts->waited_ps[hop->channel] += hop->waited_ps;
}

static void delivered(void *state, const selvedge_statistics_packet *packet, const selvedge_statistics_arrival *arrival)
{
    (void)packet;
    Counts *counts = state;
    uint32_t hops = arrival->hops < HOPS_MAX ? arrival->hops : HOPS_MAX - 1;
    counts->packets[hops]++;
    counts->latency_ps[hops] += arrival->at_ps - arrival->injected_ps;
}

static void lost(void *state, const selvedge_statistics_packet *packet, const selvedge_statistics_loss *loss)
{
    (void)packet, (void)loss;
    ((Counts *)state)->lost++;
}

static int end(void *state, uint64_t at_ps)
{
    Counts *counts = state;
    uint32_t worst = 0;
    for (uint32_t channel = 0; channel < counts->network.channels; channel++)
        if (counts->waited_ps[channel] > counts->waited_ps[worst]) worst = channel;
    fprintf(counts->out, "routers,packets,latency_mean_ns\n");
    for (int hops = 0; hops < HOPS_MAX; hops++) {
        if (counts->packets[hops] == 0) continue;
        fprintf(counts->out, "%d,%" PRIu64 ",%.3f\n", hops, counts->packets[hops],
                (double)counts->latency_ps[hops] / (double)counts->packets[hops] / 1e3);
    }
    fprintf(counts->out, "# %" PRIu64 " injected, %" PRIu64 " hops, %" PRIu64 " blocked, %" PRIu64 " lost, in %.3f us\n", counts->injected,
            counts->hops, counts->blocked, counts->lost, (double)at_ps / 1e6);
    fprintf(counts->out, "# longest waits: %s, %.3f us\n", counts->names[worst], (double)counts->waited_ps[worst] / 1e6);
    int failed = counts->out == stdout ? fflush(stdout) : fclose(counts->out);
    free(counts->waited_ps);
    free(counts->names);
    free(counts);
    return failed != 0;
}

const selvedge_statistics_plugin *selvedge_statistics(void)
{
    static const selvedge_statistics_plugin plugin = {
        .size = sizeof plugin,
        .version = SELVEDGE_STATISTICS_VERSION,
        .begin = begin,
        .injected = injected,
        .blocked = blocked,
        .hop = hop,
        .delivered = delivered,
        .lost = lost,
        .end = end,
    };
    return &plugin;
}
