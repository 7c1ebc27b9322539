/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Time, samples, options and result lines of the measuring programs; see rank.h for the method. */
#define _GNU_SOURCE
#include "rank.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Two readings of the clock cost about 50 ns: under one percent of this. */
#define BATCH_NS 8000.0
#define BATCH_STEPS_MAX 256
#define BATCHES_MAX 100000
#define RING_BYTES ((size_t)32 << 20)
#define RING_BUFFERS_MIN 2

_Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(1);
}

/* ---- options ---- */

static unsigned long long number(const char *text, const char **end)
{
    char *stop;
    errno = 0;
    unsigned long long value = strtoull(text, &stop, 10);
    if (stop == text || errno != 0)
        die("not a number: '%s'", text);
    *end = stop;
    return value;
}

/* Reads "8,64,4096" and returns the number of entries. */
static unsigned list(const char *text, unsigned long long out[LIST_MAX])
{
    unsigned count = 0;
    for (const char *at = text; *at != '\0';) {
        if (count == LIST_MAX)
            die("more than %d numbers in '%s'", LIST_MAX, text);
        out[count] = number(at, &at);
        if (count > 0 && out[count] <= out[count - 1])
            die("numbers must ascend: '%s'", text);
        count++;
        if (*at == ',')
            at++;
        else if (*at != '\0')
            die("not a list of numbers: '%s'", text);
    }
    return count;
}

static double positive(const char *text)
{
    char *stop;
    double value = strtod(text, &stop);
    if (stop == text || *stop != '\0' || !(value > 0.0))
        die("not a positive number: '%s'", text);
    return value;
}

static void cpu_pair(struct options *o, const char *text)
{
    if (sscanf(text, "%d,%d", &o->cpus[0], &o->cpus[1]) != 2)
        die("two processor numbers wanted, such as 0,1: '%s'", text);
}

struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {
        { "what", required_argument, NULL, 'w' },      { "budget-ms", required_argument, NULL, 'b' },
        { "limit-ms", required_argument, NULL, 'l' },  { "sizes", required_argument, NULL, 's' },
        { "depths", required_argument, NULL, 'd' },    { "cpus", required_argument, NULL, 'c' },
        { "prefix", required_argument, NULL, 'p' },    { "ring-bytes", required_argument, NULL, 'r' },
        { "inside", no_argument, NULL, 'i' },          { NULL, 0, NULL, 0 },
    };
    struct options o = { .what = "", .budget_ms = 200.0, .limit_ms = 60000.0, .ring_bytes = RING_BYTES, .cpus = { -1, -1 } };
    unsigned long long values[LIST_MAX];
    int letter;
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (letter) {
        case 'w': o.what = optarg; break;
        case 'b': o.budget_ms = positive(optarg); break;
        case 'l': o.limit_ms = positive(optarg); break;
        case 's':
            o.sizes_count = list(optarg, values);
            for (unsigned i = 0; i < o.sizes_count; i++)
                o.sizes_bytes[i] = (size_t)values[i];
            break;
        case 'd':
            o.depths_count = list(optarg, values);
            for (unsigned i = 0; i < o.depths_count; i++)
                o.depths[i] = (unsigned)values[i];
            break;
        case 'r': o.ring_bytes = (size_t)positive(optarg); break;
        case 'c': cpu_pair(&o, optarg); break;
        case 'p': o.prefix = optarg; break;
        case 'i': o.inside = true; break;
        default: die("usage: %s [--what NAME] [--sizes A,B] [--depths A,B] [--budget-ms N]", argv[0]);
        }
    }
    if (optind != argc)
        die("unexpected argument '%s'", argv[optind]);
    return o;
}

/* ---- time ---- */

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- samples ---- */

struct samples samples_new(size_t capacity)
{
    struct samples s = { .values_ns = calloc(capacity, sizeof(double)), .capacity = capacity };
    if (s.values_ns == NULL)
        die("no memory for %zu samples", capacity);
    for (size_t i = 0; i < capacity; i += PAGE_BYTES / sizeof(double))
        s.values_ns[i] = 1.0; /* touched here, so that no page fault falls into a batch */
    return s;
}

