/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Many processes at once, more than there are cores, and a fork in the middle. fi_tagged(3), fi_cq(3). */
#include "transfers.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- All to all -------------------------------------------------------------------------------------------------- */

static size_t random_size(uint64_t *state)
{
    uint64_t kind = random_next(state) % 20;
    if (kind < 8) return random_next(state) % 64;
    if (kind < 14) return random_next(state) % 1000;
    if (kind < 18) return random_next(state) % 20000;
    return random_next(state) % 200000;
}

/* Size of message n of `from` to `target`, which both compute. */
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
    size_t windows = 4; /* receives that are posted ahead for each sender */
    unsigned char **in = calloc((size_t)n * windows, sizeof *in), **out = calloc((size_t)n, sizeof *out);
    for (size_t i = 0; i < (size_t)n * windows; i++) in[i] = buffer(200000);
    int *received = calloc((size_t)n, sizeof *received), *posted = calloc((size_t)n, sizeof *posted),
        *sent = calloc((size_t)n, sizeof *sent);
    bool *out_busy = calloc((size_t)n, sizeof *out_busy);
    for (int r = 0; r < n; r++) out[r] = buffer(200000);
    int left = 2 * n * each;
    long long until = now_ms() + 2 * WAIT_MS;
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
            CHECK_OP(r, <, (size_t)n);
            CHECK(out_busy[r]);
            out_busy[r] = false;
            left--;
        }
        while (TAKE(side, side->rx, &c)) {
            size_t r = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
            CHECK_OP(r, <, (size_t)n);
            about("message %d from %d", (int)c.tag, (int)r);
            CHECK_EQ(c.source, to((int)r));
            CHECK_EQ(c.len, size_of((int)r, rank(), (int)c.tag));
            CHECK_PATTERN(in[r * windows + c.tag % windows], c.len, seed_of((int)r, rank(), (int)c.tag));
            /* short messages may complete before earlier long ones; a slot is free when all earlier messages are complete */
            static uint64_t done[RANKS_MAX][64];
            done[r][c.tag / 64] |= 1ull << c.tag % 64;
            while (received[r] < each && done[r][received[r] / 64] >> received[r] % 64 & 1) received[r]++;
            left--;
        }
    }
}

CASE(all_to_all_of_eight, 8,
     "fi_tagged: eight processes send 60 messages of random sizes to each other and to themselves: all arrive whole, "
     "with the right source")
{
    all_to_all(60);
}

CASE(sixteen_on_few_cores, 16, "fi_tagged: sixteen processes, more than there are cores, make progress")
{
    all_to_all(12);
}

/* A process that waits in fi_cq_sread leaves its core to the others. */
CASE(a_ring_that_sleeps, 8, "fi_cq_sread: a token goes 40 times around eight processes that sleep in blocking reads")
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

/* ---- Fork -------------------------------------------------------------------------------------------------------- */

CASE(a_fork_that_does_nothing, 2,
     "contract: a process forks in the middle and its child ends, or runs another program: the parent continues")
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
        if (i % 3 == 2) pass_around(side, 1 - rank(), (uint64_t)i + 100); /* the child may still live */
        CHECK_OP(waitpid(child, &status, 0), ==, child);
        CHECK_EQ(status, 0);
        POST(fi_write(side->ep, memory, 50000, NULL, to(1 - rank()), all[1 - rank()].base + 50000, all[1 - rank()].key,
                      CONTEXT(3)));
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

CASE(a_fork_before_the_first_call, 1,
     "fi_getinfo: processes that are forked before anything is opened each use the provider")
{
    pid_t child = fork();
    if (child == 0) child_run(talk_to_yourself);
    talk_to_yourself();
    int status = 1;
    CHECK_OP(waitpid(child, &status, 0), ==, child);
    CHECK_EQ(status, 0);
}

CASE(a_child_opens_its_own, 1,
     "contract: a child forked while its parent has endpoints open opens its own, or is refused; the parent continues",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    char in[8];
    pid_t child = fork();
    if (child == 0) {
        struct fi_info *info = info_for((struct wants){.caps = FI_TAGGED});
        struct fid_fabric *fabric = NULL;
        struct fid_domain *domain = NULL;
        if (info == NULL) _exit(0); /* refused */
        if (fi_fabric(info->fabric_attr, &fabric, NULL) != 0 || fi_domain(fabric, info, &domain, NULL) != 0)
            _exit(0); /* refused */
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
    CHECK_OP(waitpid(child, &status, 0), ==, child);
    CHECK_EQ(status, 0);
    for (int i = 0; i < 100; i++) {
        POST(fi_trecv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        POST(fi_tinject(p.a->ep, "x", 1, p.to_b, 1));
        WAIT_RX(p.b);
    }
}

CASE(opened_again, 2,
     "contract: a process that closes all its objects and opens them again, 80 times, stays reachable for a peer that "
     "knew it before")
{
    struct side *side = rank() == 0 ? side_open((struct wants){.caps = FI_TAGGED | FI_SOURCE}) : NULL;
    char out[20000], in[20000];
    for (unsigned round = 0; round < 80; round++) {
        about("round %u", round);
        if (rank() == 1) side = side_open((struct wants){.caps = FI_TAGGED | FI_SOURCE});
        unsigned char all[2][ADDRESS_BYTES_MAX];
        exchange(side->address, sizeof side->address, all);
        fi_addr_t peer = address_insert(side, all[1 - rank()]);
        for (size_t bytes = 0; bytes <= sizeof in; bytes = bytes * 9 + 8) {
            unsigned seed = round + (unsigned)bytes;
            pattern_fill(out, bytes, seed + (unsigned)rank());
            POST(fi_trecv(side->ep, in, bytes, NULL, FI_ADDR_UNSPEC, round, 0, NULL));
            POST(fi_tsend(side->ep, out, bytes, NULL, peer, round, NULL));
            CHECK_EQ(WAIT_RX(side).len, bytes);
            CHECK_PATTERN(in, bytes, seed + (unsigned)(1 - rank()));
            WAIT_TX(side);
        }
        barrier();
        if (rank() == 1) side_close(side);
    }
}

CASE(ended_without_closing, 3, "contract: a process that exits without closing leaves its peers undisturbed",
     .needs = OUR_PROVIDER)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    char in[8];
    POST(fi_trecv(side->ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    if (rank() == 2) {
        pid_t child = fork(); /* the child closes nothing either */
        if (child == 0) exit(0);
        int status;
        waitpid(child, &status, 0);
    }
    barrier();
    if (rank() == 2) die_now(false);
    POST(fi_tinject(side->ep, "x", 1, to(1 - rank()), 5));
    WAIT_RX(side);
}
