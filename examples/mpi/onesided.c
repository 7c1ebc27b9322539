/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * onesided: MPI's windows, with each kind of synchronization in its typical use. Every rank opens a part of its memory,
 * and others read and write it:
 *
 *   fence        all ranks step together: put to the next, get from it;
 *   pscw         only neighbours synchronize: post and wait at the target, start and complete at the origin;
 *   lock         only the origin synchronizes: an exclusive lock makes a read, a change and a write atomic;
 *   accumulate   many origins add to the same element at once, without a lock;
 *   fetch        MPI_Fetch_and_op as a counter from which every rank takes tickets;
 *   swap         MPI_Compare_and_swap puts an element at the head of a shared list;
 *   dynamic      memory is attached to a window after it was made; its addresses are exchanged;
 *   passive      whether an origin makes progress while the target computes and does not call MPI.
 *
 *     mpicc -O2 examples/mpi/onesided.c -o onesided && selvedge mpirun -n 4 ./onesided [part]...
 *
 * Runs all parts, or those that are named. Any number of ranks. Ends with an error when a value is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20
#define LENGTH 3000 /* words of a window: more than a page, less than a message that is sent in pieces */

static int rank, size, next, previous;
static long *memory; /* the window's memory, LENGTH words */
static MPI_Win window;

