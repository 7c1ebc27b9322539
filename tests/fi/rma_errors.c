/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Refused reads, writes and atomics: keys, bounds, permissions, closed regions, unmapped memory. Each ends as an error
 * completion at its initiator, with its context. The target's memory does not change, and both endpoints still work.
 * fi_rma(3), fi_mr(3), fi_domain(3) on unmatched RMA.
 */
#include "suite.h"

#include <sys/mman.h>

#define WANTS (struct wants){.caps = FI_MSG | FI_RMA | FI_ATOMIC}
#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

enum { BYTES = 4096 };

struct setup {
    struct pair p;
    char *memory, *local; /* the target's, with room behind; the initiator's */
    struct region region;
    bool grants_anything; /* to peers: a region that grants nothing may have no key */
};

static struct setup setup_of(uint64_t access)
{
    struct setup s = {.p = pair_open(WANTS)};
    s.memory = buffer(3 * BYTES);
    s.local = buffer(3 * BYTES);
    memset(s.local, 0xdd, 3 * BYTES);
    s.region = region_over(s.p.b, s.memory + BYTES, BYTES, access);
    s.grants_anything = access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
    return s;
}

enum operation { WRITE, READ, ATOMIC, FETCH, COMPARE, WRITE_PIECES, OPERATIONS };

static const char *const OPERATION_NAMES[] = {"write",        "read",           "atomic",
                                              "fetch atomic", "compare atomic", "write of pieces"};

static void post(struct setup *s, enum operation op, size_t bytes, uint64_t at, uint64_t key)
{
    struct fid_ep *ep = s->p.a->ep;
    fi_addr_t peer = s->p.to_b;
    void *context = CONTEXT(op);
    static uint64_t one = 1, old[512], compare[512];
    size_t count = bytes / 8 ? bytes / 8 : 1;
    struct iovec iov = {s->local, bytes};
    struct fi_rma_iov rma[2] = {{s->region.base, 0, s->region.key}, {at, bytes, key}};
    struct fi_msg_rma msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = peer, .rma_iov = rma, .rma_iov_count = 2, .context = context};
    (void)one;
    switch (op) {
    case WRITE: POST(fi_write(ep, s->local, bytes, NULL, peer, at, key, context)); break;
    case READ: POST(fi_read(ep, s->local, bytes, NULL, peer, at, key, context)); break;
    case ATOMIC: POST(fi_atomic(ep, s->local, count, NULL, peer, at, key, FI_UINT64, FI_SUM, context)); break;
    case FETCH:
        POST(fi_fetch_atomic(ep, s->local, count, NULL, old, NULL, peer, at, key, FI_UINT64, FI_SUM, context));
        break;
    case COMPARE:
        POST(fi_compare_atomic(ep, s->local, count, NULL, compare, NULL, old, NULL, peer, at, key, FI_UINT64, FI_CSWAP,
                               context));
        break;
    case WRITE_PIECES: POST(fi_writemsg(ep, &msg, FI_COMPLETION)); break;
    case OPERATIONS: break;
    }
}

/* The provider promises `error`; the manual names no error, but it must be an error of this operation. */
static void check_refused(struct setup *s, enum operation op, int error)
{
    struct fi_cq_err_entry e = WAIT_ERROR(s->p.a->tx);
    CHECK_PTR(e.op_context, CONTEXT(op));
    CHECK_OP(e.err, >, 0);
    if (error != FI_EACCES || e.err != FI_ENOKEY || s->grants_anything) CHECK_EQ(e.err, error);
    static const uint64_t KINDS[] = {FI_RMA | FI_WRITE, FI_RMA | FI_READ, FI_ATOMIC,
                                     FI_ATOMIC,         FI_ATOMIC,        FI_RMA | FI_WRITE};
    CHECK_FLAGS(e.flags, KINDS[op], FI_MSG | FI_TAGGED);
    CHECK_BYTES(s->memory, 3 * BYTES, 0);
    if (op == READ) CHECK_BYTES(s->local, 3 * BYTES, 0xdd);
}

