/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counters: values, waits, and the operations that the counters bound to an endpoint count. fi_cntr(3), fi_endpoint(3) on
 * fi_ep_bind.
 */
#include "transfers.h"

#include <pthread.h>

/* Updates may become visible a little later: fi_cntr(3), NOTES. */
CASE(values, 1,
     "fi_cntr_set, add, seterr, adderr: the values that fi_cntr_read and fi_cntr_readerr return in the end; the two "
     "are independent",
     .stock = "sockets: adds 32 bits")
{
    struct side *side = side_open((struct wants){0});
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_NONE);
    CHECK_EQ(fi_cntr_read(cntr), 0);
    CHECK_EQ(fi_cntr_readerr(cntr), 0);
    OK(fi_cntr_add(cntr, 5));
    CHECK_COUNTER(cntr, 5);
    OK(fi_cntr_add(cntr, 0));
    OK(fi_cntr_add(cntr, 1ull << 33));
    CHECK_COUNTER(cntr, (1ull << 33) + 5);
    OK(fi_cntr_adderr(cntr, 2));
    OK(fi_cntr_adderr(cntr, 1));
    CHECK_COUNTER_ERRORS(cntr, 3);
    CHECK_COUNTER(cntr, (1ull << 33) + 5);
    OK(fi_cntr_set(cntr, 7));
    CHECK_COUNTER(cntr, 7);
    CHECK_COUNTER_ERRORS(cntr, 3);
    OK(fi_cntr_seterr(cntr, 0));
    CHECK_COUNTER_ERRORS(cntr, 0);
    OK(fi_cntr_set(cntr, 0));
    CHECK_COUNTER(cntr, 0);
}

CASE(counters_are_apart, 1, "fi_cntr_open: a hundred counters, each has its own value; the context is kept")
{
    struct side *side = side_open((struct wants){0});
    struct fid_cntr *cntr[100];
    for (int i = 0; i < 100; i++) {
        cntr[i] = counter_open(side, FI_WAIT_NONE);
        OK(fi_cntr_set(cntr[i], (uint64_t)i * 11));
    }
    for (int i = 0; i < 100; i++) CHECK_COUNTER(cntr[i], (uint64_t)i * 11);
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *with_context = NULL;
    OK(fi_cntr_open(side->domain, &attr, &with_context, CONTEXT(3)));
    CHECK_PTR(with_context->fid.context, CONTEXT(3));
    OK(fi_close(&with_context->fid));
}

CASE(attributes_not_known, 1, "fi_cntr_open: unknown events, wait objects and flags are refused",
     .stock = "tcp;ofi_rxm: takes any events | shm: takes any events")
{
    struct side *side = side_open((struct wants){0});
    struct fid_cntr *cntr = NULL;
    struct fi_cntr_attr events = {.events = 77}, object = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = 77};
    struct fi_cntr_attr flags = {.events = FI_CNTR_EVENTS_COMP, .flags = 1ull << 40};
    REFUSED(fi_cntr_open(side->domain, &events, &cntr, NULL));
    REFUSED(fi_cntr_open(side->domain, &object, &cntr, NULL));
    REFUSED(fi_cntr_open(side->domain, &flags, &cntr, NULL));
}

CASE(wait_is_over_at_once, 1, "fi_cntr_wait: 0 if the value is already reached")
{
    struct side *side = side_open((struct wants){0});
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_UNSPEC);
    OK(fi_cntr_wait(cntr, 0, 0));
    OK(fi_cntr_set(cntr, 10));
    OK(fi_cntr_wait(cntr, 10, 1000));
    OK(fi_cntr_wait(cntr, 3, 1000));
    OK(fi_cntr_wait(cntr, 10, -1));
}

CASE(wait_times_out, 1, "fi_cntr_wait: -FI_ETIMEDOUT after the timeout, not before; the error value stays",
     .stock = "shm: never returns | sockets: a wait that would sleep returns 110")
{
    struct side *side = side_open((struct wants){0});
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_UNSPEC);
    OK(fi_cntr_set(cntr, 3));
    static const int TIMEOUTS[] = {1, 30, 100};
    for (size_t i = 0; i < COUNT_OF(TIMEOUTS); i++) {
        long long from = now_ms();
        CHECK_RC(fi_cntr_wait(cntr, 4, TIMEOUTS[i]), -FI_ETIMEDOUT);
        CHECK_OP(now_ms() - from, >=, TIMEOUTS[i] - 1);
    }
    CHECK_RC(fi_cntr_wait(cntr, 4, 0), -FI_ETIMEDOUT);
    CHECK_COUNTER_ERRORS(cntr, 0);
}

