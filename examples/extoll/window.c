/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One-sided MPI on librma2, by the mapping of seed 002, section 8.6: windows are regions; put and get are puts and gets; fence is an
 * exchange of immediate puts; lock and unlock, and post, start, complete and wait, are lock requests with the operands of tables 7-3 to
 * 7-6. Each process checks the received values.
 *
 *     velorun -p 4 window
 *
 * Tables 7-5 and 7-6 need a variable for each pair of origin and target, and both sides must call in order: the comparison is "at most",
 * so it stops a call that is too early within a round, but not one of the next round. Here the lock number is the origin's rank, and a
 * fence separates the rounds.
 */
#include <rma2.h>
#include <velorun.h>

#include <limits.h>
#include <stdlib.h>

enum { RANKS_MAX = 64, WORDS = 512, PAGE = 4096, WINDOW_LOCK = 1000 };

struct window {
    uint64_t *memory;                    /* WORDS words, then one flag for each rank, then a word to read into */
    RMA2_Region *region;
    RMA2_NLA of_rank[RANKS_MAX];
    uint64_t fences;
};

static RMA2_Port port;
static RMA2_Handle to[RANKS_MAX];
static int me, size;

static void check(int ok, const char *what)
{
    if (!ok) velorun_abort(1, what);
}

static void await(RMA2_Notification_Spec unit, RMA2_Notification *copy)
{
    RMA2_Notification *found;
    check(rma2_noti_match_block(port, RMA2_ANY, RMA2_NODEID_ANY, RMA2_VPID_ANY, unit, RMA2_ANY_NLA, 0, &found) == RMA2_SUCCESS, "no notification");
    check(rma2_noti_get_error(found) == 0, "a command was refused");
    rma2_noti_dup(found, copy);
    rma2_noti_free(port, found);
}

/* ---- window, put, get, fence ---- */

static void window_create(struct window *w)
{
    size_t bytes = (WORDS + RANKS_MAX + 8) * sizeof(uint64_t);
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    w->memory = aligned_alloc(PAGE, bytes);
    memset(w->memory, 0, bytes);
    w->fences = 0;
    check(rma2_register(port, w->memory, bytes, &w->region) == RMA2_SUCCESS, "rma2_register");
    RMA2_NLA nla;
    check(rma2_get_nla(w->region, 0, &nla) == RMA2_SUCCESS, "rma2_get_nla");
    check(velorun_exchange(&nla, sizeof nla, w->of_rank) == 0, "velorun_exchange");
}

static void put(struct window *w, unsigned from, unsigned words, int rank, unsigned at)
{
    check(rma2_post_put_qw(port, to[rank], w->region, from * 8, words * 8, w->of_rank[rank] + at * 8, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT) ==
              RMA2_SUCCESS,
          "rma2_post_put_qw");
}

static void get(struct window *w, unsigned into, unsigned words, int rank, unsigned at)
{
    RMA2_Notification got;
    check(rma2_post_get_qw(port, to[rank], w->region, into * 8, words * 8, w->of_rank[rank] + at * 8, RMA2_COMPLETER_NOTIFICATION,
                           RMA2_CMD_DEFAULT) == RMA2_SUCCESS,
          "rma2_post_get_qw");
    await(RMA2_COMPLETER_NOTIFICATION, &got);
}

/* Each process stores the number of the fence into its flag at every other process, behind its puts, and waits for all flags. */
static void fence(struct window *w)
{
    w->fences++;
    for (int rank = 0; rank < size; rank++)
        check(rma2_post_immediate_put(port, to[rank], 8, w->fences, w->of_rank[rank] + (WORDS + (unsigned)me) * 8, RMA2_NO_NOTIFICATION,
                                      RMA2_CMD_DEFAULT) == RMA2_SUCCESS,
              "rma2_post_immediate_put");
    for (int rank = 0; rank < size; rank++) {
        volatile uint64_t *flag = &w->memory[WORDS + rank];
        RMA2_Notification *none;
        while (*flag < w->fences)
            if (rma2_noti_probe(port, &none) == RMA2_SUCCESS) velorun_abort(1, "a command was refused");
    }
}

/* ---- locks ---- */

static int fcaa(int rank, uint32_t lock, int32_t compare, int32_t add)
{
    RMA2_Notification got;
    check(rma2_post_lock(port, to[rank], 1, lock, compare, add, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT) == RMA2_SUCCESS, "rma2_post_lock");
    await(RMA2_COMPLETER_NOTIFICATION, &got);
    return rma2_noti_get_lock_result(&got);
}