static void check_goes_on(struct setup *s)
{
    char in[8];
    struct region fine = region_over(s->p.b, s->memory, 8, ACCESS_ALL);
    POST(fi_read(s->p.a->ep, in, 8, NULL, s->p.to_b, fine.base, fine.key, CONTEXT(99)));
    CHECK_PTR(WAIT_TX(s->p.a).context, CONTEXT(99));
    POST(fi_recv(s->p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_inject(s->p.a->ep, "x", 1, s->p.to_b));
    WAIT_RX(s->p.b);
    region_close(&fine);
}

CASE(unknown_key, 1, "fi_rma: an unknown key ends with FI_ENOKEY",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing | sockets: FI_EACCES")
{
    struct setup s = setup_of(ACCESS_ALL);
    for (enum operation op = WRITE; op < OPERATIONS; op++)
        for (int how = 0; how < 4; how++) {
            uint64_t key = how == 0   ? s.region.key + 1
                           : how == 1 ? ~s.region.key
                           : how == 2 ? s.region.key ^ 1ull << 63
                                      : FI_KEY_NOTAVAIL;
            about("%s, key 0x%llx", OPERATION_NAMES[op], (unsigned long long)key);
            post(&s, op, 8, s.region.base, key);
            check_refused(&s, op, FI_ENOKEY);
        }
    check_goes_on(&s);
}

CASE(out_of_bounds, 1,
     "fi_rma: one byte too far, before the region, far away, and wrapped around the end of the address space end with "
     "FI_EACCES",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing")
{
    struct setup s = setup_of(ACCESS_ALL);
    static const struct {
        uint64_t offset;
        size_t bytes;
    } WHERE[] = {{BYTES - 7, 8},  {0, BYTES + 8},     {BYTES, 8},      {(uint64_t)-8, 8}, {(uint64_t)-1, 8},
                 {1ull << 40, 8}, {(uint64_t)-4, 64}, {1ull << 63, 8}, {BYTES - 8, 16}};
    size_t most[3] = {0};
    OK(fi_atomicvalid(s.p.a->ep, FI_UINT64, FI_SUM, &most[0]));
    OK(fi_fetch_atomicvalid(s.p.a->ep, FI_UINT64, FI_SUM, &most[1]));
    OK(fi_compare_atomicvalid(s.p.a->ep, FI_UINT64, FI_CSWAP, &most[2]));
    for (enum operation op = WRITE; op < OPERATIONS; op++)
        for (size_t i = 0; i < COUNT_OF(WHERE); i++) {
            if (op >= ATOMIC && op <= COMPARE && WHERE[i].bytes > most[op - ATOMIC] * 8) continue;
            about("%s, %zu bytes at %lld of %d", OPERATION_NAMES[op], WHERE[i].bytes, (long long)WHERE[i].offset,
                  BYTES);
            post(&s, op, WHERE[i].bytes, s.region.base + WHERE[i].offset, s.region.key);
            check_refused(&s, op, FI_EACCES);
        }
    /* and the last byte is in bounds */
    POST(fi_read(s.p.a->ep, s.local, 1, NULL, s.p.to_b, s.region.base + BYTES - 1, s.region.key, CONTEXT(5)));
    CHECK_PTR(WAIT_TX(s.p.a).context, CONTEXT(5));
    check_goes_on(&s);
}

CASE(bounds_of_large_ones, 1,
     "fi_rma: a transfer of 1 MiB that exceeds the end by one byte moves nothing beyond the end, and ends with "
     "FI_EACCES",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing")
{
    struct pair p = pair_open(WANTS);
    enum { MANY = 1 << 20 };
    char *memory = buffer(MANY + 64), *local = buffer(MANY + 64);
    memset(local, 0x77, MANY + 64);
    struct region r = region_over(p.b, memory, MANY, ACCESS_ALL);
    POST(fi_write(p.a->ep, local, MANY + 1, NULL, p.to_b, r.base, r.key, CONTEXT(1)));
    struct fi_cq_err_entry e = WAIT_ERROR(p.a->tx);
    CHECK_EQ(e.err, FI_EACCES);
    CHECK_PTR(e.op_context, CONTEXT(1));
    CHECK_BYTES(memory + MANY, 64, 0);
    POST(fi_read(p.a->ep, local, MANY, NULL, p.to_b, r.base + 1, r.key, CONTEXT(2)));
    e = WAIT_ERROR(p.a->tx);
    CHECK_EQ(e.err, FI_EACCES);
    CHECK_PTR(e.op_context, CONTEXT(2));
}

CASE(access_not_granted, 1,
     "fi_mr: FI_REMOTE_READ allows no write, FI_REMOTE_WRITE no read; fetching atomics need FI_REMOTE_READ, those "
     "that change memory FI_REMOTE_WRITE",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing | sockets: grants a fetch by FI_REMOTE_READ alone")
{
    static const uint64_t GRANTED[] = {FI_REMOTE_READ, FI_REMOTE_WRITE, FI_READ | FI_WRITE, FI_SEND | FI_RECV};
    for (size_t g = 0; g < COUNT_OF(GRANTED); g++) {
        struct setup s = setup_of(GRANTED[g]);
        bool reads = GRANTED[g] & FI_REMOTE_READ, writes = GRANTED[g] & FI_REMOTE_WRITE;
        const bool allowed[] = {writes, reads, writes, reads && writes, reads && writes, writes};
        for (enum operation op = WRITE; op < OPERATIONS; op++) {
            about("%s where 0x%llx is granted", OPERATION_NAMES[op], (unsigned long long)GRANTED[g]);
            if (allowed[op]) {
                memset(s.local, 0, 64);
                post(&s, op, 8, s.region.base, s.region.key);
                CHECK_PTR(WAIT_TX(s.p.a).context, CONTEXT(op));
                memset(s.local, 0xdd, 64);
            } else {
                post(&s, op, 8, s.region.base, s.region.key);
                check_refused(&s, op, FI_EACCES);
            }
        }
        /* an atomic read changes nothing */
        uint64_t old = 0;
        POST(fi_fetch_atomic(s.p.a->ep, NULL, 1, NULL, &old, NULL, s.p.to_b, s.region.base, s.region.key, FI_UINT64,
                             FI_ATOMIC_READ, CONTEXT(FETCH)));
        if (reads) CHECK_PTR(WAIT_TX(s.p.a).context, CONTEXT(FETCH));
        else check_refused(&s, FETCH, FI_EACCES);
        side_close(s.p.a);
        side_close(s.p.b);
    }
}

CASE(key_of_a_closed_region, 1,
     "fi_mr: once a region is closed its key is an error at peers, the local endpoint is not affected; the old key "
     "does not reach a new region over other memory",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing | sockets: FI_EACCES")
{
    struct setup s = setup_of(ACCESS_ALL);
    for (int round = 0; round < 50; round++) {
        struct region gone = region_over(s.p.b, s.memory, 64, ACCESS_ALL);
        region_close(&gone);
        struct region other = region_over(s.p.b, s.memory + 2 * BYTES, 64, ACCESS_ALL);
        enum operation op = (enum operation)(round % OPERATIONS);
        about("round %d, %s", round, OPERATION_NAMES[op]);
        if (other.key != gone.key) {
            post(&s, op, 8, gone.base, gone.key);
            check_refused(&s, op, FI_ENOKEY);
        }
        region_close(&other);
    }
    check_goes_on(&s);
}

CASE(closed_under_a_stream, 2,
     "fi_mr: a region is closed while a peer writes: writes succeed or fail, and nothing is written after the close",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing")
{
    struct side *side = job_open(WANTS);
    char *memory = buffer(65536), *local = buffer(65536);
    struct region r = region_over(side, memory, 65536, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    volatile int *closed = shared();
    if (rank() == 1) {
        UNTIL(((volatile char *)memory)[65535] != 0);
        region_close(&r);
        *closed = 1;
        memset(memory, 0x11, 65536);
        barrier();
        CHECK_BYTES(memory, 65536, 0x11);
        return;
    }
    int errors = 0, after = 0;
    memset(local, 0x77, 65536);
    long long until = now_ms() + WAIT_MS;
    while (after < 20) {
        if (now_ms() > until) FAIL("%d errors", errors);
        bool was_closed = *closed;
        POST(fi_write(side->ep, local, 65536, NULL, to(1), all[1].base, all[1].key, CONTEXT(1)));
        struct fi_cq_tagged_entry entry;
        ssize_t rc;
        while ((rc = fi_cq_read(side->tx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
        if (rc == -FI_EAVAIL) {
            struct fi_cq_err_entry e = {0};
            CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
            errors++;
        } else {
            CHECK_RC(rc, 1);
            if (was_closed) FAIL("a write posted after the close succeeded");
        }
        after += was_closed;
    }
    barrier();
}

CASE(key_of_another_endpoint, 1, "fi_mr: a key belongs to the addressed domain, not to another",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing | sockets: FI_EACCES")
{
    struct setup s = setup_of(ACCESS_ALL);
    struct side *third = side_open(WANTS);
    char *other = buffer(64);
    struct region theirs = region_over(third, other, 64, ACCESS_ALL);
    post(&s, WRITE, 8, theirs.base, theirs.key);
    struct fi_cq_err_entry e = WAIT_ERROR(s.p.a->tx);
    CHECK_EQ(e.err, FI_ENOKEY);
    CHECK_BYTES(other, 64, 0);
    CHECK_BYTES(s.memory, 3 * BYTES, 0);
}

CASE(target_memory_unmapped, 2,
     "contract: bytes of a region that are unmapped meanwhile end with FI_EFAULT, both processes continue",
     .needs = OUR_PROVIDER)
{
    struct side *side = job_open(WANTS);
    char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *local = buffer(1 << 20);
    memset(memory, 1, 1 << 20);
    struct region r = region_over(side, memory, 1 << 20, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 1) munmap(memory, 1 << 20);
    barrier();
    static const size_t LENGTHS[] = {8, 4096, 1 << 20};
    for (size_t l = 0; rank() == 0 && l < COUNT_OF(LENGTHS); l++)
        for (int op = 0; op < 3; op++) {
            about("operation %d of %zu bytes", op, LENGTHS[l]);
            if (op == 0) POST(fi_write(side->ep, local, LENGTHS[l], NULL, to(1), all[1].base, all[1].key, CONTEXT(op)));
            if (op == 1) POST(fi_read(side->ep, local, LENGTHS[l], NULL, to(1), all[1].base, all[1].key, CONTEXT(op)));
            if (op == 2)
                POST(fi_atomic(side->ep, local, 1, NULL, to(1), all[1].base, all[1].key, FI_UINT64, FI_SUM,
                               CONTEXT(op)));
            struct fi_cq_err_entry e = WAIT_ERROR(side->tx);
            CHECK_PTR(e.op_context, CONTEXT(op));
            CHECK_EQ(e.err, FI_EFAULT);
        }
    barrier();
    char in[8];
    if (rank() == 1) POST(fi_recv(side->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    if (rank() == 0) POST(fi_inject(side->ep, "x", 1, to(1)));
    if (rank() == 1) WAIT_RX(side);
}

CASE(own_memory_unmapped, 2,
     "contract: an unmapped buffer of the initiator ends with FI_EFAULT, or the call with -FI_EFAULT: sends, "
     "receives, writes, reads",
     .needs = OUR_PROVIDER)
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA});
    /* far from the addresses that the system chooses for mappings, so that none takes its place */
    char *gone = mmap((void *)(1ull << 44), 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *memory = buffer(1 << 20);
    munmap(gone, 1 << 20);
    struct region r = region_over(side, memory, 1 << 20, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 0) {
        static const size_t LENGTHS[] = {100000, 1 << 20};
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++)
            for (int op = 0; op < 2; op++) {
                about("operation %d of %zu bytes", op, LENGTHS[l]);
                ssize_t rc = op == 0 ? fi_write(side->ep, gone, LENGTHS[l], NULL, to(1), all[1].base, all[1].key,
                                                CONTEXT(op))
                                     : fi_read(side->ep, gone, LENGTHS[l], NULL, to(1), all[1].base, all[1].key,
                                               CONTEXT(op));
                if (rc == -FI_EFAULT) continue;
                OK(rc);
                struct fi_cq_err_entry e = WAIT_ERROR(side->tx);
                CHECK_EQ(e.err, FI_EFAULT);
                CHECK_PTR(e.op_context, CONTEXT(op));
            }
    }
    barrier();
    /* the receive buffer of a message is unmapped: the receiver gets the error, whichever side copies */
    if (rank() == 1) {
        POST(fi_trecv(side->ep, gone, 1 << 20, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(7)));
        barrier();
        struct fi_cq_err_entry e = WAIT_ERROR(side->rx);
        CHECK_EQ(e.err, FI_EFAULT);
        CHECK_PTR(e.op_context, CONTEXT(7));
    } else {
        barrier();
        POST(fi_tsend(side->ep, memory, 1 << 20, NULL, to(1), 1, NULL));
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry e = {0};
        long long until = now_ms() + WAIT_MS;
        ssize_t rc;
        while ((rc = fi_cq_read(side->tx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
        if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1); /* success or an error: the send completes */
        if (rc == -FI_EAGAIN) FAIL("the send is never completed");
    }
    barrier();
    char in[8];
    if (rank() == 1) POST(fi_trecv(side->ep, in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, CONTEXT(8)));
    if (rank() == 0) POST(fi_tinject(side->ep, "x", 1, to(1), 2));
    if (rank() == 1) CHECK_PTR(WAIT_RX(side).context, CONTEXT(8));
}

CASE(errors_do_not_stop_others, 1, "fi_rma: good and bad operations mixed: each ends as it should, none is lost",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing")
{
    struct setup s = setup_of(ACCESS_ALL);
    int good = 0, bad = 0;
    memset(s.local, 0, 64);
    for (int i = 0; i < 200; i++) {
        bool fine = i % 3;
        about("operation %d", i);
        POST(fi_write(s.p.a->ep, s.local, 8, NULL, s.p.to_b, s.region.base + (fine ? 8 : BYTES), s.region.key,
                      CONTEXT(fine)));
        struct fi_cq_tagged_entry entry;
        ssize_t rc;
        long long until = now_ms() + WAIT_MS;
        while ((rc = fi_cq_read(s.p.a->tx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
        if (fine) {
            CHECK_RC(rc, 1);
            CHECK_PTR(entry.op_context, CONTEXT(1));
            good++;
        } else {
            struct fi_cq_err_entry e = {0};
            CHECK_RC(rc, -FI_EAVAIL);
            CHECK_RC(fi_cq_readerr(s.p.a->tx, &e, 0), 1);
            CHECK_PTR(e.op_context, CONTEXT(0));
            bad++;
        }
    }
    CHECK_OP(good, >, 0);
    CHECK_OP(bad, >, 0);
}
