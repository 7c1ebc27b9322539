/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Atomic operations: the number of elements of one call, the forms of the calls, completions, and operations of several
 * processes on one word. fi_atomic(3).
 */
#include "atomics.h"

CASE(counts, 1,
     "fi_atomic: takes up to the number of elements that the valid call returns; one more is refused, and so is zero",
     .stock = "tcp;ofi_rxm: -FI_EINVAL | shm: takes more | sockets: takes more")
{
    struct setup b = setup_open();
    size_t most = 0;
    OK(fi_fetch_atomicvalid(b.p.a->ep, FI_UINT64, FI_SUM, &most));
    size_t tried = most < 8000 ? most : 8000;
    uint64_t *operand = buffer((tried + 1) * 8), *result = buffer((tried + 1) * 8), *memory = (uint64_t *)b.memory;
    for (size_t i = 0; i <= tried; i++) {
        operand[i] = i;
        memory[i] = 1000;
    }
    POST(fi_fetch_atomic(b.p.a->ep, operand, tried, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key,
                         FI_UINT64, FI_SUM, NULL));
    WAIT_TX(b.p.a);
    for (size_t i = 0; i < tried; i++) {
        CHECK_EQ(memory[i], 1000 + i);
        CHECK_EQ(result[i], 1000);
    }
    CHECK_EQ(memory[tried], 1000);
    if (most == tried)
        CHECK_RC(fi_fetch_atomic(b.p.a->ep, operand, most + 1, NULL, result, NULL, b.p.to_b, b.region.base,
                                 b.region.key, FI_UINT64, FI_SUM, NULL),
                 -FI_EMSGSIZE);
    OK(fi_compare_atomicvalid(b.p.a->ep, FI_UINT64, FI_CSWAP, &most));
    if (most < 8000)
        CHECK_RC(fi_compare_atomic(b.p.a->ep, operand, most + 1, NULL, operand, NULL, result, NULL, b.p.to_b,
                                   b.region.base, b.region.key, FI_UINT64, FI_CSWAP, NULL),
                 -FI_EMSGSIZE);
    REFUSED(fi_atomic(b.p.a->ep, operand, 0, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM, NULL));
}

/* ---- Forms of the calls ------------------------------------------------------------------------------------------ */