static void lock_exclusive(int rank)
{
    while (!fcaa(rank, WINDOW_LOCK, 0, size + 1)) {}
}
static void unlock_exclusive(int rank) { fcaa(rank, WINDOW_LOCK, INT_MAX, -(size + 1)); }
static void lock_shared(int rank)
{
    while (!fcaa(rank, WINDOW_LOCK, size, 1)) {}
}
static void unlock_shared(int rank) { fcaa(rank, WINDOW_LOCK, INT_MAX, -1); }

static void post(int origin)
{
    while (!fcaa(me, (uint32_t)origin, 3, -1)) {}
}
static void start(int target)
{
    while (!fcaa(target, (uint32_t)me, 2, -1)) {}
}
static void complete(int target)
{
    while (!fcaa(target, (uint32_t)me, 1, -1)) {}
}
static void wait_for(int origin)
{
    while (!fcaa(me, (uint32_t)origin, 0, 3)) {}
}

int main(void)
{
    struct window w;
    uint16_t mine, vpids[RANKS_MAX];
    check(velorun_init() == 0, "velorun_init");
    me = velorun_rank(), size = velorun_size();
    check(size <= RANKS_MAX, "too many processes");
    check(rma2_open(&port) == RMA2_SUCCESS, "rma2_open");
    mine = rma2_get_vpid(port);
    check(velorun_exchange(&mine, sizeof mine, vpids) == 0, "velorun_exchange");
    for (int rank = 0; rank < size; rank++)
        check(rma2_connect(port, (RMA2_Nodeid)rank, vpids[rank], RMA2_CONN_DEFAULT, &to[rank]) == RMA2_SUCCESS, "rma2_connect");
    window_create(&w);
    for (int origin = 0; origin < size; origin++) fcaa(me, (uint32_t)origin, 0, 3); /* all pairs are idle */
    fence(&w);

    /* Fence: every process puts its rank to all, and reads its neighbour's. */
    for (uint64_t round = 1; round <= 20; round++) {
        w.memory[200] = round << 32 | (unsigned)me;
        for (int rank = 0; rank < size; rank++) put(&w, 200, 1, rank, (unsigned)me);
        fence(&w);
        for (int rank = 0; rank < size; rank++) check(w.memory[rank] == (round << 32 | (unsigned)rank), "a put is missing after a fence");
        get(&w, 210, (unsigned)size, (me + 1) % size, 0);
        for (int rank = 0; rank < size; rank++) check(w.memory[210 + rank] == (round << 32 | (unsigned)rank), "a get returned wrong values");
        fence(&w);
    }
    if (me == 0) printf("fence: %d processes, 20 rounds\n", size);

    /* Exclusive locks: increments of a word of process 0. Shared locks: reads of two words that are always equal. */
    for (int round = 0; round < 50; round++) {
        lock_exclusive(0);
        get(&w, 300, 2, 0, 400);
        check(w.memory[300] == w.memory[301], "another process is inside the exclusive lock");
        w.memory[300]++, w.memory[301]++;
        put(&w, 300, 1, 0, 400);
        put(&w, 301, 1, 0, 401);
        get(&w, 302, 2, 0, 400); /* answered after the puts */
        unlock_exclusive(0);
        lock_shared(0);
        get(&w, 300, 2, 0, 400);
        check(w.memory[300] == w.memory[301], "exclusive and shared lock held at the same time");
        unlock_shared(0);
    }
    fence(&w);
    if (me == 0) {
        check(w.memory[400] == (uint64_t)(50 * size), "an increment is lost");
        printf("lock and unlock: %llu increments\n", (unsigned long long)w.memory[400]);
    }

    /* Post, start, complete, wait: each process exposes its window to its neighbour, which fills it. */
    int origin = (me + size - 1) % size, target = (me + 1) % size;
    for (uint64_t round = 1; round <= 20; round++) {
        if (size == 1) break;
        post(origin);
        start(target);
        for (unsigned i = 0; i < 64; i++) w.memory[100 + i] = round * 1000 + i;
        put(&w, 100, 64, target, 440);
        complete(target);
        wait_for(origin);
        for (unsigned i = 0; i < 64; i++) check(w.memory[440 + i] == round * 1000 + i, "the window is not filled after wait");
        fence(&w);
    }
    if (me == 0) printf("post, start, complete, wait: 20 rounds\n");

    fence(&w);
    check(velorun_barrier() == 0, "velorun_barrier");
    rma2_unregister(port, w.region);
    rma2_close(port);
    free(w.memory);
    velorun_finalize();
    return 0;
}