static void *adds_later(void *cntr)
{
    for (int i = 0; i < 5; i++) {
        sleep_ms(5);
        fi_cntr_add(cntr, 2);
    }
    return NULL;
}

static void *fails_later(void *cntr)
{
    sleep_ms(20);
    fi_cntr_adderr(cntr, 1);
    return NULL;
}

CASE(wait_is_woken, 1,
     "fi_cntr_wait: woken by another thread's add; a change of the error value ends it with -FI_EAVAIL",
     .stock = "sockets: a wait that would sleep returns 110")
{
    struct side *side = side_open((struct wants){.threading = FI_THREAD_SAFE});
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_UNSPEC);
    pthread_t thread;
    pthread_create(&thread, NULL, adds_later, cntr);
    OK(fi_cntr_wait(cntr, 9, WAIT_MS));
    CHECK_OP(fi_cntr_read(cntr), >=, 9);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, fails_later, cntr);
    CHECK_RC(fi_cntr_wait(cntr, 100, -1), -FI_EAVAIL);
    pthread_join(thread, NULL);
    CHECK_COUNTER_ERRORS(cntr, 1);
}

CASE(wait_without_a_wait_object, 1,
     "fi_cntr_wait: invalid with FI_WAIT_NONE; our provider waits nevertheless", .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){0});
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_NONE);
    CHECK_RC(fi_cntr_wait(cntr, 1, 10), -FI_ETIMEDOUT);
    OK(fi_cntr_add(cntr, 1));
    OK(fi_cntr_wait(cntr, 1, -1));
}

/* ---- Bound ------------------------------------------------------------------------------------------------------- */

struct counted {
    struct pair p;
    struct fid_cntr *send, *recv, *read, *write, *remote_read, *remote_write;
    struct region region;
    char *target;
};

/* Side a sends, reads and writes; side b receives, and its memory is read and written. */
static struct counted counted_pair(uint64_t caps, enum fi_wait_obj wait_obj)
{
    struct wants wants = {.caps = caps, .disabled = true};
    struct counted c = {.p = {.a = side_open(wants), .b = side_open(wants)}};
    OK(fi_ep_bind(c.p.a->ep, &(c.send = counter_open(c.p.a, wait_obj))->fid, FI_SEND));
    OK(fi_ep_bind(c.p.b->ep, &(c.recv = counter_open(c.p.b, wait_obj))->fid, FI_RECV));
    if (caps & FI_RMA) {
        OK(fi_ep_bind(c.p.a->ep, &(c.read = counter_open(c.p.a, wait_obj))->fid, FI_READ));
        OK(fi_ep_bind(c.p.a->ep, &(c.write = counter_open(c.p.a, wait_obj))->fid, FI_WRITE));
    }
    if (caps & FI_RMA_EVENT) {
        OK(fi_ep_bind(c.p.b->ep, &(c.remote_read = counter_open(c.p.b, wait_obj))->fid, FI_REMOTE_READ));
        OK(fi_ep_bind(c.p.b->ep, &(c.remote_write = counter_open(c.p.b, wait_obj))->fid, FI_REMOTE_WRITE));
    }
    side_enable(c.p.a);
    side_enable(c.p.b);
    c.p.to_b = side_insert(c.p.a, c.p.b);
    c.p.to_a = side_insert(c.p.b, c.p.a);
    c.target = buffer(100000);
    if (caps & FI_RMA) c.region = region_over(c.p.b, c.target, 100000, ACCESS_ALL);
    return c;
}

CASE(sends_and_receives_are_counted, 1,
     "fi_ep_bind: FI_SEND and FI_RECV count each message once, of any size and form, injected or not")
{
    struct counted c = counted_pair(FI_MSG | FI_TAGGED, FI_WAIT_NONE);
    static const size_t LENGTHS[] = {0, 8, 300, 20000, 100000};
    char *out = buffer(100000);
    uint64_t sent = 0;
    FOR_KINDS(kind)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++)
            for (int form = 0; form < 2; form++) {
                if (form && LENGTHS[l] > c.p.a->info->tx_attr->inject_size) continue;
                about("%s of %zu bytes, form %d", kind_name(kind), LENGTHS[l], form);
                POST(receive(kind, c.p.b, from_any(c.target, LENGTHS[l], 1, NULL)));
                if (form) POST(inject(kind, c.p.a, to_peer(out, LENGTHS[l], c.p.to_b, 1, NULL)));
                else POST(send_one(kind, c.p.a, to_peer(out, LENGTHS[l], c.p.to_b, 1, NULL)));
                sent++;
                CHECK_COUNTER(c.send, sent);
                CHECK_COUNTER(c.recv, sent);
                struct completion done;
                while (TAKE(c.p.a, c.p.a->tx, &done)) continue;
                while (TAKE(c.p.b, c.p.b->rx, &done)) continue;
            }
    CHECK_COUNTER_ERRORS(c.send, 0);
    CHECK_COUNTER_ERRORS(c.recv, 0);
}