CASE(forms, 1,
     "fi_atomicv, atomicmsg, inject_atomic, fetch_atomicv, fetch_atomicmsg, compare_atomicv, compare_atomicmsg: "
     "pieces on each side; flags and context as for other operations")
{
    struct setup b = setup_open();
    uint64_t *memory = (uint64_t *)b.memory, operand[4] = {1, 2, 3, 4}, result[4], compare[4];
    struct fid_ep *ep = b.p.a->ep;
    bool many = b.p.a->info->tx_attr->iov_limit >= 2, many_there = b.p.a->info->tx_attr->rma_iov_limit >= 2;
    struct fi_ioc from[2] = {{operand, many ? 3 : 4}, {operand + 3, 1}},
                  into[2] = {{result, many ? 1 : 4}, {result + 1, 3}},
                  against[2] = {{compare, many ? 2 : 4}, {compare + 2, 2}};
    struct fi_rma_ioc there[2] = {{b.region.base, many_there ? 2 : 4, b.region.key},
                                  {b.region.base + 80, 2, b.region.key}};
    size_t n = many ? 2 : 1, m = many_there ? 2 : 1;
    uint64_t *second = many_there ? memory + 10 : memory + 2; /* the memory of elements 2 and 3 */
    struct fi_msg_atomic msg = {.msg_iov = from,
                                .iov_count = n,
                                .addr = b.p.to_b,
                                .rma_iov = there,
                                .rma_iov_count = m,
                                .datatype = FI_UINT64,
                                .op = FI_SUM,
                                .context = CONTEXT(3)};
#define RESET()                                                                                                        \
    (memset(memory, 0, 128), memory[0] = 10, memory[1] = 20, second[0] = 30, second[1] = 40,                           \
     memset(result, 0, sizeof result))
#define IS(a, b, c, d) (CHECK_EQ(memory[0], a), CHECK_EQ(memory[1], b), CHECK_EQ(second[0], c), CHECK_EQ(second[1], d))
    about("fi_atomicmsg");
    RESET();
    POST(fi_atomicmsg(ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
    struct completion c = WAIT_TX(b.p.a);
    CHECK_PTR(c.context, CONTEXT(3));
    CHECK_FLAGS(c.flags, FI_ATOMIC, FI_MSG | FI_TAGGED);
    IS(11, 22, 33, 44);
    about("fi_fetch_atomicmsg");
    RESET();
    POST(fi_fetch_atomicmsg(ep, &msg, into, NULL, n, FI_COMPLETION));
    CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(3));
    IS(11, 22, 33, 44);
    for (int i = 0; i < 4; i++) CHECK_EQ(result[i], 10 * (i + 1));
    about("fi_compare_atomicmsg");
    size_t most = 0;
    OK(fi_compare_atomicvalid(ep, FI_UINT64, FI_CSWAP, &most));
    RESET();
    msg.op = FI_CSWAP;
    memcpy(compare, (uint64_t[]){10, 0, 30, 0}, sizeof compare);
    if (most >= 4) {
        POST(fi_compare_atomicmsg(ep, &msg, against, NULL, n, into, NULL, n, FI_COMPLETION));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(3));
        IS(1, 20, 3, 40);
        for (int i = 0; i < 4; i++) CHECK_EQ(result[i], 10 * (i + 1));
    } else {
        struct fi_ioc one[3] = {{operand, 1}, {compare, 1}, {result, 1}};
        struct fi_rma_ioc one_there = {b.region.base, 1, b.region.key};
        msg.msg_iov = one;
        msg.rma_iov = &one_there;
        msg.iov_count = msg.rma_iov_count = 1;
        POST(fi_compare_atomicmsg(ep, &msg, &one[1], NULL, 1, &one[2], NULL, 1, FI_COMPLETION));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(3));
        IS(1, 20, 30, 40);
        CHECK_EQ(result[0], 10);
    }
    second = memory + 2;
    about("fi_atomicv");
    RESET();
    POST(fi_atomicv(ep, from, NULL, n, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM, CONTEXT(4)));
    CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(4));
    UNTIL(*(volatile uint64_t *)&memory[3] == 44);
    IS(11, 22, 33, 44);
    about("fi_fetch_atomicv");
    RESET();
    POST(fi_fetch_atomicv(ep, from, NULL, n, into, NULL, n, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_PROD,
                          CONTEXT(5)));
    CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(5));
    IS(10, 40, 90, 160);
    for (int i = 0; i < 4; i++) CHECK_EQ(result[i], 10 * (i + 1));
    about("fi_compare_atomicv");
    RESET();
    if (most >= 4) {
        POST(fi_compare_atomicv(ep, from, NULL, n, against, NULL, n, into, NULL, n, b.p.to_b, b.region.base,
                                b.region.key, FI_UINT64, FI_CSWAP_NE, CONTEXT(6)));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(6));
        IS(10, 2, 30, 4);
    } else {
        struct fi_ioc one[3] = {{operand, 1}, {compare + 1, 1}, {result, 1}};
        POST(fi_compare_atomicv(ep, one, NULL, 1, &one[1], NULL, 1, &one[2], NULL, 1, b.p.to_b, b.region.base,
                                b.region.key, FI_UINT64, FI_CSWAP_NE, CONTEXT(6)));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(6));
        IS(1, 20, 30, 40);
    }
    about("fi_inject_atomic");
    RESET();
    POST(fi_inject_atomic(ep, operand, 4, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM));
    memset(operand, 0, sizeof operand);
    UNTIL(*(volatile uint64_t *)&memory[3] == 44);
    IS(11, 22, 33, 44);
    CHECK_NONE(b.p.a->tx, 3);
}

CASE(injected, 1, "fi_atomicmsg, fetch_atomicmsg, compare_atomicmsg: with FI_INJECT operands and comparands may change at once")
{
    struct setup b = setup_open();
    uint64_t *memory = (uint64_t *)b.memory, operand = 5, old = 0, compare = 12;
    struct fi_ioc from = {&operand, 1}, into = {&old, 1}, against = {&compare, 1};
    struct fi_rma_ioc there = {b.region.base, 1, b.region.key};
    struct fi_msg_atomic msg = {.msg_iov = &from,
                                .iov_count = 1,
                                .addr = b.p.to_b,
                                .rma_iov = &there,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM};
    memory[0] = 7;
    POST(fi_fetch_atomicmsg(b.p.a->ep, &msg, &into, NULL, 1, FI_INJECT | FI_COMPLETION));
    operand = 99;
    WAIT_TX(b.p.a);
    CHECK_EQ(old, 7);
    CHECK_EQ(memory[0], 12);
    msg.op = FI_CSWAP;
    operand = 20;
    POST(fi_compare_atomicmsg(b.p.a->ep, &msg, &against, NULL, 1, &into, NULL, 1, FI_INJECT | FI_COMPLETION));
    operand = compare = 99;
    WAIT_TX(b.p.a);
    CHECK_EQ(old, 12);
    CHECK_EQ(memory[0], 20);
    msg.op = FI_SUM;
    operand = 1;
    POST(fi_atomicmsg(b.p.a->ep, &msg, FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE));
    operand = 99;
    WAIT_TX(b.p.a);
    CHECK_EQ(memory[0], 21);
}

