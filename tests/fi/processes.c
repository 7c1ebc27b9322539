/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Many processes at once, processes that die, threads on one endpoint, a fork in the middle. fi_domain(3) on threading,
 * fi_endpoint(3), fi_errno(3).
 */
#include "transfers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- All to all -------------------------------------------------------------------------------------------------------------- */

static size_t random_size(uint64_t *state)
{
    uint64_t kind = random_next(state) % 20;
    if (kind < 8) return random_next(state) % 64;
    if (kind < 14) return random_next(state) % 1000;
    if (kind < 18) return random_next(state) % 20000;
    return random_next(state) % 200000;
}

/* Message n of `from` to `target` has a size and a pattern that both know. */
static size_t size_of(int from, int target, int n)
{
    uint64_t state = (uint64_t)(from * 1009 + target * 31 + n * 7919 + 1);
    random_next(&state);
    return random_size(&state);
}

static unsigned seed_of(int from, int target, int n) { return (unsigned)(from * 10000 + target * 1000 + n); }

static void all_to_all(int each)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV});
    int n = ranks();
    size_t windows = 4; /* receives posted ahead of each sender */
    unsigned char **in = calloc((size_t)n * windows, sizeof *in), **out = calloc((size_t)n, sizeof *out);
    for (size_t i = 0; i < (size_t)n * windows; i++) in[i] = buffer(200000);
    int *received = calloc((size_t)n, sizeof *received), *posted = calloc((size_t)n, sizeof *posted), *sent = calloc((size_t)n, sizeof *sent);
    bool *out_busy = calloc((size_t)n, sizeof *out_busy);
    for (int r = 0; r < n; r++) out[r] = buffer(200000);
    int left = 2 * n * each;
    long long until = now_ms() + 25000;
    while (left > 0) {
        if (now_ms() > until) FAIL("%d operations are never done", left);
        for (int r = 0; r < n; r++) {
            while (posted[r] < each && posted[r] < received[r] + (int)windows) {
                size_t slot = (size_t)r * windows + (size_t)posted[r] % windows;
                ssize_t rc = fi_trecv(side->ep, in[slot], 200000, NULL, to(r), (uint64_t)posted[r], 0, CONTEXT(r));
                if (rc == -FI_EAGAIN) break;
                OK(rc);
                posted[r]++;
            }
            if (sent[r] < each && !out_busy[r]) {
                size_t bytes = size_of(rank(), r, sent[r]);
                pattern_fill(out[r], bytes, seed_of(rank(), r, sent[r]));
                ssize_t rc = fi_tsend(side->ep, out[r], bytes, NULL, to(r), (uint64_t)sent[r], CONTEXT(r));
                if (rc == -FI_EAGAIN) continue;
                OK(rc);
                out_busy[r] = true;
                sent[r]++;
            }
        }
        struct completion c;
        while (TAKE(side, side->tx, &c)) {
            size_t r = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
            CHECK(r < (size_t)n && out_busy[r]);
            out_busy[r] = false;
            left--;
        }
        while (TAKE(side, side->rx, &c)) {
            size_t r = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
            CHECK(r < (size_t)n);
            about("message %d from %d", (int)c.tag, (int)r);
            CHECK_EQ(c.source, to((int)r));
            CHECK_EQ(c.len, size_of((int)r, rank(), (int)c.tag));
            CHECK_PATTERN(in[r * windows + c.tag % windows], c.len, seed_of((int)r, rank(), (int)c.tag));
            /* small ones may complete before large ones that were sent before; a slot is free when all before it are */
            static uint64_t done[RANKS_MAX][64];
            done[r][c.tag / 64] |= 1ull << c.tag % 64;
            while (received[r] < each && done[r][received[r] / 64] >> received[r] % 64 & 1) received[r]++;
            left--;
        }
    }
}

CASE(all_to_all_of_eight, 8, "fi_tagged: eight processes send 60 messages of random sizes to each other and to themselves: all arrive whole, from whom they say", .stock = "shm: a process sends no long message to itself")
{
    all_to_all(60);
}

