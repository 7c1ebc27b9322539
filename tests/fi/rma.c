/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Permitted reads and writes of a peer's memory: every call, sizes, offsets, pieces on both sides, remote data, injection,
 * order with messages, progress without the target's program. fi_rma(3).
 */
#include "suite.h"

#include <sys/mman.h>

#define RMA_WANTS (struct wants){.caps = FI_MSG | FI_RMA}
#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

static const size_t SIZES[] = {0,   1,    8,    39,    40,    41,    64,    255,     256,
                               257, 1024, 4096, 16383, 16384, 16385, 65536, 1 << 20, 5 << 20};
enum { MOST = 5 << 20 };

static void check_done(struct completion c, void *context, uint64_t kind)
{
    CHECK_PTR(c.context, context);
    CHECK_FLAGS(c.flags, FI_RMA | kind, FI_MSG | FI_TAGGED | (kind == FI_READ ? FI_WRITE : FI_READ));
}

static struct fi_msg_rma rma_msg(const struct iovec *iov, size_t count, const struct fi_rma_iov *rma, size_t rma_count,
                                 fi_addr_t peer, void *context)
{
    return (struct fi_msg_rma){.msg_iov = iov,
                               .iov_count = count,
                               .addr = peer,
                               .rma_iov = rma,
                               .rma_iov_count = rma_count,
                               .context = context};
}

static void write_in_form(int form, struct pair *p, char *out, size_t bytes, uint64_t at, uint64_t key)
{
    struct iovec iov = {out, bytes};
    struct fi_rma_iov rma = {at, bytes, key};
    struct fi_msg_rma msg = rma_msg(&iov, 1, &rma, 1, p->to_b, CONTEXT(form));
    if (form == 0) POST(fi_write(p->a->ep, out, bytes, NULL, p->to_b, at, key, CONTEXT(form)));
    if (form == 1) POST(fi_writev(p->a->ep, &iov, NULL, 1, p->to_b, at, key, CONTEXT(form)));
    if (form == 2) POST(fi_writemsg(p->a->ep, &msg, FI_COMPLETION));
    if (form == 3) POST(fi_writemsg(p->a->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
}

static void read_in_form(int form, struct pair *p, char *in, size_t bytes, uint64_t at, uint64_t key)
{
    struct iovec iov = {in, bytes};
    struct fi_rma_iov rma = {at, bytes, key};
    struct fi_msg_rma msg = rma_msg(&iov, 1, &rma, 1, p->to_b, CONTEXT(form));
    if (form == 0) POST(fi_read(p->a->ep, in, bytes, NULL, p->to_b, at, key, CONTEXT(form)));
    if (form == 1) POST(fi_readv(p->a->ep, &iov, NULL, 1, p->to_b, at, key, CONTEXT(form)));
    if (form >= 2) POST(fi_readmsg(p->a->ep, &msg, FI_COMPLETION));
}

static void run_sizes(struct pair p)
{
    char *memory = buffer(MOST + 64), *local = buffer(MOST + 64);
    struct region r = region_over(p.b, memory, MOST + 64, ACCESS_ALL);
    for (size_t i = 0; i < COUNT_OF(SIZES); i++)
        for (int form = 0; form < (SIZES[i] > 65536 ? 1 : 4); form++) {
            size_t bytes = SIZES[i], offset = i % 3 * 7;
            about("%zu bytes at %zu, form %d", bytes, offset, form);
            memset(memory, 0xcc, bytes + 64);
            pattern_fill(local, bytes, (unsigned)i);
            write_in_form(form, &p, local, bytes, r.base + offset, r.key);
            check_done(WAIT_TX(p.a), CONTEXT(form), FI_WRITE);
            memset(local, 0xdd, bytes + 64);
            read_in_form(form, &p, local, bytes, r.base + offset, r.key);
            check_done(WAIT_TX(p.a), CONTEXT(form), FI_READ);
            CHECK_PATTERN(local, bytes, (unsigned)i);
            CHECK_BYTES(local + bytes, 64, 0xdd);
            CHECK_PATTERN(memory + offset, bytes, (unsigned)i);
            CHECK_BYTES(memory, offset, 0xcc);
            CHECK_BYTES(memory + offset + bytes, 64 - offset, 0xcc);
        }
    CHECK_NONE(p.b->rx, 1);
    CHECK_NONE(p.b->tx, 1);
}

CASE(sizes, 1,
     "fi_write, writev, writemsg, read, readv, readmsg: all sizes; the target gets no completion, and no adjacent "
     "byte changes",
     .stock = "shm: never completes FI_DELIVERY_COMPLETE within a process")
{
    run_sizes(pair_open(RMA_WANTS));
}

CASE(sizes_within_a_domain, 1, "fi_rma: between two endpoints of one domain",
     .stock = "shm: never completes FI_DELIVERY_COMPLETE within a process")
{
    run_sizes(pair_open_beside(RMA_WANTS));
}

CASE(to_itself, 1, "fi_rma: an endpoint writes and reads memory of its own domain through its own address",
     .stock = "shm: never completes FI_DELIVERY_COMPLETE within a process")
{
    struct pair p = pair_open(RMA_WANTS);
    p.b = p.a;
    p.to_b = 1; /* pair_open() puts a into its own vector, second */
    run_sizes(p);
}

CASE(own_keys, 1, "fi_rma: with keys of the application and offsets from 0")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = 0});
    char *memory = buffer(1000), *in = buffer(1000);
    struct fid_mr *mr = NULL;
    pattern_fill(memory, 1000, 5);
    OK(fi_mr_reg(p.b->domain, memory, 1000, ACCESS_ALL, 0, 0xdeadbeefcafe, 0, &mr, NULL));
    POST(fi_read(p.a->ep, in, 1000, NULL, p.to_b, 0, 0xdeadbeefcafe, NULL));
    WAIT_TX(p.a);
    CHECK_PATTERN(in, 1000, 5);
    POST(fi_write(p.a->ep, "xyz", 3, NULL, p.to_b, 997, 0xdeadbeefcafe, NULL));
    WAIT_TX(p.a);
    UNTIL(memcmp(memory + 997, "xyz", 3) == 0);
    OK(fi_close(&mr->fid));
}