CASE(selective, 1, "FI_SELECTIVE_COMPLETION: only atomics with FI_COMPLETION write an entry")
{
    struct wants wants = WANTS;
    wants.bind_tx = FI_SELECTIVE_COMPLETION;
    struct pair p = pair_open(wants);
    uint64_t *memory = buffer(8), one = 1, old = 77;
    struct region r = region_over(p.b, memory, 8, ACCESS_ALL);
    POST(fi_atomic(p.a->ep, &one, 1, NULL, p.to_b, r.base, r.key, FI_UINT64, FI_SUM, CONTEXT(1)));
    POST(fi_fetch_atomic(p.a->ep, &one, 1, NULL, &old, NULL, p.to_b, r.base, r.key, FI_UINT64, FI_SUM, CONTEXT(2)));
    struct fi_ioc from = {&one, 1};
    struct fi_rma_ioc there = {r.base, 1, r.key};
    struct fi_msg_atomic msg = {.msg_iov = &from,
                                .iov_count = 1,
                                .addr = p.to_b,
                                .rma_iov = &there,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM,
                                .context = CONTEXT(3)};
    POST(fi_atomicmsg(p.a->ep, &msg, 0));
    POST(fi_atomicmsg(p.a->ep, &msg, FI_COMPLETION));
    CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(3));
    UNTIL(*(volatile uint64_t *)memory == 4);
    CHECK_NONE(p.a->tx, 3);
}

