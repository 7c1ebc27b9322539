/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Times of waits with a limit, checked, for sim_limits.c and sim_limits_threads.c. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

static int failures;
static double began;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The case that has begun at the last call must be right, and have taken so long, at most `late_s` more. */
static void check_within(const char *name, double wanted_s, double late_s, int is_right)
{
    double took = now() - began;
    int error = errno;
    if (!is_right || took < wanted_s - 1e-6 || took > wanted_s + late_s) {
        printf("%s: %s, took %.9f s, wanted %.9f s, errno %d\n", name, is_right ? "right" : "wrong", took, wanted_s, error);
        failures++;
    }
    errno = 0;
    began = now();
}

static struct timespec in(clockid_t clock, double seconds)
{
    struct timespec t;
    clock_gettime(clock, &t);
    long long ns = t.tv_sec * 1000000000LL + t.tv_nsec + (long long)(seconds * 1e9);
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}