CASE(bound_to_an_enabled_endpoint, 1,
     "fi_ep_bind: a counter bound after fi_enable counts later operations: sends and receives, reads and writes",
     .stock = "sockets: counts after another fi_enable")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA});
    char *memory = buffer(1000), *own = buffer(1000);
    struct region r = region_over(p.b, memory, 1000, ACCESS_ALL);
    struct fid_cntr *send = counter_open(p.a, FI_WAIT_NONE), *recv = counter_open(p.b, FI_WAIT_NONE),
                    *read = counter_open(p.a, FI_WAIT_NONE), *write = counter_open(p.a, FI_WAIT_NONE);
    for (uint64_t bound = 0; bound <= 1; bound++) {
        about(bound ? "bound" : "not bound");
        FOR_KINDS(kind)
        {
            POST(receive(kind, p.b, from_any(memory, 8, 1, NULL)));
            POST(send_one(kind, p.a, to_peer(own, 8, p.to_b, 1, NULL)));
            WAIT_TX(p.a);
            WAIT_RX(p.b);
        }
        POST(fi_write(p.a->ep, own, 8, NULL, p.to_b, r.base, r.key, NULL));
        WAIT_TX(p.a);
        POST(fi_read(p.a->ep, own, 8, NULL, p.to_b, r.base, r.key, NULL));
        WAIT_TX(p.a);
        CHECK_COUNTER(send, 2 * bound);
        CHECK_COUNTER(recv, 2 * bound);
        CHECK_COUNTER(write, bound);
        CHECK_COUNTER(read, bound);
        if (bound) break;
        OK(fi_ep_bind(p.a->ep, &send->fid, FI_SEND));
        OK(fi_ep_bind(p.a->ep, &read->fid, FI_READ));
        OK(fi_ep_bind(p.a->ep, &write->fid, FI_WRITE));
        OK(fi_ep_bind(p.b->ep, &recv->fid, FI_RECV));
        REFUSED(fi_ep_bind(p.b->ep, &recv->fid, FI_RECV));
    }
}

