/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory registration: keys of the provider and of the application, wrong arguments, many regions, counters of regions.
 * rma_errors.c has the rights of keys. fi_mr(3).
 */
#include "suite.h"

#define RMA_WANTS (struct wants){.caps = FI_MSG | FI_RMA}
#define OWN_KEYS (struct wants){.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = 0}

static struct side *own_keys(void)
{
    struct side *side = side_open(OWN_KEYS);
    CHECK(!(side->info->domain_attr->mr_mode & FI_MR_PROV_KEY));
    return side;
}

CASE(calls, 1, "fi_mr_reg, fi_mr_regv, fi_mr_regattr: each with any valid access; key and descriptor can be read")
{
    struct side *side = side_open(RMA_WANTS);
    char *memory = buffer(4096);
    static const uint64_t ACCESS[] = {
        FI_SEND,        FI_RECV,         FI_READ,           FI_WRITE,
        FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND | FI_RECV, FI_REMOTE_READ | FI_REMOTE_WRITE,
        ACCESS_ALL};
    for (size_t i = 0; i < COUNT_OF(ACCESS); i++) {
        about("access 0x%llx", (unsigned long long)ACCESS[i]);
        struct iovec iov = {memory, 4096};
        struct fi_mr_attr attr = {
            .mr_iov = &iov, .iov_count = 1, .access = ACCESS[i], .requested_key = next_key(), .context = &attr};
        struct fid_mr *mr[3] = {NULL};
        OK(fi_mr_reg(side->domain, memory, 4096, ACCESS[i], 0, next_key(), 0, &mr[0], NULL));
        OK(fi_mr_regv(side->domain, &iov, 1, ACCESS[i], 0, next_key(), 0, &mr[1], NULL));
        OK(fi_mr_regattr(side->domain, &attr, 0, &mr[2]));
        CHECK_PTR(mr[2]->fid.context, &attr);
        for (int k = 0; k < 3; k++) {
            CHECK_OP(fi_mr_key(mr[k]), !=, FI_KEY_NOTAVAIL);
            (void)fi_mr_desc(mr[k]);
        }
        CHECK_OP(fi_mr_key(mr[0]), !=, fi_mr_key(mr[1]));
        CHECK_OP(fi_mr_key(mr[1]), !=, fi_mr_key(mr[2]));
        for (int k = 0; k < 3; k++) OK(fi_close(&mr[k]->fid));
    }
}

CASE(own_keys_are_kept, 1, "fi_mr_reg: without FI_MR_PROV_KEY the region has the requested key")
{
    struct side *side = own_keys();
    static const uint64_t KEYS[] = {
        0, 1, 255, 65536, 0x7fffffff, 0xffffffff, 0x123456789abcdef, 0x7fffffffffffffff, 0xfffffffffffffffe};
    char *memory = buffer(64);
    struct fid_mr *mr[COUNT_OF(KEYS)] = {NULL};
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) {
        about("key 0x%llx", (unsigned long long)KEYS[i]);
        OK(fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 0, KEYS[i], 0, &mr[i], NULL));
        CHECK_EQ(fi_mr_key(mr[i]), KEYS[i]);
    }
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) OK(fi_close(&mr[i]->fid));
}

CASE(a_key_in_use, 1, "fi_mr_reg: a key that is in use is -FI_ENOKEY; after its region is closed it can be used again")
{
    struct side *side = own_keys();
    char *memory = buffer(128);
    struct fid_mr *mr = NULL, *second = NULL;
    for (int round = 0; round < 3; round++) {
        OK(fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 0, 4711, 0, &mr, NULL));
        CHECK_RC(fi_mr_reg(side->domain, memory + 64, 64, FI_REMOTE_WRITE, 0, 4711, 0, &second, NULL), -FI_ENOKEY);
        OK(fi_close(&mr->fid));
    }
}

CASE(keys_of_domains_are_apart, 1, "fi_mr: two domains may use the same key, each for its own memory")
{
    struct pair p = pair_open(OWN_KEYS);
    struct side *sides[2] = {p.a, p.b};
    char *memory[2] = {buffer(64), buffer(64)}, *in = buffer(64);
    struct fid_mr *mr[2];
    for (int i = 0; i < 2; i++) {
        memset(memory[i], 'A' + i, 64);
        OK(fi_mr_reg(sides[i]->domain, memory[i], 64, ACCESS_ALL, 0, 99, 0, &mr[i], NULL));
    }
    POST(fi_read(p.a->ep, in, 64, NULL, p.to_b, 0, 99, NULL));
    WAIT_TX(p.a);
    CHECK_BYTES(in, 64, 'B');
    POST(fi_read(p.b->ep, in, 64, NULL, p.to_a, 0, 99, NULL));
    WAIT_TX(p.b);
    CHECK_BYTES(in, 64, 'A');
    for (int i = 0; i < 2; i++) OK(fi_close(&mr[i]->fid));
}