CASE(sixteen_on_few_cores, 16, "fi_tagged: sixteen processes, more than there are cores, get on", .stock = "sockets: too slow | shm: a process sends no long message to itself")
{
    all_to_all(12);
}

/* Who waits in fi_cq_sread takes no core from the others. */
CASE(a_ring_that_sleeps, 8, "fi_cq_sread: a token goes 40 times around eight processes that sleep in blocking reads", .stock = "shm: its blocking reads spin")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .wait_obj = FI_WAIT_UNSPEC});
    int next = (rank() + 1) % ranks();
    uint64_t token = 0;
    struct fi_cq_tagged_entry entry;
    for (uint64_t round = 0; round < 40; round++) {
        if (rank() == 0 && round == 0) POST(fi_tinject(side->ep, &token, 8, to(next), 0));
        POST(fi_trecv(side->ep, &token, 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
        CHECK_RC(fi_cq_sread(side->rx, &entry, 1, NULL, WAIT_MS), 1);
        CHECK_EQ(token, round * 8 + (uint64_t)(rank() == 0 ? 7 : rank() - 1));
        token++;
        if (rank() == 0 && round == 39) break;
        if (rank() != 0 || round < 39) POST(fi_tinject(side->ep, &token, 8, to(next), 0));
    }
}

/* ---- Deaths ------------------------------------------------------------------------------------------------------------------- */

/* Sends of `bytes` to the dead until one is an error: by the call, or as a completion. */
static int error_of_sends(struct side *side, int dead, size_t bytes)
{
    char *out = buffer(bytes);
    long long until = now_ms() + WAIT_MS;
    int posted = 0, done = 0;
    while (now_ms() < until) {
        if (posted - done < 64) {
            ssize_t rc = fi_tsend(side->ep, out, bytes, NULL, to(dead), 1, CONTEXT(1));
            if (rc == 0) posted++;
            if (rc != 0 && rc != -FI_EAGAIN) return (int)-rc;
        }
        struct fi_cq_tagged_entry entry;
        ssize_t rc = fi_cq_read(side->tx, &entry, 1);
        if (rc == 1) done++;
        if (rc == -FI_EAVAIL) {
            struct fi_cq_err_entry e = {0};
            CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
            return e.err;
        }
        progress();
    }
    FAIL("%d sends of %zu bytes to a process that is dead: %d done, no error within %d ms", posted, bytes, done, WAIT_MS);
}

static void check_death_error(int error)
{
    if (is_ours() && error != FI_EHOSTDOWN && error != FI_EHOSTUNREACH) FAIL("the error is %d (%s), wanted FI_EHOSTDOWN or FI_EHOSTUNREACH", error, fi_strerror(error));
    CHECK(error > 0);
}

static void pass_around(struct side *side, int peer, uint64_t tag)
{
    char in[64], out[64] = "still here";
    POST(fi_trecv(side->ep, in, 64, NULL, FI_ADDR_UNSPEC, tag, 0, CONTEXT(9)));
    POST(fi_tsend(side->ep, out, 64, NULL, to(peer), tag, CONTEXT(9)));
    CHECK_PTR(WAIT_RX(side).context, CONTEXT(9));
    CHECK_EQ(strcmp(in, "still here"), 0);
    long long until = now_ms() + WAIT_MS;
    struct fi_cq_tagged_entry entry;
    for (;;) { /* completions of what went to the dead may stand before ours */
        ssize_t rc = fi_cq_read(side->tx, &entry, 1);
        struct fi_cq_err_entry e = {0};
        if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
        if (rc == 1 && entry.op_context == CONTEXT(9)) break;
        if (now_ms() > until) FAIL("no completion of the send");
        progress();
    }
}

static void sends_to_the_dead(size_t bytes)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    if (rank() == 2) die_now(false);
    if (rank() == 0) check_death_error(error_of_sends(side, 2, bytes));
    barrier();
    pass_around(side, 1 - rank(), 77);
}