CASE(unaligned, 1,
     "fi_atomic: an element that is not aligned is handled, or refused with an error; nothing beside it changes",
     .needs = OUR_PROVIDER)
{
    struct setup b = setup_open();
    uint64_t one = 1, old = 0;
    POST(fi_fetch_atomic(b.p.a->ep, &one, 1, NULL, &old, NULL, b.p.to_b, b.region.base + 3, b.region.key, FI_UINT64,
                         FI_SUM, NULL));
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry e = {0};
    long long until = now_ms() + WAIT_MS;
    ssize_t rc;
    while ((rc = fi_cq_read(b.p.a->tx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
    if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(b.p.a->tx, &e, 0), 1);
    else CHECK_RC(rc, 1);
    if (rc == 1) CHECK_EQ(b.memory[3], 1);
    CHECK_BYTES(b.memory, 3, 0);
    CHECK_BYTES(b.memory + 4, 16, 0);
}

/* ---- Several processes ------------------------------------------------------------------------------------------- */

CASE(fetch_add_by_four, 4,
     "fi_fetch_atomic: four processes add to one word at once: the sum is exact, and no two fetch the same value",
     .stock = "sockets: an atomic hangs now and then")
{
    enum { EACH = 1000 };
    struct side *side = job_open(WANTS);
    uint64_t *word = buffer(16);
    struct region r = region_over(side, word, 16, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    unsigned char *seen = shared();
    for (int i = 0; i < EACH; i++) {
        uint64_t one = 1, old = ~0ull;
        POST(fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, to(0), all[0].base, all[0].key, FI_UINT64, FI_SUM,
                             NULL));
        WAIT_TX(side);
        CHECK_OP(old, <, 4 * EACH);
        CHECK_EQ(__atomic_fetch_add(&seen[old], 1, __ATOMIC_SEQ_CST), 0);
    }
    barrier();
    if (rank() == 0) CHECK_EQ(*word, 4 * EACH);
}

CASE(adds_of_all_types_by_four, 4,
     "fi_atomic: four processes add to words of several sizes, integers and reals, with the owner among them")
{
    enum { EACH = 500 };
    struct side *side = job_open(WANTS);
    struct {
        uint64_t u64;
        uint32_t u32;
        uint16_t u16;
        uint8_t u8;
        uint8_t pad;
        float f;
        double d;
    } *words = buffer(sizeof *words);
    struct region r = region_over(side, words, sizeof *words, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    const struct {
        size_t at;
        enum fi_datatype type;
    } FIELDS[] = {{offsetof(__typeof__(*words), u64), FI_UINT64}, {offsetof(__typeof__(*words), u32), FI_UINT32},
                  {offsetof(__typeof__(*words), u16), FI_UINT16}, {offsetof(__typeof__(*words), u8), FI_UINT8},
                  {offsetof(__typeof__(*words), f), FI_FLOAT},    {offsetof(__typeof__(*words), d), FI_DOUBLE}};
    static uint64_t one_u = 1;
    static float one_f = 1;
    static double one_d = 1;
    for (int i = 0; i < EACH; i++) {
        size_t f = (size_t)(i + rank()) % COUNT_OF(FIELDS);
        const void *one = FIELDS[f].type == FI_FLOAT    ? (void *)&one_f
                          : FIELDS[f].type == FI_DOUBLE ? (void *)&one_d
                                                        : (void *)&one_u;
        POST(fi_atomic(side->ep, one, 1, NULL, to(3), all[3].base + FIELDS[f].at, all[3].key, FIELDS[f].type, FI_SUM,
                       NULL));
        WAIT_TX(side);
    }
    /* when this later fetch completes, the operations are done */
    uint64_t old;
    POST(fi_fetch_atomic(side->ep, NULL, 1, NULL, &old, NULL, to(3), all[3].base, all[3].key, FI_UINT64, FI_ATOMIC_READ,
                         NULL));
    WAIT_TX(side);
    barrier();
    if (rank() != 3) return;
    uint64_t wanted[COUNT_OF(FIELDS)] = {0};
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < EACH; i++) wanted[(size_t)(i + k) % COUNT_OF(FIELDS)]++;
    CHECK_EQ(words->u64, wanted[0]);
    CHECK_EQ(words->u32, wanted[1]);
    CHECK_EQ(words->u16, wanted[2]);
    CHECK_EQ(words->u8, (uint8_t)wanted[3]);
    CHECK_EQ(words->pad, 0);
    CHECK_OP(words->f, ==, (float)wanted[4]);
    CHECK_OP(words->d, ==, (double)wanted[5]);
}

CASE(lock_by_compare_and_swap, 4,
     "fi_compare_atomic: a lock of four processes by FI_CSWAP guards a counter that is read and written by RMA")
{
    enum { EACH = 50 };
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA | FI_ATOMIC});
    uint64_t *words = buffer(16); /* lock, counter */
    struct region r = region_over(side, words, 16, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    uint64_t mine = (uint64_t)rank() + 1, free_value = 0, old, counter;
    for (int i = 0; i < EACH; i++) {
        long long until = now_ms() + WAIT_MS;
        do {
            if (now_ms() > until) FAIL("round %d: the lock is never free, held by %llu", i, (unsigned long long)old);
            POST(fi_compare_atomic(side->ep, &mine, 1, NULL, &free_value, NULL, &old, NULL, to(0), all[0].base,
                                   all[0].key, FI_UINT64, FI_CSWAP, NULL));
            WAIT_TX(side);
        } while (old != 0);
        POST(fi_read(side->ep, &counter, 8, NULL, to(0), all[0].base + 8, all[0].key, NULL));
        WAIT_TX(side);
        counter++;
        struct iovec iov = {&counter, 8};
        struct fi_rma_iov rma = {all[0].base + 8, 8, all[0].key};
        struct fi_msg_rma msg = {.msg_iov = &iov, .iov_count = 1, .addr = to(0), .rma_iov = &rma, .rma_iov_count = 1};
        POST(fi_writemsg(side->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
        WAIT_TX(side);
        POST(fi_compare_atomic(side->ep, &free_value, 1, NULL, &mine, NULL, &old, NULL, to(0), all[0].base, all[0].key,
                               FI_UINT64, FI_CSWAP, NULL));
        WAIT_TX(side);
        CHECK_EQ(old, mine);
    }
    barrier();
    if (rank() == 0) CHECK_EQ(words[1], 4 * EACH);
}

CASE(target_sleeps, 2, "FI_PROGRESS_AUTO: atomics complete while the target's program calls nothing")
{
    struct wants wants = WANTS;
    wants.progress = FI_PROGRESS_AUTO;
    struct side *side = job_open(wants);
    uint64_t *word = buffer(8), one = 1, old = 5;
    struct region r = region_over(side, word, 8, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 0)
        for (uint64_t i = 0; i < 100; i++) {
            POST(fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, to(1), all[1].base, all[1].key, FI_UINT64, FI_SUM,
                                 NULL));
            WAIT_TX(side);
            CHECK_EQ(old, i);
        }
    barrier_asleep();
}
