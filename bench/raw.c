/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * raw_flag: the time of the hardware alone to pass a cache line from one core to another. No library, no
 * launcher: two processes map one file, and each answers in its own line as soon as it sees the other's line change.
 *
 * Invariants: 1. one writer a line. 2. Store-release pairs with the other side's load-acquire of the same line.
 * 3. The numbers on the lines only rise, so nothing is reset and no message is missed.
 */
#define _GNU_SOURCE
#include "rank.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP UINT64_MAX
#define WARM_STEPS 20000
#define BATCHES_MIN 20

struct line {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t value;
};

struct pair {
    struct line ping, pong;
};

static void pin(int cpu)
{
    if (cpu < 0)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("cannot run on processor %d", cpu);
}

static int shared_file(void)
{
    const char *parent = getenv("SELVEDGE_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-raw-XXXXXX", parent != NULL ? parent : "/dev/shm");
    int file = mkstemp(path);
    if (file < 0) {
        snprintf(path, sizeof path, "/tmp/bench-raw-XXXXXX");
        file = mkstemp(path);
    }
    if (file < 0)
        die("no folder for a shared file");
    unlink(path); /* both processes hold it open */
    if (ftruncate(file, PAGE_BYTES) != 0)
        die("cannot size the shared file");
    return file;
}

static struct pair *map(int file)
{
    struct pair *p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (p == MAP_FAILED)
        die("cannot map the shared file");
    return p;
}

static void wait_for(struct line *line, uint64_t value)
{
    while (atomic_load_explicit(&line->value, memory_order_acquire) != value)
        cpu_relax();
}

_Noreturn static void answer(int file, int cpu)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(cpu);
    struct pair *p = map(file);
    for (uint64_t last = 0;;) {
        uint64_t seen;
        while ((seen = atomic_load_explicit(&p->ping.value, memory_order_acquire)) == last)
            cpu_relax();
        if (seen == STOP)
            _exit(0);
        atomic_store_explicit(&p->pong.value, seen, memory_order_release);
        last = seen;
    }
}

/* `count` round trips; returns nanoseconds. */
static uint64_t round_trips(struct pair *p, uint64_t *step, uint64_t count)
{
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        atomic_store_explicit(&p->ping.value, ++*step, memory_order_release);
        wait_for(&p->pong, *step);
    }
    return now_ns() - start;
}

static void measure(const struct options *o, struct pair *p)
{
    uint64_t step = 0;
    uint64_t warm = o->budget_ms < 10.0 ? WARM_STEPS / 20 : WARM_STEPS;
    round_trips(p, &step, warm);
    double step_ns = (double)round_trips(p, &step, warm) / (double)warm;
    struct plan plan = plan_from(step_ns, o->budget_ms, BATCHES_MIN);
    struct samples s = samples_new(plan.batches);
    for (uint64_t i = 0; i < plan.batches; i++)
        samples_add(&s, (double)round_trips(p, &step, plan.batch) / (double)(2 * plan.batch));
    atomic_store_explicit(&p->ping.value, STOP, memory_order_release);

    struct result r = result_new("raw_flag", sizeof(uint64_t), NO_NUMBER);
    result_times(&r, &s);
    result_print(o, &r);
    samples_free(&s);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    int file = shared_file();
    pid_t child = fork();
    if (child < 0)
        die("cannot fork");
    if (child == 0)
        answer(file, o.cpus[1]);
    pin(o.cpus[0]);
    measure(&o, map(file));
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        die("the answering process failed");
    return 0;
}
