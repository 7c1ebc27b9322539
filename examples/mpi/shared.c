/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Ranks of one host that share memory: a ring of cells in one window, which neighbours read and write by loads and stores.
 *
 * Each rank owns a part of the window. In each step it adds its left neighbour's value to its own. The parts are contiguous, or
 * each starts at a page of its own; a part may be empty. At the end one-sided operations use the window, too.
 *
 * mpicc -O2 shared.c -o shared; mpirun -n 4 ./shared
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int me, ranks;

static void check(int right, const char *what)
{
    if (right) return;
    fprintf(stderr, "rank %d: %s\n", me, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Makes what other ranks have stored visible, and waits for them. */
static void step(MPI_Win win, MPI_Comm comm)
{
    MPI_Win_sync(win);
    MPI_Barrier(comm);
    MPI_Win_sync(win);
}

static void ring(MPI_Comm comm, int apart)
{
    enum { CELLS = 1000, STEPS = 5 };
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false");
    long *own, *left, *first;
    MPI_Win win;
    MPI_Win_allocate_shared(CELLS * sizeof(long), sizeof(long), info, comm, &own, &win);
    MPI_Info_free(&info);
    MPI_Aint size;
    int unit, *flavor, found;
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    check(found && *flavor == MPI_WIN_FLAVOR_SHARED, "the window's flavor is not MPI_WIN_FLAVOR_SHARED");
    MPI_Win_shared_query(win, (me + ranks - 1) % ranks, &size, &unit, &left);
    /* Open MPI reports whole pages for parts that are not contiguous. */
    check(size >= CELLS * (MPI_Aint)sizeof(long) && unit == sizeof(long), "the neighbour's part has another size");
    MPI_Win_shared_query(win, 0, &size, &unit, &first);
    check(apart || own == first + (long)me * CELLS, "the parts are not contiguous");

    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (int i = 0; i < CELLS; i++) own[i] = me + i;
    long sum = me;
    for (int s = 0; s < STEPS; s++) {
        step(win, comm);
        long theirs = left[0];
        for (int i = 0; i < CELLS; i++) check(left[i] == theirs + (s == 0 ? i : 0), "a neighbour's store is not visible");
        step(win, comm);
        sum += theirs;
        for (int i = 0; i < CELLS; i++) own[i] = sum;
    }
    step(win, comm);
    long expected = 0, ways = 1; /* after n steps: sum over k of (n over k) times the value k ranks to the left */
    for (int k = 0; k <= STEPS; k++) {
        expected += ways * (((me - k) % ranks + ranks) % ranks);
        ways = ways * (STEPS - k) / (k + 1);
    }
    check(own[CELLS - 1] == expected, "the sum is wrong");
    step(win, comm);

    long one = 1, old = -1;
    MPI_Put(&one, 1, MPI_LONG, 0, me, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, (me + 1) % ranks, CELLS - 1, MPI_SUM, win);
    MPI_Win_flush_all(win);
    step(win, comm);
    check(own[CELLS - 1] == expected + 1, "an atomic did not arrive");
    for (int i = 0; me == 0 && i < ranks; i++) check(own[i] == 1, "a put did not arrive");
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Only the last rank has memory; MPI_PROC_NULL names the first part that is not empty. */
static void one_part(MPI_Comm comm)
{
    char *own, *theirs;
    MPI_Win win;
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(me == ranks - 1 ? 100 : 0, 1, MPI_INFO_NULL, comm, &own, &win);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &theirs);
    check(size == 100 && unit == 1 && theirs, "MPI_PROC_NULL does not name the part");
    MPI_Win_fence(0, win);
    if (me == 0) theirs[99] = 7;
    MPI_Win_fence(0, win);
    check(theirs[99] == 7, "a store is not visible");
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int all, world, size;
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm comm, halves;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world, MPI_INFO_NULL, &comm);
    MPI_Comm_size(comm, &ranks);
    MPI_Comm_rank(comm, &me);
    check(ranks == all && me == world, "the ranks of this host are not in one communicator");
    ring(comm, 0);
    ring(comm, 1);
    one_part(comm);

    /* Some of the ranks, in the other order; the others get no communicator. */
    int take = all == 1 || world > 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, take ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, -world, MPI_INFO_NULL, &halves);
    check((halves != MPI_COMM_NULL) == take, "MPI_UNDEFINED is not left out");
    if (take) {
        MPI_Comm_size(halves, &size);
        MPI_Comm_rank(halves, &me);
        check(size == (all == 1 ? 1 : all - 1) && me == all - 1 - world, "the key does not order the ranks");
        ranks = size;
        ring(halves, 0);
        MPI_Comm_free(&halves);
    }
    MPI_Comm_free(&comm);
    if (world == 0) printf("%d ranks shared their memory\n", all);
    MPI_Finalize();
    return 0;
}
