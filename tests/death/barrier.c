/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rank r enters the launcher's barrier after r ms, and then another barrier at once; it prints the time when it has left both. */
#include <selvedge.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void)
{
    int rank = atoi(getenv("SELVEDGE_RANK"));
    struct timespec before = {0, rank * 1000000L}, now;
    if (selvedge_init() != 0)
        return 1;
    nanosleep(&before, NULL);
    int first = selvedge_barrier(), second = selvedge_barrier();
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("rank %d: %d %d at %ld ms\n", rank, first, second, now.tv_nsec / 1000000);
    return 0;
}