CASE(small_sends_to_the_dead, 3, "contract: sends of 8 bytes to a process that was killed end in error, and its peers go on with each other", .stock = "shm: says -FI_EAGAIN for ever | sockets: completes them | tcp;ofi_rxm: says -FI_EAGAIN for ever")
{
    sends_to_the_dead(8);
}

CASE(large_sends_to_the_dead, 3, "contract: sends of 1 MiB to a process that was killed end in error, and its peers go on with each other", .stock = "shm: says -FI_EAGAIN for ever | sockets: completes them | tcp;ofi_rxm: says -FI_EAGAIN for ever")
{
    sends_to_the_dead(1 << 20);
}

CASE(rma_to_the_dead, 3, "contract: writes, reads and atomics to a process that was killed end in error", .stock = "shm: writes to what is left | sockets: never tells | tcp;ofi_rxm: says -FI_EAGAIN for ever")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_RMA | FI_ATOMIC});
    char *memory = buffer(100000);
    struct region r = region_over(side, memory, 100000, ACCESS_ALL), all[3];
    exchange(&r, sizeof r, all);
    if (rank() == 2) die_now(false);
    volatile int *gone = shared();
    if (rank() == 0) {
        uint64_t one = 1, old;
        for (int op = 0; op < 4; op++) {
            long long until = now_ms() + WAIT_MS;
            int error = 0;
            while (error == 0) {
                about("operation %d", op);
                if (now_ms() > until) FAIL("no error within %d ms", WAIT_MS);
                ssize_t rc = op == 0   ? fi_write(side->ep, memory, 8, NULL, to(2), all[2].base, all[2].key, NULL)
                             : op == 1 ? fi_read(side->ep, memory, 100000, NULL, to(2), all[2].base, all[2].key, NULL)
                             : op == 2 ? fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, to(2), all[2].base, all[2].key, FI_UINT64, FI_SUM, NULL)
                                       : fi_inject_write(side->ep, memory, 8, to(2), all[2].base, all[2].key);
                if (rc == -FI_EAGAIN) continue;
                if (rc != 0) {
                    error = (int)-rc;
                    continue;
                }
                struct fi_cq_tagged_entry entry;
                struct fi_cq_err_entry e = {0};
                while ((rc = fi_cq_read(side->tx, &entry, 1)) == -FI_EAGAIN && op != 3 && now_ms() < until) progress();
                if (rc == -FI_EAVAIL) {
                    CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
                    error = e.err;
                }
            }
            check_death_error(error);
        }
        *gone = 1;
    }
    barrier();
    pass_around(side, 1 - rank(), 77);
}

