/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* memory: two ranks change the mappings of blocks of malloc and of static data, and exchange the new contents by messages, gets and
 * puts. Then forked children must have the parent's protections, and madvise(2) do what it says. */
#define _GNU_SOURCE
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PAGE = 4096 };

/* Open MPI 4 ends a program that maps over the memory of a window, because it keeps that memory registered. */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
enum { WINDOWS_STAY = 1 };
#else
enum { WINDOWS_STAY = 0 };
#endif

static unsigned char fixed[BYTES] __attribute__((aligned(PAGE)));
static unsigned char parts[BYTES] __attribute__((aligned(PAGE)));
/* attached: the memory is a segment that children share. */
static int rank, wrong, attached;

static void check(int right, const char *where, const char *what, int bytes)
{
    if (!right) {
        printf("rank %d: %s, %d bytes: %s\n", rank, where, bytes, what);
        wrong++;
    }
}

static int all(const unsigned char *at, int value, int bytes)
{
    return at[0] == value && memcmp(at, at + 1, (size_t)bytes - 1) == 0;
}

static void *block(size_t bytes)
{
    void *made = NULL;
    if (posix_memalign(&made, PAGE, bytes))
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(made, 1, bytes);
    return made;
}

/* Exchanges `mine` with the other rank in all ways. */
static void exchange(unsigned char *mine, const char *where)
{
    static const int lengths[] = { 100, 5000, BYTES };
    static unsigned char value;
    unsigned char *other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int peer = 1 - rank;
    for (int i = 0; i < 3; i++) {
        int bytes = lengths[i];
        value = (unsigned char)(value % 100 + 2);
        memset(mine, value + rank, (size_t)bytes);
        MPI_Sendrecv(mine, bytes, MPI_BYTE, peer, 0, other, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(all(other, value + peer, bytes), where, "sent wrong bytes", bytes);
        memset(other, 110 + rank, (size_t)bytes);
        MPI_Sendrecv(other, bytes, MPI_BYTE, peer, 0, mine, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(all(mine, 110 + peer, bytes), where, "received wrong bytes", bytes);
        MPI_Win window;
        MPI_Win_create(mine, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        memset(mine, 120 + rank, (size_t)bytes);
        MPI_Win_fence(0, window);
        MPI_Get(other, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        check(all(other, 120 + peer, bytes), where, "got wrong bytes", bytes);
        memset(other, 130 + rank, (size_t)bytes);
        MPI_Put(other, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        check(all(mine, 130 + peer, bytes), where, "put wrong bytes", bytes);
        MPI_Win_free(&window);
    }
    mine[0] = 7;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int sees = mine[0] == 7;
        mine[0] = 8;
        _exit(!sees);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(status == 0 && (attached || mine[0] == 7), where, "a child does not see it, or the parent sees the child's", 1);
    munmap(other, BYTES);
}

static void map_over(void *at, size_t bytes)
{
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        check(0, "mmap", "failed", (int)bytes);
}

static void mappings(void)
{
    unsigned char *one = block(BYTES);
    exchange(one, "a block");
    exchange(fixed, "static data");
    map_over(one, BYTES);
    exchange(one, "a block that mmap replaces");
    map_over(fixed, BYTES);
    exchange(fixed, "static data that mmap replaces");
    map_over(parts + 16 * PAGE, PAGE);
    exchange(parts, "static data that mmap replaces in part");

    unsigned char *two = block(BYTES);
    exchange(two, "another block");
    if (syscall(SYS_mmap, two, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == -1)
        check(0, "syscall(SYS_mmap)", "failed", BYTES);
    exchange(two, "a block that a system call replaces");

    unsigned char *three = block(BYTES);
    exchange(three, "a third block");
    munmap(three + PAGE, PAGE);
    map_over(three + PAGE, PAGE);
    exchange(three, "a block that munmap and mmap replace in part");

    unsigned char *four = block(BYTES);
    exchange(four, "a fourth block");
    int id = shmget(IPC_PRIVATE, BYTES, 0600);
    if (id >= 0) {
        if (shmat(id, four, SHM_REMAP) == (void *)-1)
            check(0, "shmat", "failed", BYTES);
        shmctl(id, IPC_RMID, NULL);
        attached = 1;
        exchange(four, "a block that shmat replaces");
        attached = 0;
    }

    unsigned char *five = block(BYTES);
    exchange(five, "a fifth block");
    void *away = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(five, 66, BYTES);
    void *moved = mremap(five, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, away);
    check(moved == away && all(away, 66, BYTES), "mremap", "does not move the bytes", BYTES);
    exchange(away, "a block that mremap moves");

    /* Replaced blocks can be freed, and their memory serves again. */
    free(one);
    free(two);
    free(three);
    for (int i = 0; i < 3; i++) {
        unsigned char *again = block(BYTES);
        exchange(again, "a block in the place of a replaced one");
        free(again);
    }
    unsigned char *guarded = block(BYTES);
    mprotect(guarded, BYTES, PROT_NONE);
    mprotect(guarded, BYTES, PROT_READ | PROT_WRITE);
    exchange(guarded, "a block that was protected");
    free(guarded);
}

/* A window's memory is replaced while it exists. */
static void in_a_window(void)
{
    unsigned char *mine = block(BYTES), *other = block(BYTES);
    MPI_Win window;
    MPI_Win_create(mine, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int value = 20; value < 23; value++) {
        memset(mine, value + 10 * rank, BYTES);
        MPI_Win_fence(0, window);
        MPI_Get(other, BYTES, MPI_BYTE, 1 - rank, 0, BYTES, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        check(all(other, value + 10 * (1 - rank), BYTES), "a window that mmap replaces", "got wrong bytes", BYTES);
        map_over(mine, value == 20 ? BYTES / 2 : BYTES);
    }
    MPI_Win_free(&window);
    free(mine);
    free(other);
}

/* What one rank drops, the other reads as zeros. */
static void advice(void)
{
    unsigned char *mine = block(BYTES), *other = block(BYTES);
    memset(mine, 9, BYTES);
    int failed = madvise(mine, BYTES / 2, MADV_DONTNEED);
    check(!failed && all(mine, 0, BYTES / 2) && mine[BYTES / 2] == 9, "MADV_DONTNEED", "does not drop the bytes", BYTES / 2);
    MPI_Sendrecv(mine, BYTES, MPI_BYTE, 1 - rank, 0, other, BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(all(other, 0, BYTES / 2) && other[BYTES / 2] == 9, "MADV_DONTNEED", "the peer reads other bytes", BYTES);
    check(madvise(mine, BYTES, MADV_FREE) == 0, "MADV_FREE", "failed", BYTES);
    check(madvise(mine, BYTES, MADV_WIPEONFORK) == 0, "MADV_WIPEONFORK", "failed", BYTES);
    exchange(other, "a block beside dropped ones");
    memset(mine, 5, BYTES);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(!all(mine, 0, BYTES));
    int status = 1;
    waitpid(child, &status, 0);
    check(status == 0 && all(mine, 5, BYTES), "MADV_WIPEONFORK", "does not wipe the child's", BYTES);
    free(mine);
    free(other);
}

int main(int argc, char **argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    mappings();
    if (!WINDOWS_STAY)
        in_a_window();
    advice();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts(wrong ? "wrong" : "right");
    MPI_Finalize();
    return wrong != 0;
}
