/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * windows: one-sided operations that an MPI carries out in ways of its own, with MPI_THREAD_MULTIPLE.
 *
 *     words        atomics on single words of 4 and 8 bytes, of the own window too
 *     dynamic      the same in a dynamic window
 *     types        long puts and gets of structures, whose numbers have several lengths
 *
 *     windows [part]...      all parts, or those that are named
 */
#include <mpi.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, ROUNDS = 50, UNSET = 0xee };

static int rank, size, next, previous;
static long wrong;

static void expect(const char *what, const char *of, long found, long wanted)
{
    if (found == wanted) return;
    if (wrong++ < 10) fprintf(stderr, "rank %d: %s, %s: %ld, not %ld\n", rank, what, of, found, wanted);
}

/* Every rank swaps in the windows of all ranks: its number goes where no other's is. Then each draws tickets at rank 0. */
static void words_in(MPI_Win window, int64_t *words, MPI_Aint at, const char *kind)
{
    MPI_Aint *places = malloc(size * sizeof *places);
    if (!places) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allgather(&at, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
    memset(words, 0, WORDS * sizeof *words);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    int firsts[2] = {0, 0};
    for (int i = 0; i < size; i++) {
        int target = (rank + i) % size;
        /* MPI writes no more than the result. */
        int32_t new = rank + 1, none = 0, result[] = {-1, -2, -3};
        int64_t long_new = rank + 1, long_none = 0, long_result[] = {-1, -2, -3};
        MPI_Compare_and_swap(&new, &none, &result[1], MPI_INT32_T, target, places[target], window);
        MPI_Win_flush(target, window);
        expect(kind, "before a result of 4 bytes", result[0], -1);
        expect(kind, "behind a result of 4 bytes", result[2], -3);
        MPI_Compare_and_swap(&long_new, &long_none, &long_result[1], MPI_INT64_T, target, places[target] + 8, window);
        MPI_Win_flush(target, window);
        expect(kind, "around a result of 8 bytes", long_result[0] + long_result[2], -4);
        firsts[0] += result[1] == 0;
        firsts[1] += long_result[1] == 0;
    }
    int64_t one = 1, ticket, sum = 0, drawn = (int64_t)size * ROUNDS;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, places[0] + 16, MPI_SUM, window);
        MPI_Win_flush(0, window);
        sum += ticket;
    }
    /* Operations that networks seldom have. */
    int64_t mine = rank + 1, bit = INT64_C(1) << rank, late;
    MPI_Fetch_and_op(&mine, &late, MPI_INT64_T, next, places[next] + 24, MPI_MAX, window);
    MPI_Accumulate(&mine, 1, MPI_INT64_T, 0, places[0] + 32, 1, MPI_INT64_T, MPI_MAX, window);
    MPI_Accumulate(&bit, 1, MPI_INT64_T, 0, places[0] + 40, 1, MPI_INT64_T, MPI_BOR, window);
    MPI_Win_flush_all(window);
    expect(kind, "before a maximum of one rank", late, 0);
    MPI_Win_unlock_all(window);
    MPI_Allreduce(MPI_IN_PLACE, firsts, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(kind, "first swaps of 4 bytes", firsts[0], size);
    expect(kind, "first swaps of 8 bytes", firsts[1], size);
    expect(kind, "sum of the tickets", sum, drawn * (drawn - 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    int32_t halves[2];
    memcpy(halves, words, sizeof halves);
    expect(kind, "a swapped number of 4 bytes", halves[0] > 0 && halves[0] <= size, 1);
    expect(kind, "behind it", halves[1], 0);
    expect(kind, "a swapped number of 8 bytes", words[1] > 0 && words[1] <= size, 1);
    expect(kind, "a maximum of one rank", words[3], previous + 1);
    expect(kind, "a maximum of all ranks", words[4], rank ? 0 : size);
    expect(kind, "the union of bits", words[5], rank ? 0 : (INT64_C(1) << size) - 1);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    free(places);
}

static void words(void)
{
    static int64_t fixed[WORDS];
    int64_t *block = malloc(WORDS * sizeof *block), *made;
    MPI_Info same;
    MPI_Win window;
    if (!block) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(fixed, sizeof fixed, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    words_in(window, fixed, 0, "static data");
    MPI_Win_free(&window);
    MPI_Info_create(&same);
    MPI_Info_set(same, "accumulate_ordering", "none");
    MPI_Win_create(block, WORDS * sizeof *block, 1, same, MPI_COMM_WORLD, &window);
    words_in(window, block, 0, "a block of malloc");
    MPI_Win_free(&window);
    MPI_Info_free(&same);
    MPI_Win_allocate(WORDS * sizeof *made, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made, &window);
    words_in(window, made, 0, "an allocated window");
    MPI_Win_free(&window);
    free(block);
}

static void dynamic(void)
{
    int64_t *block = malloc(WORDS * sizeof *block);
    MPI_Win window;
    if (!block) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_attach(window, block, WORDS * sizeof *block);
    MPI_Aint at;
    MPI_Get_address(block, &at);
    words_in(window, block, at, "a dynamic window");
    MPI_Win_detach(window, block);
    MPI_Win_free(&window);
    free(block);
}

/* 89 bytes of data: no piece of 2^n bytes, or of 100 KiB, ends between numbers for long. */
struct structure { int32_t number; double values[10]; char letters[5]; };
enum { STRUCTURES = 2400, BYTES = 2 * STRUCTURES * sizeof(struct structure) };

static unsigned char *out, *here, *in, *wanted;

static void fill(unsigned char *bytes, int owner)
{
    uint32_t random = (uint32_t)owner * 2654435761u + 1;
    for (int i = 0; i < BYTES; i++) {
        random = random * 1664525 + 1013904223;
        bytes[i] = random >> 24;
    }
}

static void compare(const char *what, const char *of, const unsigned char *found)
{
    long differ = 0;
    for (int i = 0; i < BYTES; i++)
        differ += found[i] != wanted[i];
    expect(what, of, differ, 0);
}

/* The bytes that are wanted at a receiver, by a message to this rank itself. */
static void want(const unsigned char *from, int count, MPI_Datatype datatype, int to_count, MPI_Datatype to)
{
    memset(wanted, UNSET, BYTES);
    MPI_Sendrecv(from, count, datatype, 0, 0, wanted, to_count, to, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

/* Puts and gets between the two datatypes, which have the same numbers in the same order. */
static void move(const char *name, int count, MPI_Datatype datatype, int target_count, MPI_Datatype target)
{
    static unsigned char *from;
    MPI_Win window;
    MPI_Request request;
    if (!from && !(from = malloc(BYTES))) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(here, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    fill(out, rank);
    memset(here, UNSET, BYTES);
    MPI_Win_fence(0, window);
    MPI_Put(out, count, datatype, next, 0, target_count, target, window);
    MPI_Win_fence(0, window);
    fill(from, previous);
    want(from, count, datatype, target_count, target);
    compare("put", name, here);
    memset(here, UNSET, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    MPI_Rput(out, count, datatype, next, 0, target_count, target, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    compare("put with a request", name, here);
    MPI_Win_unlock_all(window);
    fill(here, rank);
    memset(in, UNSET, BYTES);
    MPI_Win_fence(0, window);
    MPI_Get(in, count, datatype, next, 0, target_count, target, window);
    MPI_Win_fence(0, window);
    fill(from, next);
    want(from, target_count, target, count, datatype);
    compare("get", name, in);
    memset(in, UNSET, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    MPI_Rget(in, count, datatype, next, 0, target_count, target, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    compare("get with a request", name, in);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
}

#ifdef MPICH
/* Pairs of a value and an index have numbers of two lengths, too. Open MPI 4.1 aborts where their number is this large. */
static void pairs(void)
{
    struct pair { double value; int32_t index; };
    enum { PAIRS = 20000 };
    struct pair *mine = calloc(PAIRS, sizeof *mine), *theirs = calloc(PAIRS, sizeof *mine), *old = calloc(PAIRS, sizeof *mine);
    MPI_Win window;
    if (!mine || !theirs || !old) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < PAIRS; i++) {
        theirs[i] = (struct pair){i, i};
        mine[i] = (struct pair){i + (i % 2 ? 1 : -1), -i};
    }
    MPI_Win_create(theirs, PAIRS * sizeof *theirs, sizeof *theirs, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Get_accumulate(mine, PAIRS, MPI_DOUBLE_INT, old, PAIRS, MPI_DOUBLE_INT, next, 0, PAIRS, MPI_DOUBLE_INT, MPI_MAXLOC, window);
    MPI_Win_fence(0, window);
    long differ = 0, differ_old = 0;
    for (int i = 0; i < PAIRS; i++) {
        differ_old += old[i].value != i || old[i].index != i;
        differ += theirs[i].value != i + i % 2 || theirs[i].index != (i % 2 ? -i : i);
    }
    expect("pairs", "old values", differ_old, 0);
    expect("pairs", "new values", differ, 0);
    MPI_Win_free(&window);
    free(mine);
    free(theirs);
    free(old);
}
#endif

static void types(void)
{
    static const int lengths[] = {1, 10, 5};
    const MPI_Aint at[] = {offsetof(struct structure, number), offsetof(struct structure, values), offsetof(struct structure, letters)};
    static const MPI_Aint packed_at[] = {0, 4, 84};
    const MPI_Datatype members[] = {MPI_INT32_T, MPI_DOUBLE, MPI_CHAR};
    MPI_Datatype bare, structure, packed, all, other;
    out = malloc(BYTES);
    here = malloc(BYTES);
    in = malloc(BYTES);
    wanted = malloc(BYTES);
    if (!out || !here || !in || !wanted) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Type_create_struct(3, lengths, at, members, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct structure), &structure);
    MPI_Type_commit(&structure);
    MPI_Type_create_struct(3, lengths, packed_at, members, &other);
    MPI_Type_create_resized(other, 0, 89, &packed);
    MPI_Type_commit(&packed);
    MPI_Type_free(&other);
    MPI_Type_contiguous(STRUCTURES, structure, &all);
    MPI_Type_commit(&all);
    move("structures", STRUCTURES, structure, STRUCTURES, structure);
    move("structures, by a type of all", 1, all, STRUCTURES, structure);
    move("structures to packed ones", STRUCTURES, structure, STRUCTURES, packed);
    move("packed structures to others", STRUCTURES, packed, 1, all);
    MPI_Type_free(&all);
    MPI_Type_contiguous(STRUCTURES, packed, &all);
    MPI_Type_commit(&all);
    move("packed structures, by a type of all", STRUCTURES, structure, 1, all);
    MPI_Type_free(&all);

    MPI_Datatype same;
    MPI_Type_dup(structure, &same);
    MPI_Type_vector(STRUCTURES / 4, 4, 7, same, &other);
    MPI_Type_commit(&other);
    MPI_Type_free(&same);
    move("a vector", 1, other, STRUCTURES, structure);
    MPI_Type_free(&other);
    MPI_Type_create_hvector(STRUCTURES / 4, 4, 5 * sizeof(struct structure) + 8, bare, &other);
    MPI_Type_commit(&other);
    move("a vector with a stride in bytes", STRUCTURES, structure, 1, other);
    MPI_Type_free(&other);

    enum { BLOCKS = STRUCTURES / 8 };
    static int block_lengths[BLOCKS], block_at[BLOCKS];
    static MPI_Aint block_bytes[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        block_lengths[i] = 8 + (i % 2 ? 1 : -1);
        block_at[i] = (BLOCKS - 1 - i) * 10;
        block_bytes[i] = (BLOCKS - 1 - i) * (9 * (MPI_Aint)sizeof(struct structure) + 16);
    }
    MPI_Type_indexed(BLOCKS, block_lengths, block_at, structure, &other);
    MPI_Type_commit(&other);
    move("blocks", 1, other, STRUCTURES, structure);
    MPI_Type_free(&other);
    MPI_Type_create_hindexed(BLOCKS, block_lengths, block_bytes, packed, &other);
    MPI_Type_commit(&other);
    move("blocks at addresses", STRUCTURES, structure, 1, other);
    MPI_Type_free(&other);
    MPI_Type_create_indexed_block(BLOCKS, 8, block_at, structure, &other);
    MPI_Type_commit(&other);
    move("blocks of one length", 1, other, 1, other);
    MPI_Type_free(&other);
    MPI_Type_create_hindexed_block(BLOCKS, 8, block_bytes, structure, &other);
    MPI_Type_commit(&other);
    move("blocks of one length at addresses", 1, other, STRUCTURES, packed);
    MPI_Type_free(&other);

    static const int sizes[] = {60, 70}, subsizes[] = {40, 60}, starts[] = {3, 7};
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, structure, &other);
    MPI_Type_commit(&other);
    move("part of an array", 1, other, STRUCTURES, structure);
    MPI_Type_free(&other);
    static const int all_sizes[] = {80, 60}, distributions[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    static const int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, processes[] = {2, 1};
    MPI_Type_create_darray(2, 1, 2, all_sizes, distributions, arguments, processes, MPI_ORDER_FORTRAN, structure, &other);
    MPI_Type_commit(&other);
    move("part of a distributed array", STRUCTURES, structure, 1, other);
    MPI_Type_free(&other);
#if MPI_VERSION >= 4
    static const MPI_Count few[] = {1, 2}, places[] = {0, 3 * sizeof(struct structure)};
    const MPI_Datatype two[] = {structure, packed};
    MPI_Datatype group;
    MPI_Type_create_struct_c(2, few, places, two, &group);
    MPI_Type_create_resized_c(group, 0, 6 * sizeof(struct structure), &same);
    MPI_Type_vector_c(STRUCTURES / 12, 2, 2, same, &other);
    MPI_Type_commit(&other);
    move("structures in structures, with large counts", 1, other, STRUCTURES / 2, structure);
    MPI_Type_free(&other);
    MPI_Type_free(&same);
    MPI_Type_free(&group);
#endif
    MPI_Type_free(&packed);
    MPI_Type_free(&structure);
    MPI_Type_free(&bare);
    free(out);
    free(here);
    free(in);
    free(wanted);
#ifdef MPICH
    pairs();
#endif
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } parts[] = {
        {"words", words}, {"dynamic", dynamic}, {"types", types},
    };
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    expect("MPI_THREAD_MULTIPLE", "provided", level, MPI_THREAD_MULTIPLE);
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        int wants = argc == 1;
        for (int word = 1; word < argc; word++)
            wants |= !strcmp(argv[word], parts[i].name);
        if (wants) parts[i].run();
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("windows: %s\n", wrong ? "wrong" : "right");
    MPI_Finalize();
    return wrong != 0;
}