CASE(virtual_addresses, 1,
     "FI_MR_BASIC: if answered, peers address by the target's virtual addresses, with the provider's keys")
{
    struct wants wants = {.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = FI_MR_BASIC};
    struct fi_info *info = info_for(wants);
    if (info == NULL) return; /* refused */
    fi_freeinfo(info);
    struct pair p = pair_open(wants);
    char *memory = buffer(64), in[8];
    struct fid_mr *mr = NULL;
    memset(memory, 'v', 64);
    OK(fi_mr_reg(p.b->domain, memory, 64, ACCESS_ALL, 0, 0, 0, &mr, NULL));
    POST(fi_read(p.a->ep, in, 8, NULL, p.to_b, (uintptr_t)memory + 3, fi_mr_key(mr), NULL));
    WAIT_TX(p.a);
    CHECK_BYTES(in, 8, 'v');
    OK(fi_close(&mr->fid));
}

CASE(pieces, 1, "fi_writemsg, fi_readmsg: pieces on both sides, cut differently, some empty, in several regions")
{
    struct pair p = pair_open(RMA_WANTS);
    size_t local_most = p.a->info->tx_attr->iov_limit, remote_most = p.a->info->tx_attr->rma_iov_limit;
    if (is_ours()) {
        CHECK_EQ(local_most, 8);
        CHECK_EQ(remote_most, 8);
    }
    char *memory = buffer(200000), *local = buffer(200000), *flat = buffer(100000);
    struct region r[2] = {region_over(p.b, memory, 100000, ACCESS_ALL),
                          region_over(p.b, memory + 100000, 100000, ACCESS_ALL)};
    static const size_t LENGTHS[] = {1, 40, 256, 5000, 60000};
    uint64_t state = 8;
    for (int round = 0; round < 60; round++) {
        size_t bytes = LENGTHS[round % 5], ln = 1 + random_next(&state) % local_most,
               rn = 1 + random_next(&state) % remote_most;
        struct iovec iov[64];
        struct fi_rma_iov rma[64];
        char *where[64];
        about("round %d: %zu bytes, %zu pieces here, %zu there", round, bytes, ln, rn);
        size_t left = bytes, at = 0;
        for (size_t i = 0; i < ln; i++) {
            size_t piece = i + 1 == ln ? left : random_next(&state) % (left + 1);
            iov[i] = (struct iovec){local + at, piece};
            at += piece + 5;
            left -= piece;
        }
        left = bytes;
        size_t used[2] = {0, 0};
        for (size_t i = 0; i < rn; i++) {
            size_t piece = i + 1 == rn ? left : random_next(&state) % (left + 1), which = i % 2;
            rma[i] = (struct fi_rma_iov){r[which].base + used[which], piece, r[which].key};
            where[i] = memory + 100000 * which + used[which];
            used[which] += piece + 3;
            left -= piece;
        }
        pattern_fill(flat, bytes, (unsigned)round);
        at = 0;
        for (size_t i = 0; i < ln; at += iov[i++].iov_len) memcpy(iov[i].iov_base, flat + at, iov[i].iov_len);
        memset(memory, 0, 200000);
        struct fi_msg_rma msg = rma_msg(iov, ln, rma, rn, p.to_b, CONTEXT(1));
        POST(fi_writemsg(p.a->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
        check_done(WAIT_TX(p.a), CONTEXT(1), FI_WRITE);
        at = 0;
        for (size_t i = 0; i < rn; at += rma[i++].len) {
            CHECK_SAME(where[i], flat + at, rma[i].len);
            CHECK_BYTES(where[i] + rma[i].len, 3, 0);
        }
        for (size_t i = 0; i < ln; i++) memset(iov[i].iov_base, 0, iov[i].iov_len);
        POST(fi_readmsg(p.a->ep, &msg, FI_COMPLETION));
        check_done(WAIT_TX(p.a), CONTEXT(1), FI_READ);
        at = 0;
        for (size_t i = 0; i < ln; at += iov[i++].iov_len)
            CHECK_SAME(iov[i].iov_base, flat + at, iov[i].iov_len);
    }
}

CASE(sides_of_different_lengths, 1,
     "fi_writemsg, fi_readmsg: if the local and the remote length differ the call is refused, or the smaller length "
     "is moved",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open(RMA_WANTS);
    char *memory = buffer(64), *local = buffer(64);
    struct region r = region_over(p.b, memory, 32, ACCESS_ALL);
    struct iovec iov = {local, 16};
    struct fi_rma_iov rma = {r.base, 20, r.key};
    memset(local, 'l', 64);
    struct fi_msg_rma msg = rma_msg(&iov, 1, &rma, 1, p.to_b, CONTEXT(1));
    ssize_t rc = fi_writemsg(p.a->ep, &msg, FI_COMPLETION);
    if (rc == 0) {
        struct fi_cq_tagged_entry entry;
        long long until = now_ms() + WAIT_MS;
        while ((rc = fi_cq_read(p.a->tx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
        struct fi_cq_err_entry e = {0};
        if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(p.a->tx, &e, 0), 1);
    }
    CHECK_BYTES(memory + 16, 48, 0);
}

CASE(too_many_pieces, 1, "fi_rma: more pieces than iov_limit or rma_iov_limit are refused by the call", .needs = OUR_PROVIDER)
{
    struct pair p = pair_open(RMA_WANTS);
    char *memory = buffer(64), *local = buffer(64);
    struct region r = region_over(p.b, memory, 64, ACCESS_ALL);
    struct iovec iov[9];
    struct fi_rma_iov rma[9];
    for (int i = 0; i < 9; i++) {
        iov[i] = (struct iovec){local + i, 1};
        rma[i] = (struct fi_rma_iov){r.base + (uint64_t)i, 1, r.key};
    }
    struct fi_rma_iov whole = {r.base, 9, r.key};
    struct iovec flat = {local, 9};
    struct fi_msg_rma many_here = rma_msg(iov, 9, &whole, 1, p.to_b, NULL),
                      many_there = rma_msg(&flat, 1, rma, 9, p.to_b, NULL);
    REFUSED(fi_writemsg(p.a->ep, &many_here, 0));
    REFUSED(fi_readmsg(p.a->ep, &many_here, 0));
    REFUSED(fi_writemsg(p.a->ep, &many_there, 0));
    REFUSED(fi_readmsg(p.a->ep, &many_there, 0));
    REFUSED(fi_writev(p.a->ep, iov, NULL, 9, p.to_b, r.base, r.key, NULL));
    REFUSED(fi_readv(p.a->ep, iov, NULL, 9, p.to_b, r.base, r.key, NULL));
    CHECK_NONE(p.a->tx, 2);
}

CASE(injected, 1,
     "fi_inject_write, FI_INJECT: the buffer is free when the call returns; fi_inject_write writes no completion; "
     "inject_size is the limit",
     .stock = "tcp;ofi_rxm: takes more | shm: never completes FI_DELIVERY_COMPLETE within a process")
{
    struct pair p = pair_open(RMA_WANTS);
    size_t limit = p.a->info->tx_attr->inject_size;
    char *memory = buffer(limit + 1), *local = buffer(limit + 1);
    struct region r = region_over(p.b, memory, limit + 1, ACCESS_ALL);
    for (size_t bytes = 0; bytes <= limit; bytes += bytes < 300 ? 37 : 501) {
        about("%zu bytes", bytes);
        pattern_fill(local, bytes, (unsigned)bytes);
        POST(fi_inject_write(p.a->ep, local, bytes, p.to_b, r.base, r.key));
        memset(local, 0, bytes);
        char *in = buffer(bytes);
        POST(fi_read(p.a->ep, in, bytes, NULL, p.to_b, r.base, r.key, CONTEXT(1)));
        check_done(WAIT_TX(p.a), CONTEXT(1), FI_READ); /* and no completion of the write before it */
        UNTIL(bytes == 0 || memcmp(memory, in, bytes) == 0);
        CHECK_PATTERN(memory, bytes, (unsigned)bytes);
        struct iovec iov = {local, bytes};
        struct fi_rma_iov rma = {r.base, bytes, r.key};
        struct fi_msg_rma msg = rma_msg(&iov, 1, &rma, 1, p.to_b, CONTEXT(2));
        pattern_fill(local, bytes, (unsigned)bytes + 1);
        POST(fi_writemsg(p.a->ep, &msg, FI_INJECT | FI_DELIVERY_COMPLETE | FI_COMPLETION));
        memset(local, 0, bytes);
        check_done(WAIT_TX(p.a), CONTEXT(2), FI_WRITE);
        CHECK_PATTERN(memory, bytes, (unsigned)bytes + 1);
    }
    POST_REFUSED(fi_inject_write(p.a->ep, local, limit + 1, p.to_b, r.base, r.key));
    CHECK_NONE(p.a->tx, 2);
}

CASE(remote_data, 1,
     "fi_writedata, fi_inject_writedata, FI_REMOTE_CQ_DATA: the target gets one entry with the data, after the "
     "bytes, and no receive is used up",
     .stock = "tcp;ofi_rxm: sets no FI_RMA")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_RMA});
    char *memory = buffer(100000), *local = buffer(100000), in[8];
    struct region r = region_over(p.b, memory, 100000, ACCESS_ALL);
    static const size_t LENGTHS[] = {0, 8, 200, 20000, 100000};
    POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, CONTEXT(77)));
    uint64_t value = is_ours() ? 0xfedcba9876543210 : 0x76543210;
    for (size_t l = 0; l < COUNT_OF(LENGTHS); l++)
        for (int form = 0; form < 3; form++) {
            size_t bytes = LENGTHS[l];
            if (form == 1 && bytes > p.a->info->tx_attr->inject_size) continue;
            about("%zu bytes, form %d", bytes, form);
            pattern_fill(local, bytes, (unsigned)l * 3 + (unsigned)form);
            struct iovec iov = {local, bytes};
            struct fi_rma_iov rma = {r.base, bytes, r.key};
            struct fi_msg_rma msg = rma_msg(&iov, 1, &rma, 1, p.to_b, CONTEXT(form));
            msg.data = ++value;
            if (form == 0) POST(fi_writedata(p.a->ep, local, bytes, NULL, value, p.to_b, r.base, r.key, CONTEXT(form)));
            if (form == 1) POST(fi_inject_writedata(p.a->ep, local, bytes, value, p.to_b, r.base, r.key));
            if (form == 2) POST(fi_writemsg(p.a->ep, &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION));
            struct completion c = WAIT_RX(p.b);
            CHECK_PTR(c.context, NULL);
            CHECK_FLAGS(c.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, FI_RECV | FI_MSG | FI_TAGGED);
            CHECK_EQ(c.data, value);
            CHECK_EQ(c.len, bytes);
            CHECK_PATTERN(memory, bytes, (unsigned)l * 3 + (unsigned)form);
            if (form != 1) check_done(WAIT_TX(p.a), CONTEXT(form), FI_WRITE);
        }
    POST(fi_inject(p.a->ep, "hello", 5, p.to_b));
    CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(77));
}