CASE(failed_receives_are_counted_apart, 1, "fi_cntr: an operation that completes in error adds to the error value",
     .stock = "tcp;ofi_rxm: counts a cancelled receive nowhere | shm: the error is negative")
{
    struct counted c = counted_pair(FI_MSG | FI_TAGGED, FI_WAIT_NONE);
    static struct fi_context context;
    POST(fi_trecv(c.p.b->ep, c.target, 2, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    POST(fi_tinject(c.p.a->ep, "12345", 5, c.p.to_b, 1));
    CHECK_EQ(WAIT_ERROR(c.p.b->rx).err, FI_ETRUNC);
    CHECK_COUNTER_ERRORS(c.recv, 1);
    CHECK_COUNTER(c.recv, 0);
    POST(fi_trecv(c.p.b->ep, c.target, 2, NULL, FI_ADDR_UNSPEC, 1, 0, &context));
    OK(fi_cancel(&c.p.b->ep->fid, &context));
    CHECK_EQ(WAIT_ERROR(c.p.b->rx).err, FI_ECANCELED);
    CHECK_COUNTER_ERRORS(c.recv, 2);
    CHECK_COUNTER(c.recv, 0);
}

CASE(rma_is_counted, 1,
     "fi_ep_bind: FI_READ and FI_WRITE count at the initiator, FI_REMOTE_READ and FI_REMOTE_WRITE at the target",
     .stock = "shm: checks no key")
{
    struct counted c = counted_pair(FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT, FI_WAIT_NONE);
    char *local = buffer(100000);
    static const size_t LENGTHS[] = {8, 300, 20000, 100000};
    uint64_t n = 0;
    for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
        about("%zu bytes", LENGTHS[l]);
        POST(fi_write(c.p.a->ep, local, LENGTHS[l], NULL, c.p.to_b, c.region.base, c.region.key, NULL));
        n++;
        CHECK_COUNTER(c.write, n);
        CHECK_COUNTER(c.read, n - 1);
        CHECK_COUNTER(c.remote_write, n);
        POST(fi_read(c.p.a->ep, local, LENGTHS[l], NULL, c.p.to_b, c.region.base, c.region.key, NULL));
        CHECK_COUNTER(c.read, n);
        CHECK_COUNTER(c.write, n);
        CHECK_COUNTER(c.remote_read, n);
        CHECK_COUNTER(c.remote_write, n);
    }
    POST(fi_inject_write(c.p.a->ep, local, 8, c.p.to_b, c.region.base, c.region.key));
    CHECK_COUNTER(c.write, n + 1);
    CHECK_COUNTER(c.remote_write, n + 1);
    CHECK_COUNTER(c.send, 0);
    CHECK_COUNTER(c.recv, 0);
    POST(fi_write(c.p.a->ep, local, 8, NULL, c.p.to_b, c.region.base, c.region.key + 1, NULL));
    CHECK_COUNTER_ERRORS(c.write, 1);
    CHECK_COUNTER(c.write, n + 1);
    CHECK_COUNTER(c.remote_write, n + 1);
}

CASE(rma_is_counted_in_memory_from_before, 1,
     "fi_ep_bind: peers' accesses also count in memory registered before the counter was bound; after the endpoint is "
     "closed they count nowhere",
     .needs = OUR_PROVIDER)
{
    struct wants wants = {.caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .disabled = true};
    struct side *a = side_open((struct wants){.caps = FI_MSG | FI_RMA}), *b = side_open(wants);
    char *target = buffer(64), *local = buffer(64);
    struct region region = region_over(b, target, 64, ACCESS_ALL);
    struct fid_cntr *writes = counter_open(b, FI_WAIT_NONE), *other = counter_open(b, FI_WAIT_NONE);
    OK(fi_ep_bind(b->ep, &writes->fid, FI_REMOTE_WRITE | FI_REMOTE_READ));
    side_enable(b);
    fi_addr_t to_b = side_insert(a, b);
    for (uint64_t n = 1; n <= 3; n++) {
        POST(fi_write(a->ep, local, 8, NULL, to_b, region.base, region.key, NULL));
        CHECK_COUNTER(writes, 2 * n - 1);
        POST(fi_read(a->ep, local, 8, NULL, to_b, region.base, region.key, NULL));
        CHECK_COUNTER(writes, 2 * n);
    }
    /* a second endpoint of the domain may share the counter, but not have its own */
    wants.beside = b;
    struct side *c = side_open(wants);
    REFUSED(fi_ep_bind(c->ep, &other->fid, FI_REMOTE_WRITE));
    OK(fi_ep_bind(c->ep, &writes->fid, FI_REMOTE_WRITE));
    side_enable(c);
    POST(fi_write(a->ep, local, 8, NULL, side_insert(a, c), region.base, region.key, NULL));
    CHECK_COUNTER(writes, 7);
    CHECK_COUNTER(other, 0);
}

CASE(operations_of_many_pieces_count_once, 1,
     "fi_cntr: a write, read or atomic counts once, at either end, whatever its number of pieces",
     .needs = OUR_PROVIDER)
{
    struct counted c = counted_pair(FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT, FI_WAIT_NONE);
    enum { PIECES = 4 };
    uint64_t words[PIECES] = {0}, old[PIECES];
    struct iovec local[PIECES];
    struct fi_rma_iov remote[PIECES];
    struct fi_rma_ioc elements[PIECES];
    struct fi_ioc operand = {.addr = words, .count = PIECES}, result = {.addr = old, .count = PIECES};
    for (int i = 0; i < PIECES; i++) {
        local[i] = (struct iovec){.iov_base = &words[i], .iov_len = 8};
        remote[i] = (struct fi_rma_iov){.addr = c.region.base + 64u * (unsigned)i, .len = 8, .key = c.region.key};
        elements[i] = (struct fi_rma_ioc){.addr = remote[i].addr, .count = 1, .key = c.region.key};
    }
    uint64_t writes = 0, reads = 0;
    for (int round = 0; round < 100; round++) {
        about("round %d", round);
        POST(fi_writev(c.p.a->ep, local, NULL, PIECES, c.p.to_b, c.region.base, c.region.key, NULL));
        writes++;
        struct fi_msg_rma message = {.msg_iov = local, .iov_count = PIECES, .addr = c.p.to_b, .rma_iov = remote,
                                     .rma_iov_count = PIECES};
        POST(fi_writemsg(c.p.a->ep, &message, 0));
        writes++;
        CHECK_COUNTER(c.write, writes);
        CHECK_COUNTER(c.remote_write, writes);
        POST(fi_readmsg(c.p.a->ep, &message, 0));
        reads++;
        struct fi_msg_atomic sum = {.msg_iov = &operand, .iov_count = 1, .addr = c.p.to_b, .rma_iov = elements,
                                    .rma_iov_count = PIECES, .datatype = FI_UINT64, .op = FI_SUM};
        POST(fi_fetch_atomicmsg(c.p.a->ep, &sum, &result, NULL, 1, 0));
        reads++;
        CHECK_COUNTER(c.read, reads);
        CHECK_COUNTER(c.remote_read, reads);
        CHECK_COUNTER(c.remote_write, writes);
        struct completion done;
        while (TAKE(c.p.a, c.p.a->tx, &done)) continue;
    }
}

CASE(atomics_are_counted, 1, "fi_ep_bind: base atomics count as writes, fetching and comparing ones as reads",
     .stock = "sockets: counts no fetch at the target")
{
    struct counted c = counted_pair(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RMA_EVENT, FI_WAIT_NONE);
    uint64_t one = 1, old = 0, compare = 2;
    POST(fi_atomic(c.p.a->ep, &one, 1, NULL, c.p.to_b, c.region.base, c.region.key, FI_UINT64, FI_SUM, NULL));
    CHECK_COUNTER(c.write, 1);
    CHECK_COUNTER(c.remote_write, 1);
    POST(fi_inject_atomic(c.p.a->ep, &one, 1, c.p.to_b, c.region.base, c.region.key, FI_UINT64, FI_SUM));
    CHECK_COUNTER(c.write, 2);
    CHECK_COUNTER(c.remote_write, 2);
    POST(fi_fetch_atomic(c.p.a->ep, &one, 1, NULL, &old, NULL, c.p.to_b, c.region.base, c.region.key, FI_UINT64, FI_SUM,
                         NULL));
    CHECK_COUNTER(c.read, 1);
    CHECK_COUNTER(c.remote_read, 1);
    POST(fi_compare_atomic(c.p.a->ep, &one, 1, NULL, &compare, NULL, &old, NULL, c.p.to_b, c.region.base, c.region.key,
                           FI_UINT64, FI_CSWAP, NULL));
    CHECK_COUNTER(c.read, 2);
    CHECK_COUNTER(c.remote_read, 2);
    CHECK_COUNTER(c.write, 2);
    CHECK_COUNTER(c.remote_write, 2);
}

CASE(wait_for_messages, 2,
     "fi_cntr_wait: on a bound counter returns when that number of messages has arrived from another process",
     .stock = "sockets: a wait that would sleep returns 110")
{
    struct side *side = side_open((struct wants){.caps = FI_TAGGED, .disabled = true});
    struct fid_cntr *recv = counter_open(side, FI_WAIT_UNSPEC), *send = counter_open(side, FI_WAIT_UNSPEC);
    OK(fi_ep_bind(side->ep, &recv->fid, FI_RECV));
    OK(fi_ep_bind(side->ep, &send->fid, FI_SEND));
    side_enable(side);
    unsigned char all[2 * ADDRESS_BYTES_MAX];
    exchange(side->address, ADDRESS_BYTES_MAX, all);
    fi_addr_t peer = address_insert(side, all + (1 - rank()) * ADDRESS_BYTES_MAX);
    char in[8];
    for (int i = 1; i <= 50; i++) {
        about("message %d", i);
        POST(fi_trecv(side->ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        if (rank() == 0) POST(fi_tsend(side->ep, "ping", 4, NULL, peer, 1, NULL));
        OK(fi_cntr_wait(recv, (uint64_t)i, WAIT_MS));
        if (rank() == 1) POST(fi_tsend(side->ep, "pong", 4, NULL, peer, 1, NULL));
        OK(fi_cntr_wait(send, (uint64_t)i, WAIT_MS));
        struct completion c;
        while (TAKE(side, side->tx, &c) || TAKE(side, side->rx, &c)) continue;
    }
}

CASE(bind_rules, 1,
     "fi_ep_bind: two counters of one endpoint cannot count the same events; a bound counter cannot be closed: "
     "-FI_EBUSY",
     .stock = "sockets: the second takes the place of the first")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG, .disabled = true});
    struct fid_cntr *one = counter_open(side, FI_WAIT_NONE), *other = counter_open(side, FI_WAIT_NONE);
    OK(fi_ep_bind(side->ep, &one->fid, FI_SEND));
    CHECK_RC(fi_close(&one->fid), -FI_EBUSY);
    REFUSED(fi_ep_bind(side->ep, &other->fid, FI_SEND));
    OK(fi_ep_bind(side->ep, &other->fid, FI_RECV));
    REFUSED(fi_ep_bind(side->ep, &other->fid, 1ull << 40));
    side_enable(side);
    CHECK_RC(fi_close(&one->fid), -FI_EBUSY);
    OK(fi_close(&side->ep->fid));
    side->ep = NULL;
}