void samples_add(struct samples *s, double value_ns)
{
    if (s->count < s->capacity)
        s->values_ns[s->count++] = value_ns;
}

void samples_clear(struct samples *s) { s->count = 0; }

void samples_free(struct samples *s)
{
    free(s->values_ns);
    *s = (struct samples){ 0 };
}

static uint64_t round_up(double value)
{
    uint64_t whole = (uint64_t)value;
    return (double)whole < value ? whole + 1 : whole;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_quantile(struct samples *s, double q)
{
    if (s->count == 0)
        return 0.0;
    qsort(s->values_ns, s->count, sizeof(double), ascending);
    size_t rank = (size_t)round_up(q * (double)s->count);
    return s->values_ns[rank == 0 ? 0 : rank - 1];
}

struct plan plan_from(double step_ns, double budget_ms, uint64_t least)
{
    struct plan p = { .batch = 1, .batches = least };
    if (!(step_ns >= 1.0))
        step_ns = 1.0;
    uint64_t batch = round_up(BATCH_NS / step_ns);
    p.batch = batch > BATCH_STEPS_MAX ? BATCH_STEPS_MAX : batch;
    double batches = budget_ms * 1e6 / (step_ns * (double)p.batch);
    if (batches > (double)least)
        p.batches = batches > BATCHES_MAX ? BATCHES_MAX : (uint64_t)batches;
    return p;
}

/* ---- results ---- */

struct result result_new(const char *name, long long size_bytes, long long depth)
{
    return (struct result){
        .name = name,
        .size_bytes = size_bytes,
        .depth = depth,
        .median_ns = NOT_APPLICABLE,
        .p99_ns = NOT_APPLICABLE,
        .rate_per_s = NOT_APPLICABLE,
        .bandwidth_Bps = NOT_APPLICABLE,
    };
}

void result_times(struct result *r, struct samples *s)
{
    r->median_ns = samples_quantile(s, 0.5);
    r->p99_ns = samples_quantile(s, 0.99);
    r->samples = s->count;
}

static void integer(const char *name, long long value)
{
    if (value < 0)
        printf("\"%s\":null,", name);
    else
        printf("\"%s\":%lld,", name, value);
}

static void real(const char *name, double value)
{
    if (value < 0.0 || !isfinite(value))
        printf("\"%s\":null,", name);
    else
        printf("\"%s\":%.3f,", name, value);
}

static void head(const struct options *o, const char *name, long long size_bytes, long long depth)
{
    printf("{\"case\":\"%s%s%s\",", o->prefix != NULL ? o->prefix : "", o->prefix != NULL ? ":" : "", name);
    integer("size_bytes", size_bytes);
    integer("depth", depth);
}

void result_print(const struct options *o, const struct result *r)
{
    head(o, r->name, r->size_bytes, r->depth);
    real("median_ns", r->median_ns);
    real("p99_ns", r->p99_ns);
    real("rate_per_s", r->rate_per_s);
    real("bandwidth_Bps", r->bandwidth_Bps);
    integer("samples", (long long)r->samples);
    printf("\"cpu\":%d", sched_getcpu());
    if (r->unit != NULL)
        printf(",\"value\":%.6g,\"unit\":\"%s\"", r->value, r->unit);
    puts("}");
    fflush(stdout);
}

void result_skipped(const struct options *o, const char *name, long long size_bytes, long long depth, const char *why)
{
    head(o, name, size_bytes, depth);
    printf("\"skipped\":\"%s\"}\n", why);
    fflush(stdout);
}

/* ---- memory ---- */

void *ordinary_alloc(size_t bytes)
{
    size_t rounded = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    void *memory = aligned_alloc(PAGE_BYTES, rounded == 0 ? PAGE_BYTES : rounded);
    if (memory == NULL)
        die("no memory for %zu bytes", bytes);
    memset(memory, 1, rounded);
    return memory;
}

unsigned rotation(const struct options *o, size_t size_bytes)
{
    size_t buffers = o->ring_bytes / size_bytes;
    return buffers < RING_BUFFERS_MIN ? RING_BUFFERS_MIN : (unsigned)buffers;
}