CASE(source_of_remote_data, 3, "fi_cq_readfrom: a write with data reports its initiator under FI_SOURCE",
     .stock = "tcp;ofi_rxm: reports no sender")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA | FI_SOURCE});
    char *memory = buffer(64);
    struct region r = region_over(side, memory, 64, ACCESS_ALL), all[3];
    exchange(&r, sizeof r, all);
    for (int i = 1; i < 3; i++) {
        if (rank() == i) {
            POST(fi_inject_writedata(side->ep, "x", 1, (uint64_t)i, to(0), all[0].base, all[0].key));
        } else if (rank() == 0) {
            struct completion c = WAIT_RX(side);
            CHECK_EQ(c.data, i);
            CHECK_EQ(c.source, to(i));
        }
        barrier();
    }
}

CASE(selective, 1, "FI_SELECTIVE_COMPLETION: only reads and writes with FI_COMPLETION write an entry")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_RMA, .bind_tx = FI_SELECTIVE_COMPLETION});
    char *memory = buffer(64), *local = buffer(64);
    struct region r = region_over(p.b, memory, 64, ACCESS_ALL);
    struct iovec iov = {local, 8};
    struct fi_rma_iov rma = {r.base, 8, r.key};
    struct fi_msg_rma msg = rma_msg(&iov, 1, &rma, 1, p.to_b, CONTEXT(5));
    POST(fi_write(p.a->ep, local, 8, NULL, p.to_b, r.base, r.key, CONTEXT(1)));
    POST(fi_read(p.a->ep, local, 8, NULL, p.to_b, r.base, r.key, CONTEXT(2)));
    POST(fi_writemsg(p.a->ep, &msg, 0));
    POST(fi_readmsg(p.a->ep, &msg, 0));
    POST(fi_writemsg(p.a->ep, &msg, FI_COMPLETION));
    check_done(WAIT_TX(p.a), CONTEXT(5), FI_WRITE);
    POST(fi_readmsg(p.a->ep, &msg, FI_COMPLETION));
    check_done(WAIT_TX(p.a), CONTEXT(5), FI_READ);
    CHECK_NONE(p.a->tx, 3);
}