CASE(wrong_arguments, 1, "fi_mr_reg: an offset, an unknown access or flag, too many pieces are refused",
     .stock = "tcp;ofi_rxm: takes an offset | shm: takes an offset | sockets: takes an offset")
{
    struct side *side = side_open(RMA_WANTS);
    char *memory = buffer(4096);
    struct fid_mr *mr = NULL;
    struct iovec iov[65];
    for (int i = 0; i < 65; i++) iov[i] = (struct iovec){memory + 8 * i, 8};
    CHECK_RC(fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 8, next_key(), 0, &mr, NULL), -FI_EINVAL);
    REFUSED(fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 0, next_key(), FI_PEEK, &mr, NULL));
    REFUSED(fi_mr_reg(side->domain, memory, 64, 1ull << 40, 0, next_key(), 0, &mr, NULL));
    CHECK_OP(side->info->domain_attr->mr_iov_limit, <, 65);
    REFUSED(fi_mr_regv(side->domain, iov, side->info->domain_attr->mr_iov_limit + 1, FI_REMOTE_READ, 0, next_key(), 0,
                       &mr, NULL));
    REFUSED(fi_mr_regv(side->domain, iov, 0, FI_REMOTE_READ, 0, next_key(), 0, &mr, NULL));
}

CASE(no_bytes, 1,
     "fi_mr_reg: a region of zero bytes is refused; or, as with our provider for windows of zero bytes, has a key "
     "that grants nothing")
{
    struct pair p = pair_open(RMA_WANTS);
    char *memory = buffer(64), in[8];
    struct fid_mr *mr = NULL;
    int rc = fi_mr_reg(p.b->domain, memory, 0, ACCESS_ALL, 0, next_key(), 0, &mr, NULL);
    if (!is_ours()) {
        if (rc == 0) OK(fi_close(&mr->fid));
        return;
    }
    OK(rc);
    POST(fi_read(p.a->ep, in, 1, NULL, p.to_b, 0, fi_mr_key(mr), &p));
    struct fi_cq_err_entry e = WAIT_ERROR(p.a->tx);
    CHECK_EQ(e.err, FI_EACCES);
    CHECK_PTR(e.op_context, &p);
    OK(fi_close(&mr->fid));
}

CASE(pieces, 1, "fi_mr_regv: pieces make one region; an offset counts over all of them",
     .stock = "shm: one piece only | sockets: one piece only")
{
    struct pair p = pair_open(
        (struct wants){.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = is_ours() ? 0 : MR_ANY});
    size_t limit = p.b->info->domain_attr->mr_iov_limit;
    CHECK_OP(limit, >=, 1);
    char *memory = buffer(64 * 16), *in = buffer(64 * 16);
    struct iovec iov[64];
    size_t count = limit < 8 ? limit : 8;
    if (count == 1) return;
    for (size_t i = 0; i < count; i++) {
        iov[i] = (struct iovec){memory + (count - 1 - i) * 32, 16 + i % 2}; /* from the last to the first */
        memset(iov[i].iov_base, 'a' + (int)i, iov[i].iov_len);
    }
    struct fid_mr *mr = NULL;
    OK(fi_mr_regv(p.b->domain, iov, count, ACCESS_ALL, 0, next_key(), 0, &mr, NULL));
    POST(fi_read(p.a->ep, in, 40, NULL, p.to_b, 8, fi_mr_key(mr), NULL));
    WAIT_TX(p.a);
    CHECK_BYTES(in, 8, 'a');
    CHECK_BYTES(in + 8, 17, 'b');
    CHECK_BYTES(in + 25, 15, 'c');
    POST(fi_write(p.a->ep, "0123456789", 10, NULL, p.to_b, 12, fi_mr_key(mr), NULL));
    WAIT_TX(p.a);
    UNTIL(memcmp((char *)iov[0].iov_base + 12, "0123", 4) == 0 && memcmp(iov[1].iov_base, "456789", 6) == 0);
    OK(fi_close(&mr->fid));
}