static void expect(const char *what, long got, long want)
{
    if (got == want)
        return;
    fprintf(stderr, "rank %d, %s: %ld, not %ld\n", rank, what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Collective. Every word is 0 at all ranks on return. */
static void clear(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    for (int i = 0; i < LENGTH; i++)
        memory[i] = 0;
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Reads a word of this rank's own window, after the accesses of others. */
static long look(int at)
{
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    long value = memory[at];
    MPI_Win_unlock(rank, window);
    return value;
}

static void fence(void)
{
    static long out[LENGTH], in[LENGTH];
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LENGTH; i++)
            out[i] = rank * 1000000L + round * 10000 + i;
        MPI_Put(out, LENGTH, MPI_LONG, next, 0, LENGTH, MPI_LONG, window);
        MPI_Win_fence(0, window);
        MPI_Get(in, LENGTH, MPI_LONG, next, 0, LENGTH, MPI_LONG, window);
        MPI_Win_fence(0, window);
        for (int i = 0; i < LENGTH; i++) {
            expect("put between fences", memory[i], previous * 1000000L + round * 10000 + i);
            expect("get between fences", in[i], out[i]);
        }
        MPI_Win_fence(0, window); /* all ranks have checked before the next values arrive */
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
}

static void pscw(void)
{
    MPI_Group world, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &next, &to);
    MPI_Group_incl(world, 1, &previous, &from);
    for (long round = 0; round < ROUNDS; round++) {
        long value = rank * 100 + round;
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        MPI_Put(&value, 1, MPI_LONG, next, 7, 1, MPI_LONG, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        expect("put between post and wait", memory[7], previous * 100 + round);
    }
    MPI_Group_free(&from);
    MPI_Group_free(&to);
    MPI_Group_free(&world);
}

static void lock(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        long value;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
        MPI_Win_flush(0, window); /* the value has arrived; no other rank has the lock until unlock */
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        expect("changes under a lock", look(0), (long)size * ROUNDS);
}

static void accumulate(void)
{
    static long ones[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ones[i] = 1;
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < ROUNDS; round++)
        for (int target = 0; target < size; target++)
            MPI_Accumulate(ones, LENGTH - 1, MPI_LONG, target, 0, LENGTH - 1, MPI_LONG, MPI_SUM, window);
    long mine = rank + 1;
    MPI_Accumulate(&mine, 1, MPI_LONG, next, LENGTH - 1, 1, MPI_LONG, MPI_MAX, window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    for (int i = 0; i < LENGTH - 1; i++)
        expect("sum of all", memory[i], (long)size * ROUNDS);
    expect("largest", memory[LENGTH - 1], previous + 1);
    MPI_Win_unlock(rank, window);
}

static void fetch(void)
{
    static const long one = 1;
    long tickets = 0, sum = 0, ticket, drawn = (long)size * ROUNDS;
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        expect("ticket within range", ticket >= 0 && ticket < drawn, 1);
        sum += ticket;
        tickets++;
    }
    MPI_Win_unlock_all(window);
    MPI_Allreduce(MPI_IN_PLACE, &tickets, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect("tickets", tickets, drawn);
    expect("sum of tickets, each drawn once", sum, drawn * (drawn - 1) / 2);
}

/* The list's head is word 0 at rank 0. Element i of a rank is word i of its window; its name is rank * LENGTH + i. */
static void swap(void)
{
    static const long nothing = 0;
    MPI_Win_lock_all(0, window);
    for (int i = 1; i <= ROUNDS; i++) {
        long mine = (long)rank * LENGTH + i, head = 0, found;
        for (;;) {
            MPI_Accumulate(&head, 1, MPI_LONG, rank, i, 1, MPI_LONG, MPI_REPLACE, window);
            MPI_Win_flush(rank, window); /* the element points to the next one before other ranks can find it */
            MPI_Compare_and_swap(&mine, &head, &found, MPI_LONG, 0, 0, window);
            MPI_Win_flush(0, window);
            if (found == head)
                break;
            head = found;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        long length = 0, at = 0, following;
        do {
            MPI_Fetch_and_op(&nothing, &following, MPI_LONG, (int)(at / LENGTH), at % LENGTH, MPI_NO_OP, window);
            MPI_Win_flush((int)(at / LENGTH), window);
            at = following;
            length += at != 0;
        } while (at != 0 && length <= (long)size * ROUNDS);
        expect("elements of the list", length, (long)size * ROUNDS);
    }
    MPI_Win_unlock_all(window);
}

static void dynamic(void)
{
    MPI_Win open;
    MPI_Aint here, *addresses = malloc((size_t)size * sizeof *addresses);
    long *words = malloc(LENGTH * sizeof *words), value = 1000 + rank;
    if (addresses == NULL || words == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &open);
    MPI_Win_attach(open, words, LENGTH * sizeof *words);
    MPI_Get_address(words + 5, &here);
    MPI_Allgather(&here, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_fence(0, open);
    MPI_Put(&value, 1, MPI_LONG, next, addresses[next], 1, MPI_LONG, open);
    MPI_Win_fence(0, open);
    expect("put into attached memory", words[5], 1000 + previous);
    MPI_Win_detach(open, words);
    MPI_Win_free(&open);
    free(words);
    free(addresses);
}

/*
 * Rank 0 puts and counts at the last rank, which only computes. MPI guarantees that this completes when the target calls MPI
 * again; a good transport completes it before. If it does not, the program prints that, without an error.
 */
static void passive(void)
{
    static const long one = 1, values[3] = {11, 12, 13};
    int target = size - 1, alone = 1;
    MPI_Win_lock_all(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Put(values, 3, MPI_LONG, target, 1, 3, MPI_LONG, window);
        MPI_Win_flush(target, window);
        for (int i = 0; i < 100; i++)
            MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_flush(target, window);
    }
    if (rank == target && rank != 0) {
        double until_s = MPI_Wtime() + 0.2;
        while (*(volatile long *)memory < 100 && MPI_Wtime() < until_s)
            ;
        alone = *(volatile long *)memory == 100;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == target) {
        MPI_Win_sync(window);
        expect("counted from afar", memory[0], 100);
        expect("put from afar", memory[1] + memory[2] + memory[3], 36);
        printf("without any call of the target: %s\n", alone ? "yes" : "no");
        fflush(stdout);
    }
    MPI_Win_unlock_all(window);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } parts[] = {
        {"fence", fence}, {"pscw", pscw},   {"lock", lock},       {"accumulate", accumulate},
        {"fetch", fetch}, {"swap", swap},   {"dynamic", dynamic}, {"passive", passive},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    MPI_Win_allocate(LENGTH * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int named = argc < 2;
        for (int argument = 1; argument < argc; argument++)
            named |= strcmp(argv[argument], parts[i].name) == 0;
        if (!named)
            continue;
        clear();
        double began_s = MPI_Wtime();
        parts[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%-12s right, %8.2f ms\n", parts[i].name, (MPI_Wtime() - began_s) * 1e3);
            fflush(stdout);
        }
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