CASE(a_message_follows_writes, 2,
     "FI_ORDER_SAW: when a message is received, its sender's earlier writes are in place, at any size")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA, .order = FI_ORDER_SAW | FI_ORDER_SAS});
    char *memory = buffer(100000), in[8];
    struct region r = region_over(side, memory, 100000, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    static const size_t LENGTHS[] = {1, 64, 3000, 20000, 100000};
    for (int i = 0; i < 100; i++) {
        size_t bytes = LENGTHS[i % 5];
        about("round %d, %zu bytes", i, bytes);
        if (rank() == 0) {
            pattern_fill(memory, bytes, (unsigned)i);
            POST(fi_write(side->ep, memory, bytes, NULL, to(1), all[1].base, all[1].key, NULL));
            POST(fi_inject(side->ep, "go", 2, to(1)));
            WAIT_TX(side);
        } else {
            POST(fi_recv(side->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
            WAIT_RX(side);
            CHECK_PATTERN(memory, bytes, (unsigned)i);
        }
        barrier();
    }
}

CASE(order_of_writes_and_reads, 1,
     "FI_ORDER_RAW, WAW, WAR: a read after a write sees it, a write after a read is not seen by it")
{
    struct pair p = pair_open(
        (struct wants){.caps = FI_MSG | FI_RMA, .order = FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_WAR | FI_ORDER_RAR});
    enum { BYTES = 30000 };
    char *memory = buffer(BYTES), *out[3], *in[3];
    for (int i = 0; i < 3; i++) {
        out[i] = buffer(BYTES);
        in[i] = buffer(BYTES);
        pattern_fill(out[i], BYTES, (unsigned)i);
    }
    struct region r = region_over(p.b, memory, BYTES, ACCESS_ALL);
    static const size_t LENGTHS[] = {8, 300, BYTES};
    for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
        size_t bytes = LENGTHS[l];
        about("%zu bytes", bytes);
        for (int i = 0; i < 3; i++) {
            POST(fi_write(p.a->ep, out[i], bytes, NULL, p.to_b, r.base, r.key, NULL));
            POST(fi_read(p.a->ep, in[i], bytes, NULL, p.to_b, r.base, r.key, NULL));
        }
        for (int i = 0; i < 6; i++) WAIT_TX(p.a);
        for (int i = 0; i < 3; i++) CHECK_PATTERN(in[i], bytes, (unsigned)i);
    }
}

CASE(many_in_flight, 2,
     "fi_rma: 5,000 small writes and reads without waiting between; all complete, each with its context")
{
    enum { COUNT = 5000 };
    struct side *side = job_open(RMA_WANTS);
    uint32_t *memory = buffer(COUNT * 4), *local = buffer(COUNT * 4);
    struct region r = region_over(side, memory, COUNT * 4, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 0)
        for (int pass = 0; pass < 2; pass++) {
            int posted = 0, done = 0;
            long long until = now_ms() + WAIT_MS;
            static char seen[COUNT];
            memset(seen, 0, sizeof seen);
            while (done < COUNT) {
                if (now_ms() > until) FAIL("pass %d: %d posted, %d done", pass, posted, done);
                struct completion c;
                while (posted < COUNT) {
                    if (pass == 0) local[posted] = (uint32_t)posted * 7;
                    ssize_t rc = pass == 0 ? fi_write(side->ep, &local[posted], 4, NULL, to(1),
                                                      all[1].base + 4 * (uint64_t)posted, all[1].key, &seen[posted])
                                           : fi_read(side->ep, &local[posted], 4, NULL, to(1),
                                                     all[1].base + 4 * (uint64_t)posted, all[1].key, &seen[posted]);
                    if (rc == -FI_EAGAIN) break;
                    OK(rc);
                    posted++;
                }
                while (TAKE(side, side->tx, &c)) {
                    CHECK_EQ((*(char *)c.context)++, 0);
                    done++;
                }
            }
            for (uint32_t i = 0; i < COUNT; i++) CHECK_EQ(local[i], i * 7);
            memset(local, 0, COUNT * 4);
        }
    barrier();
    if (rank() == 1)
        for (uint32_t i = 0; i < COUNT; i++) CHECK_EQ(memory[i], i * 7);
}

CASE(target_sleeps, 2, "FI_PROGRESS_AUTO: reads and writes complete while the target's program calls nothing",
     .stock = "tcp;ofi_rxm: makes no progress then")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA, .progress = FI_PROGRESS_AUTO});
    enum { BYTES = 1 << 20 };
    char *memory = buffer(BYTES), *local = buffer(BYTES);
    struct region r = region_over(side, memory, BYTES, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 0) {
        static const size_t LENGTHS[] = {8, 5000, BYTES};
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            about("%zu bytes", LENGTHS[l]);
            pattern_fill(local, LENGTHS[l], 3);
            POST(fi_write(side->ep, local, LENGTHS[l], NULL, to(1), all[1].base, all[1].key, NULL));
            WAIT_TX(side);
            memset(local, 0, LENGTHS[l]);
            POST(fi_read(side->ep, local, LENGTHS[l], NULL, to(1), all[1].base, all[1].key, NULL));
            WAIT_TX(side);
            CHECK_PATTERN(local, LENGTHS[l], 3);
        }
    }
    barrier_asleep();
}