CASE(killed_in_the_middle_of_a_stream, 4, "contract: a process is killed while three stream to it and it to them: the others see errors or go on, and no message between them is lost or torn", .stock = "shm: a lock of the dead stays taken | sockets: never tells | tcp;ofi_rxm: says -FI_EAGAIN for ever")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_DIRECTED_RECV});
    enum { BYTES = 30000 };
    volatile int *killed = shared();
    char *out = buffer(BYTES), *in = buffer(BYTES);
    long long until = now_ms() + 400;
    int sent = 0;
    memset(out, rank() + 1, BYTES);
    static const size_t LENGTHS[] = {8, 300, 5000, 30000};
    if (rank() == 3) {
        for (;;) { /* until it is killed */
            fi_tsend(side->ep, out, LENGTHS[sent % 4], NULL, to(sent % 3), 3, NULL);
            sent++;
            fi_trecv(side->ep, in, BYTES, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL);
            struct fi_cq_tagged_entry entry;
            while (fi_cq_read(side->tx, &entry, 1) == 1) continue;
            while (fi_cq_read(side->rx, &entry, 1) == 1) continue;
        }
    }
    while (now_ms() < until) {
        if (rank() == 0 && !*killed && now_ms() > until - 250) {
            *killed = 1;
            kill_rank(3, false);
        }
        fi_tsend(side->ep, out, LENGTHS[sent++ % 4], NULL, to(3), 1, CONTEXT(1));
        fi_trecv(side->ep, in, BYTES, NULL, to(3), 3, 0, CONTEXT(2));
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry e = {0};
        ssize_t rc;
        while ((rc = fi_cq_read(side->tx, &entry, 1)) == 1 || rc == -FI_EAVAIL)
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->tx, &e, 0);
        while ((rc = fi_cq_read(side->rx, &entry, 1)) == 1 || rc == -FI_EAVAIL) {
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->rx, &e, 0);
            if (rc == 1 && entry.len > 0) CHECK(in[0] == 4);
        }
        sched_yield();
    }
    barrier();
    for (uint64_t i = 0; i < 20; i++) {
        int next = (rank() + 1) % 3, previous = (rank() + 2) % 3;
        char *mine = buffer(BYTES), *theirs = buffer(BYTES);
        memset(mine, rank() + 1, BYTES);
        POST(fi_trecv(side->ep, theirs, BYTES, NULL, to(previous), 1000 + i, 0, CONTEXT(50 + i)));
        POST(fi_tsend(side->ep, mine, LENGTHS[i % 4], NULL, to(next), 1000 + i, CONTEXT(90)));
        bool got = false, gone = false;
        long long limit = now_ms() + WAIT_MS;
        while (!got || !gone) {
            about("after the death, message %d", (int)i);
            if (now_ms() > limit) FAIL("received %d, sent %d", got, gone);
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry e = {0};
            ssize_t rc = fi_cq_read(side->rx, &entry, 1);
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->rx, &e, 0);
            if (rc == 1 && entry.op_context == CONTEXT(50 + i)) got = true;
            rc = fi_cq_read(side->tx, &entry, 1);
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->tx, &e, 0);
            if (rc == 1 && entry.op_context == CONTEXT(90)) gone = true;
        }
        CHECK_BYTES(theirs, LENGTHS[i % 4], previous + 1);
    }
}

CASE(another_takes_the_place, 3, "contract: a process is killed, another starts in its place with a new address: those who stay talk to it, whatever is left of the first", .stock = "shm: a lock of the dead stays taken | tcp;ofi_rxm: closes slowly")
{
    struct side *side = side_open((struct wants){.caps = FI_TAGGED | FI_RMA});
    struct { unsigned char address[ADDRESS_BYTES_MAX]; struct region region; } mine = {.address = {0}}, all[3];
    char *memory = buffer(64), in[64];
    for (int round = life(); round < 2; round++) {
        memset(memory, 'A' + round, 64);
        mine.region = region_over(side, memory, 64, ACCESS_ALL);
        memcpy(mine.address, side->address, sizeof mine.address);
        exchange(&mine, sizeof mine, all);
        fi_addr_t peers[3];
        for (int r = 0; r < 3; r++) {
            if (round == 0 || r == 2) peers[r] = address_insert(side, all[r].address);
            else if (rank() == 2) peers[r] = address_insert(side, all[r].address);
            else peers[r] = FI_ADDR_NOTAVAIL;
        }
        if (rank() != 2) {
            about("round %d, to the one in place", round);
            POST(fi_tsend(side->ep, "hello", 6, NULL, peers[2], (uint64_t)rank(), NULL));
            WAIT_TX(side);
            POST(fi_read(side->ep, in, 64, NULL, peers[2], all[2].region.base, all[2].region.key, NULL));
            WAIT_TX(side);
            CHECK_BYTES(in, 64, 'A' + round);
        } else {
            for (int r = 0; r < 2; r++) {
                POST(fi_trecv(side->ep, in, 64, NULL, FI_ADDR_UNSPEC, (uint64_t)r, 0, NULL));
                CHECK_EQ(WAIT_RX(side).len, 6);
                POST(fi_tinject(side->ep, "yes", 4, peers[r], 9));
            }
        }
        if (rank() != 2) {
            POST(fi_trecv(side->ep, in, 64, NULL, FI_ADDR_UNSPEC, 9, 0, NULL));
            CHECK_EQ(WAIT_RX(side).len, 4);
        }
        barrier();
        region_close(&mine.region);
        if (rank() == 2 && life() == 0) die_now(true);
    }
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------------- */

enum { THREADED = 3000 };

struct worker {
    struct side *side;
    fi_addr_t peer;
    int number, failed;
    int received[2];
};

/* Sends its own numbers with its own tag, and receives those of the other side's thread with the same tag. */
static void *works(void *argument)
{
    struct worker *w = argument;
    static _Thread_local int in, out;
    for (int i = 0; i < THREADED && !w->failed; i++) {
        out = w->number * THREADED + i;
        while (fi_tinject(w->side->ep, &out, 4, w->peer, (uint64_t)w->number) == -FI_EAGAIN) fi_cq_read(w->side->tx, NULL, 0);
        while (fi_trecv(w->side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, (uint64_t)w->number, 0, w) == -FI_EAGAIN) continue;
        int *counted = &w->received[1];
        int before = __atomic_load_n(counted, __ATOMIC_SEQ_CST);
        long long until = now_ms() + WAIT_MS;
        (void)before;
        while (__atomic_load_n(counted, __ATOMIC_SEQ_CST) <= i) {
            struct fi_cq_tagged_entry entry;
            if (fi_cq_read(w->side->rx, &entry, 1) == 1) {
                /* it may be the other thread's */
                struct worker *of = entry.op_context;
                __atomic_add_fetch(&of->received[1], 1, __ATOMIC_SEQ_CST);
            }
            if (now_ms() > until) {
                w->failed = 1;
                return NULL;
            }
        }
        if (in != w->number * THREADED + i) w->failed = 2;
    }
    return NULL;
}

CASE(two_threads_on_an_endpoint, 2, "FI_THREAD_SAFE: two threads send, receive and read one queue of one endpoint at once; each gets what is its own, in order")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .threading = FI_THREAD_SAFE});
    static struct worker workers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct worker){.side = side, .peer = to(1 - rank()), .number = i};
        pthread_create(&threads[i], NULL, works, &workers[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        about("thread %d", i);
        if (workers[i].failed == 1) FAIL("a message never came (%d of %d)", workers[i].received[1], THREADED);
        if (workers[i].failed == 2) FAIL("a message of another, or out of order");
    }
}