CASE(many_regions, 1,
     "fi_mr: 2,000 regions at once over the same and other memory, each found by its key, closed in another order")
{
    enum { COUNT = 2000 };
    struct pair p = pair_open(RMA_WANTS);
    uint32_t *memory = buffer(COUNT * 16);
    static struct region regions[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        memory[i * 4] = i;
        regions[i] = region_over(p.b, &memory[i * 4], 16, ACCESS_ALL);
    }
    for (uint32_t n = 0; n < 500; n++) {
        uint32_t i = n * 37 % COUNT, in = ~0u;
        about("region %u", i);
        POST(fi_read(p.a->ep, &in, 4, NULL, p.to_b, regions[i].base, regions[i].key, NULL));
        WAIT_TX(p.a);
        CHECK_EQ(in, i);
    }
    for (uint32_t i = 0; i < COUNT; i++) region_close(&regions[i * 7 % COUNT]);
}

CASE(unmapped_memory, 1, "fi_mr: without FI_MR_ALLOCATED a range may be registered before memory is mapped there",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open(OWN_KEYS);
    struct fid_mr *mr = NULL;
    OK(fi_mr_reg(p.b->domain, (void *)0x10000000, 1 << 20, ACCESS_ALL, 0, 5, 0, &mr, NULL));
    char in[8];
    POST(fi_read(p.a->ep, in, 8, NULL, p.to_b, 0, 5, &p));
    struct fi_cq_err_entry e = WAIT_ERROR(p.a->tx);
    CHECK_EQ(e.err, FI_EFAULT);
    CHECK_PTR(e.op_context, &p);
    OK(fi_close(&mr->fid));
}

CASE(the_whole_address_space, 1,
     "fi_mr: without FI_MR_ALLOCATED, one region may span all addresses: offsets are addresses then",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open(OWN_KEYS);
    struct fid_mr *mr = NULL;
    uint64_t *word = buffer(8), in = 0;
    OK(fi_mr_reg(p.b->domain, NULL, UINTPTR_MAX, ACCESS_ALL, 0, 5, 0, &mr, NULL));
    *word = 0x1234567;
    POST(fi_read(p.a->ep, &in, 8, NULL, p.to_b, (uintptr_t)word, 5, NULL));
    WAIT_TX(p.a);
    CHECK_EQ(in, 0x1234567);
    OK(fi_close(&mr->fid));
}

CASE(refresh_and_enable, 1,
     "fi_mr_refresh, fi_mr_enable: without the mode bits that need them they do no harm, or are refused",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open(RMA_WANTS);
    char *memory = buffer(64), in[8];
    struct region r = region_over(p.b, memory, 64, ACCESS_ALL);
    struct iovec iov = {memory, 64};
    int rc = fi_mr_refresh(r.mr, &iov, 1, 0);
    CHECK_OP(rc, <=, 0);
    rc = fi_mr_enable(r.mr);
    CHECK_OP(rc, <=, 0);
    POST(fi_read(p.a->ep, in, 8, NULL, p.to_b, r.base, r.key, NULL));
    WAIT_TX(p.a);
}

CASE(raw_keys, 1,
     "fi_mr_raw_attr, fi_mr_map_raw: usable with any region: the raw key maps to one that works; a small buffer is "
     "-FI_ETOOSMALL",
     .stock = "tcp;ofi_rxm: has no raw keys | shm: has no raw keys | sockets: has no raw keys")
{
    struct pair p = pair_open(RMA_WANTS);
    char *memory = buffer(64), in[8];
    memset(memory, 'm', 64);
    struct region r = region_over(p.b, memory, 64, ACCESS_ALL);
    uint8_t raw[64];
    uint64_t base = 1, key = 0;
    size_t bytes = 0;
    CHECK_RC(fi_mr_raw_attr(r.mr, &base, raw, &bytes, 0), -FI_ETOOSMALL);
    CHECK_OP(bytes, >, 0);
    CHECK_OP(bytes, <=, sizeof raw);
    OK(fi_mr_raw_attr(r.mr, &base, raw, &bytes, 0));
    OK(fi_mr_map_raw(p.a->domain, base, raw, bytes, &key, 0));
    POST(fi_read(p.a->ep, in, 8, NULL, p.to_b, r.base, key, NULL));
    WAIT_TX(p.a);
    CHECK_BYTES(in, 8, 'm');
    OK(fi_mr_unmap_key(p.a->domain, key));
}