CASE(shared_and_private_memory, 2,
     "fi_rma: the target's region may be heap, stack, a private or a shared mapping, or a program's data")
{
    struct side *side = job_open(RMA_WANTS);
    enum { BYTES = 20000 };
    static char data[BYTES];
    char stack[BYTES];
    void *kinds[] = {buffer(BYTES), stack, data,
                     mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                     mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    char *local = buffer(BYTES);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        about("kind %zu", k);
        if (rank() == 1) memset(kinds[k], (int)k + 1, BYTES);
        struct region r = region_over(side, kinds[k], BYTES, ACCESS_ALL), all[2];
        exchange(&r, sizeof r, all);
        if (rank() == 0) {
            POST(fi_read(side->ep, local, BYTES, NULL, to(1), all[1].base, all[1].key, NULL));
            WAIT_TX(side);
            CHECK_BYTES(local, BYTES, (int)k + 1);
            memset(local, 0x70 + (int)k, BYTES);
            POST(fi_write(side->ep, local, BYTES, NULL, to(1), all[1].base, all[1].key, NULL));
            WAIT_TX(side);
        }
        barrier();
        if (rank() == 1) UNTIL(((volatile char *)kinds[k])[BYTES - 1] == (char)(0x70 + k));
        if (rank() == 1) CHECK_BYTES(kinds[k], BYTES, 0x70 + (int)k);
        region_close(&r);
        barrier();
    }
}