static void *opens_and_closes(void *argument)
{
    struct side *side = argument;
    for (int i = 0; i < 200; i++) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
        struct fid_cq *cq = NULL;
        struct fid_mr *mr = NULL;
        static _Thread_local char memory[64];
        if (fi_cq_open(side->domain, &attr, &cq, NULL) != 0 || fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 0, (uint64_t)(uintptr_t)memory + (uint64_t)i, 0, &mr, NULL) != 0) return (void *)1;
        if (fi_close(&mr->fid) != 0 || fi_close(&cq->fid) != 0) return (void *)2;
        fi_addr_t inserted;
        if (fi_av_insert(side->av, side->address, 1, &inserted, 0, NULL) != 1) return (void *)3;
    }
    return NULL;
}

CASE(threads_open_and_close, 1, "fi_domain: control calls are thread safe: three threads open, register, insert and close while a fourth transfers", .stock = "sockets: not so")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_RMA, .threading = FI_THREAD_SAFE});
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, opens_and_closes, p.a);
    char in[8];
    for (int i = 0; i < 500; i++) {
        POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        POST(fi_inject(p.a->ep, "x", 1, p.to_b));
        WAIT_RX(p.b);
    }
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK_PTR(failed, NULL);
    }
}

static struct side *threaded_side;

static void *sends_in_background(void *unused)
{
    for (int i = 0; i < 1000; i++)
        while (fi_tinject(threaded_side->ep, &i, 4, to(1), 1) == -FI_EAGAIN) fi_cq_read(threaded_side->tx, NULL, 0);
    return unused;
}