/* ---- Counters of regions ----------------------------------------------------------------------------------------- */

CASE(region_counters, 1,
     "fi_mr_bind: a counter of a region counts the writes and atomics that modify it, and not those of its neighbour",
     .stock = "shm: has no counters of regions | sockets: closes the counter under its region")
{
    struct wants wants = {.caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT};
    struct pair p = pair_open(wants);
    char *memory = buffer(20000), *out = buffer(20000);
    struct fid_cntr *cntr = counter_open(p.b, FI_WAIT_NONE);
    struct region counted = region_flagged(p.b, memory, 10000, ACCESS_ALL, FI_RMA_EVENT);
    struct region other = region_over(p.b, memory + 10000, 10000, ACCESS_ALL);
    OK(fi_mr_bind(counted.mr, &cntr->fid, FI_REMOTE_WRITE));
    if (p.b->info->domain_attr->mr_mode & FI_MR_RMA_EVENT) OK(fi_mr_enable(counted.mr));
    for (uint64_t i = 1; i <= 20; i++) {
        POST(fi_write(p.a->ep, out, i * 500, NULL, p.to_b, counted.base, counted.key, NULL));
        WAIT_TX(p.a);
        CHECK_COUNTER(cntr, i);
        POST(fi_write(p.a->ep, out, i * 500, NULL, p.to_b, other.base, other.key, NULL));
        WAIT_TX(p.a);
        CHECK_COUNTER(cntr, i);
    }
    uint64_t one = 1;
    POST(fi_atomic(p.a->ep, &one, 1, NULL, p.to_b, counted.base, counted.key, FI_UINT64, FI_SUM, NULL));
    WAIT_TX(p.a);
    CHECK_COUNTER(cntr, 21);
    uint64_t old, compare = 1;
    POST(fi_fetch_atomic(p.a->ep, &one, 1, NULL, &old, NULL, p.to_b, counted.base, counted.key, FI_UINT64, FI_SUM, NULL));
    WAIT_TX(p.a);
    CHECK_COUNTER(cntr, 22);
    POST(fi_compare_atomic(p.a->ep, &one, 1, NULL, &compare, NULL, &old, NULL, p.to_b, counted.base, counted.key,
                           FI_UINT64, FI_CSWAP, NULL));
    WAIT_TX(p.a);
    CHECK_COUNTER(cntr, 23);
    about("no modification");
    POST(fi_fetch_atomic(p.a->ep, &one, 1, NULL, &old, NULL, p.to_b, counted.base, counted.key, FI_UINT64, FI_ATOMIC_READ,
                         NULL));
    WAIT_TX(p.a);
    CHECK_COUNTER(cntr, 23);
    POST(fi_read(p.a->ep, out, 100, NULL, p.to_b, counted.base, counted.key, NULL));
    WAIT_TX(p.a);
    CHECK_COUNTER(cntr, 23);
    CHECK_RC(fi_close(&cntr->fid), -FI_EBUSY); /* the region is bound */
    region_close(&counted);
}

CASE(region_counter_of_the_region_mode, 1,
     "FI_MR_RMA_EVENT: if the provider keeps the bit a region is enabled after binding; if it clears it, at once",
     .stock = "shm: has no counters of regions | sockets: a wait that would sleep returns 110")
{
    struct wants wants = {
        .caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .mr_mode_exact = true, .mr_mode = MR_ANY | FI_MR_RMA_EVENT};
    struct pair p = pair_open(wants);
    char *memory = buffer(64), *out = buffer(64);
    struct fid_cntr *cntr = counter_open(p.b, FI_WAIT_UNSPEC);
    struct region r = region_flagged(p.b, memory, 64, ACCESS_ALL, FI_RMA_EVENT);
    OK(fi_mr_bind(r.mr, &cntr->fid, FI_REMOTE_WRITE));
    if (p.b->info->domain_attr->mr_mode & FI_MR_RMA_EVENT) OK(fi_mr_enable(r.mr));
    POST(fi_write(p.a->ep, out, 64, NULL, p.to_b, r.base, r.key, NULL));
    OK(fi_cntr_wait(cntr, 1, WAIT_MS));
    WAIT_TX(p.a);
    region_close(&r);
}