CASE(one_sends_while_one_sleeps, 2, "FI_THREAD_SAFE: a thread that sleeps in fi_cq_sread does not keep another from sending and receiving on the same endpoint")
{
    threaded_side = job_open((struct wants){.caps = FI_TAGGED, .threading = FI_THREAD_SAFE, .wait_obj = FI_WAIT_UNSPEC});
    struct fi_cq_tagged_entry entry;
    if (rank() == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, sends_in_background, NULL);
        int in;
        POST(fi_trecv(threaded_side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 2, 0, NULL));
        CHECK_RC(fi_cq_sread(threaded_side->rx, &entry, 1, NULL, WAIT_MS), 1);
        pthread_join(thread, NULL);
        return;
    }
    for (int i = 0; i < 1000; i++) {
        int in = -1;
        POST(fi_trecv(threaded_side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        CHECK_RC(fi_cq_sread(threaded_side->rx, &entry, 1, NULL, WAIT_MS), 1);
        CHECK_EQ(in, i);
    }
    POST(fi_tinject(threaded_side->ep, "done", 4, to(0), 2));
}

/* ---- Fork ----------------------------------------------------------------------------------------------------------------------- */

CASE(a_fork_that_does_nothing, 2, "contract: a process forks in the middle and its child ends, or runs another program: the parent goes on", .stock = "sockets: its progress thread is lost")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_RMA});
    char *memory = buffer(100000);
    struct region r = region_over(side, memory, 100000, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    for (int i = 0; i < 6; i++) {
        about("round %d", i);
        pass_around(side, 1 - rank(), (uint64_t)i);
        pid_t child = fork();
        if (child == 0) {
            if (i % 2) execl("/bin/true", "true", NULL);
            _exit(0);
        }
        int status = 1;
        if (i % 3 == 2) pass_around(side, 1 - rank(), (uint64_t)i + 100); /* while it lives, perhaps */
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
        POST(fi_write(side->ep, memory, 50000, NULL, to(1 - rank()), all[1 - rank()].base + 50000, all[1 - rank()].key, CONTEXT(3)));
        CHECK_PTR(WAIT_TX(side).context, CONTEXT(3));
    }
}

static void talk_to_yourself(void)
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED | FI_RMA});
    char in[8];
    for (int i = 0; i < 20; i++) {
        POST(fi_trecv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        POST(fi_tinject(p.a->ep, "child", 5, p.to_b, 1));
        CHECK_EQ(WAIT_RX(p.b).len, 5);
    }
}

CASE(a_fork_before_the_first_call, 1, "fi_getinfo: processes that are forked before anything is opened each use the provider", .stock = "sockets: its progress thread is lost")
{
    pid_t child = fork();
    if (child == 0) child_run(talk_to_yourself);
    talk_to_yourself();
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
}

CASE(a_child_opens_its_own, 1, "contract: a child that is forked while its parent has endpoints open opens its own, or is refused; the parent goes on", .ours = true)
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    char in[8];
    pid_t child = fork();
    if (child == 0) {
        struct fi_info *info = info_for((struct wants){.caps = FI_TAGGED});
        struct fid_fabric *fabric = NULL;
        struct fid_domain *domain = NULL;
        if (info == NULL) _exit(0); /* refused */
        if (fi_fabric(info->fabric_attr, &fabric, NULL) != 0 || fi_domain(fabric, info, &domain, NULL) != 0) _exit(0); /* refused */
        fi_close(&domain->fid);
        fi_close(&fabric->fid);
        child_run(talk_to_yourself);
    }
    for (int i = 0; i < 100; i++) {
        POST(fi_trecv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        POST(fi_tinject(p.a->ep, "x", 1, p.to_b, 1));
        WAIT_RX(p.b);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    for (int i = 0; i < 100; i++) {
        POST(fi_trecv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        POST(fi_tinject(p.a->ep, "x", 1, p.to_b, 1));
        WAIT_RX(p.b);
    }
}

CASE(ended_without_closing, 3, "contract: a process that exits with all still open leaves its peers as they are", .ours = true)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    char in[8];
    POST(fi_trecv(side->ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    if (rank() == 2) {
        pid_t child = fork(); /* keeps nothing of it either */
        if (child == 0) exit(0);
        int status;
        waitpid(child, &status, 0);
    }
    barrier();
    if (rank() == 2) die_now(false);
    POST(fi_tinject(side->ep, "x", 1, to(1 - rank()), 5));
    WAIT_RX(side);
}
