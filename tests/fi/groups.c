/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Groups of collective operations: sets of addresses, joins, several groups, several outstanding operations, misuse,
 * members that disagree, and members that die. fi_av_set(3), fi_collective(3), fi_eq(3).
 */
#include "collectives.h"

#include <dirent.h>

/* Members of a set, in its order, found by a group. Collective among them. */
static int order_of(struct side *side, struct fid_av_set *set, uint64_t *members)
{
    struct fid_mc *mc = join_begin(side, set, CONTEXT(1));
    OK(join_end(side, mc, CONTEXT(1)));
    uint64_t own = (uint64_t)rank() + 1;
    memset(members, 0, RANKS_MAX * sizeof *members);
    DO(side, fi_allgather(side->ep, &own, 1, NULL, members, NULL, fi_mc_addr(mc), FI_UINT64, 0, CONTEXT(9)));
    OK(fi_close(&mc->fid));
    int count = 0;
    while (count < RANKS_MAX && members[count] != 0) count++;
    return count;
}

static bool has(struct fid_av_set *set, int member)
{
    int rc = fi_av_set_insert(set, to(member));
    if (rc == 0) OK(fi_av_set_remove(set, to(member)));
    else CHECK_RC(rc, -FI_EINVAL);
    return rc != 0;
}

static void check_set(struct fid_av_set *set, unsigned wanted)
{
    for (int r = 0; r < ranks(); r++) {
        about("member %d of 0x%x", r, wanted);
        CHECK_EQ(has(set, r), wanted >> r & 1);
    }
}

CASE(sets, 6, "fi_av_set: ranges, strides, all; union, intersection, difference, insertion and removal, in their order",
     POSSIBLE)
{
    struct side *side = job_open(WANTS);
    struct fi_av_set_attr attr = {.start_addr = to(1), .end_addr = to(5), .stride = 2, .count = 3};
    struct fid_av_set *odd = NULL, *all = NULL, *few = NULL, *bad = NULL;
    OK(fi_av_set(side->av, &attr, &odd, CONTEXT(5)));
    CHECK_EQ(odd->fid.fclass, FI_CLASS_AV_SET);
    CHECK_PTR(odd->fid.context, CONTEXT(5));
    check_set(odd, 0x2a);
    struct fi_av_set_attr universe = {
        .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_UNIVERSE | FI_BARRIER_SET};
    OK(fi_av_set(side->av, &universe, &all, NULL));
    check_set(all, 0x3f);
    few = set_of(side, (const int[]){3, 0}, 2);
    check_set(few, 0x09);
    OK(fi_av_set_union(few, odd));
    check_set(few, 0x2b);
    OK(fi_av_set_union(few, few));
    check_set(few, 0x2b);
    OK(fi_av_set_intersect(all, odd));
    check_set(all, 0x2a);
    OK(fi_av_set_remove(odd, to(5)));
    CHECK_RC(fi_av_set_remove(odd, to(5)), -FI_EINVAL);
    OK(fi_av_set_diff(all, odd));
    check_set(all, 0x20);
    OK(fi_av_set_diff(all, all));
    check_set(all, 0);
    CHECK_RC(fi_av_set_insert(all, 77), -FI_EINVAL);
    CHECK_RC(fi_av_set_insert(all, FI_ADDR_NOTAVAIL), -FI_EINVAL);
    uint64_t members[RANKS_MAX];
    if (rank() == 3 || rank() == 0 || rank() == 1 || rank() == 5) {
        CHECK_EQ(order_of(side, few, members), 4);
        CHECK_EQ(members[0], 3 + 1);
        CHECK_EQ(members[1], 0 + 1);
        CHECK_EQ(members[2], 1 + 1);
        CHECK_EQ(members[3], 5 + 1);
    }
    attr.count = 2;
    CHECK_RC(fi_av_set(side->av, &attr, &bad, NULL), -FI_EINVAL);
    attr.count = 0, attr.stride = 0;
    CHECK_RC(fi_av_set(side->av, &attr, &bad, NULL), -FI_EINVAL);
    attr.stride = 1, attr.end_addr = to(0);
    CHECK_RC(fi_av_set(side->av, &attr, &bad, NULL), -FI_EINVAL);
    CHECK_RC(fi_av_set(side->av, NULL, &bad, NULL), -FI_EINVAL);
    universe.flags = 1ull << 50;
    CHECK_RC(fi_av_set(side->av, &universe, &bad, NULL), -FI_EBADFLAGS);
    universe.flags = FI_ALLTOALL_SET;
    CHECK_RC(fi_av_set(side->av, &universe, &bad, NULL), -FI_EOPNOTSUPP);
    CHECK_RC(fi_close(&side->av->fid), -FI_EBUSY);
    OK(fi_close(&few->fid));
    OK(fi_close(&odd->fid));
    OK(fi_close(&all->fid));
}

static uint64_t sum_in(struct side *side, struct fid_mc *mc, uint64_t own)
{
    uint64_t sum = 0;
    DO(side, fi_allreduce(side->ep, &own, 1, NULL, &sum, NULL, fi_mc_addr(mc), FI_UINT64, FI_SUM, 0, CONTEXT(9)));
    return sum;
}

CASE(several_groups, 5,
     "groups of overlapping subsets of a vector: joins may be outstanding at once, in any order, and operations of "
     "all groups too; a group may be made from a group",
     POSSIBLE)
{
    enum { SUBSETS = 6 };
    static const struct { int count, members[5]; } SETS[SUBSETS] = {
        {5, {0, 1, 2, 3, 4}}, {2, {4, 0}}, {3, {1, 2, 3}}, {4, {3, 2, 1, 0}}, {3, {0, 2, 4}}, {2, {0, 4}},
    };
    struct side *side = job_open(WANTS);
    struct fid_mc *mc[SUBSETS] = {NULL};
    struct fid_av_set *sets[SUBSETS] = {NULL};
    int mine = 0;
    for (int i = 0; i < SUBSETS; i++) {
        int s = (i + 2 * rank()) % SUBSETS; /* in a different order at each rank */
        bool is_member = false;
        for (int m = 0; m < SETS[s].count; m++) is_member |= SETS[s].members[m] == rank();
        /* Two sets have the same members in different orders: all ranks join them in one order. */
        if (s == 1 || s == 5 || !is_member) continue;
        sets[s] = set_of(side, SETS[s].members, SETS[s].count);
        mc[s] = join_begin(side, sets[s], CONTEXT(s));
        mine++;
    }
    for (int s = 1; s < SUBSETS; s += 4)
        if (rank() == 0 || rank() == 4) {
            sets[s] = set_of(side, SETS[s].members, SETS[s].count);
            mc[s] = join_begin(side, sets[s], CONTEXT(s));
            mine++;
        }
    for (int left = mine; left > 0; left--) {
        struct fi_eq_entry entry = {0};
        uint32_t event;
        ssize_t rc;
        UNTIL((rc = fi_eq_read(side->eq, &event, &entry, sizeof entry, 0)) != -FI_EAGAIN);
        CHECK_RC(rc, (long long)sizeof entry);
        CHECK_EQ(event, FI_JOIN_COMPLETE);
    }
    for (int round = 0; round < 50; round++) {
        uint64_t own = (uint64_t)(round * 100 + rank()), sums[SUBSETS] = {0};
        for (int i = 0; i < SUBSETS; i++) {
            int s = (i + rank() + round) % SUBSETS;
            if (mc[s] == NULL) continue;
            POST(fi_allreduce(side->ep, &own, 1, NULL, &sums[s], NULL, fi_mc_addr(mc[s]), FI_UINT64, FI_SUM, 0,
                              CONTEXT(s)));
        }
        for (int left = mine; left > 0; left--) WAIT_TX(side);
        for (int s = 0; s < SUBSETS; s++) {
            if (mc[s] == NULL) continue;
            uint64_t want = 0;
            for (int m = 0; m < SETS[s].count; m++) want += (uint64_t)(round * 100 + SETS[s].members[m]);
            about("round %d set %d", round, s);
            CHECK_EQ(sums[s], want);
        }
    }
    /* A subgroup that uses the address of a group. */
    struct fid_av_set *pair = set_of(side, (const int[]){0, 1}, 2);
    if (rank() < 2) {
        struct fid_mc *of_group = NULL;
        POST(fi_join_collective(side->ep, fi_mc_addr(mc[0]), pair, 0, &of_group, NULL));
        OK(join_end(side, of_group, NULL));
        CHECK_EQ(sum_in(side, of_group, (uint64_t)rank() + 5), 11);
        OK(fi_close(&of_group->fid));
    }
    OK(fi_close(&pair->fid));
    for (int s = 0; s < SUBSETS; s++)
        if (mc[s] != NULL) {
            OK(fi_close(&mc[s]->fid));
            OK(fi_close(&sets[s]->fid));
        }
}

CASE(many_under_way, 4,
     "many outstanding operations of a group, of all kinds and lengths: each is right, and each completes once",
     POSSIBLE)
{
    enum { COUNT = 300, N = 700 };
    struct side *side = job_open(WANTS);
    struct fid_mc *mc = group_of_all(side);
    fi_addr_t group = fi_mc_addr(mc);
    uint32_t *from = buffer(COUNT * N * 4), *result = buffer(COUNT * N * 4 * 4);
    for (int i = 0; i < COUNT * N; i++) from[i] = (uint32_t)(i * 7 + rank());
    int done[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        uint32_t *a = from + i * N, *b = result + i * N * 4;
        size_t n = i % 3 == 0 ? 1 : i % 3 == 1 ? 40 : N;
        fi_addr_t root = to(i % 4);
        switch (i % 7) {
        case 0: POST(fi_barrier2(side->ep, group, FI_COMPLETION, CONTEXT(i))); break;
        case 1: POST(fi_allreduce(side->ep, a, n, NULL, b, NULL, group, FI_UINT32, FI_SUM, 0, CONTEXT(i))); break;
        case 2: POST(fi_broadcast(side->ep, a, n, NULL, group, root, FI_UINT32, 0, CONTEXT(i))); break;
        case 3: POST(fi_allgather(side->ep, a, n, NULL, b, NULL, group, FI_UINT32, 0, CONTEXT(i))); break;
        case 4: POST(fi_reduce(side->ep, a, n, NULL, b, NULL, group, root, FI_UINT32, FI_MAX, 0, CONTEXT(i))); break;
        case 5: POST(fi_gather(side->ep, a, n, NULL, b, NULL, group, root, FI_UINT32, 0, CONTEXT(i))); break;
        case 6: POST(fi_scatter(side->ep, a, n / 4 + 1, NULL, b, NULL, group, root, FI_UINT32, 0, CONTEXT(i))); break;
        }
    }
    for (int left = COUNT; left > 0; left--) {
        struct completion c = WAIT_TX(side);
        size_t i = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
        CHECK_OP(i, <, COUNT);
        CHECK_EQ(done[i]++, 0);
    }
    CHECK_NONE(side->tx, 20);
    for (int i = 0; i < COUNT; i++) {
        uint32_t *a = from + i * N, *b = result + i * N * 4;
        int n = i % 3 == 0 ? 1 : i % 3 == 1 ? 40 : N, root = i % 4;
        for (int k = 0; k < n; k++) {
            uint32_t base = (uint32_t)((i * N + k) * 7);
            about("operation %d element %d", i, k);
            if (i % 7 == 1) CHECK_EQ(b[k], 4 * base + 6);
            if (i % 7 == 2) CHECK_EQ(a[k], base + (uint32_t)root);
            if (i % 7 == 3 || (i % 7 == 5 && rank() == root))
                for (int r = 0; r < 4; r++) CHECK_EQ(b[r * n + k], base + (uint32_t)r);
            if (i % 7 == 4 && rank() == root) CHECK_EQ(b[k], base + 3);
            if (i % 7 == 6 && k < n / 4 + 1)
                CHECK_EQ(b[k], (uint32_t)((i * N + k + rank() * (n / 4 + 1)) * 7 + root));
        }
    }
    OK(fi_close(&mc->fid));
}

CASE(completions, 2,
     "an operation completes at the transmit queue with its context and FI_COLLECTIVE, under FI_SELECTIVE_COMPLETION "
     "only with FI_COMPLETION; the counter of writes counts it",
     POSSIBLE)
{
    struct wants wants = WANTS;
    wants.bind_tx = FI_SELECTIVE_COMPLETION;
    struct side *side = job_open(wants);
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_UNSPEC);
    OK(fi_ep_bind(side->ep, &cntr->fid, FI_WRITE));
    struct fid_mc *mc = group_of_all(side);
    POST(fi_barrier(side->ep, fi_mc_addr(mc), CONTEXT(1)));
    CHECK_COUNTER(cntr, 1);
    uint32_t own = 3, sum = 0;
    POST(fi_allreduce(side->ep, &own, 1, NULL, &sum, NULL, fi_mc_addr(mc), FI_UINT32, FI_SUM, 0, CONTEXT(2)));
    OK(fi_cntr_wait(cntr, 2, WAIT_MS));
    CHECK_EQ(sum, 6);
    CHECK_NONE(side->tx, 10);
    POST(fi_barrier2(side->ep, fi_mc_addr(mc), FI_COMPLETION, CONTEXT(3)));
    wait_for(side, CONTEXT(3));
    CHECK_COUNTER(cntr, 3);
    OK(fi_close(&mc->fid));
}

CASE(events_alone, 3, "reads of the event queue alone, blocking ones too, complete a join", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    for (int round = 0; round < 3; round++) {
        struct fid_av_set *set = set_of(side, (const int[]){2, 0, 1}, 3);
        struct fid_mc *mc = join_begin(side, set, CONTEXT(round));
        struct fi_eq_entry entry = {0};
        uint32_t event = 0;
        ssize_t rc = fi_eq_sread(side->eq, &event, &entry, sizeof entry, WAIT_MS, 0);
        CHECK_RC(rc, (long long)sizeof entry);
        CHECK_EQ(event, FI_JOIN_COMPLETE);
        OK(fi_close(&set->fid));
        OK(fi_close(&mc->fid));
    }
}

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(dir) != NULL) count++;
    closedir(dir);
    return count;
}

CASE(again_and_again, 3, "closing a group frees its resources, and the same members join again", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    int before = 0;
    for (int round = 0; round < 200; round++) {
        struct fid_mc *mc = group_of_all(side);
        CHECK_EQ(sum_in(side, mc, 1), 3);
        OK(fi_close(&mc->fid));
        if (round == 10) before = descriptors();
    }
    CHECK_OP(descriptors(), <=, before + 4);
}

CASE(in_one_domain, 1, "members may be endpoints of one domain, and of two domains of a process", POSSIBLE)
{
    for (int beside = 0; beside < 2; beside++) {
        struct pair p = beside ? pair_open_beside(WANTS) : pair_open(WANTS);
        struct side *sides[2] = {p.a, p.b};
        struct fid_av_set *sets[2];
        struct fid_mc *mc[2];
        uint64_t own[2] = {20, 22}, sums[2] = {0};
        /* Numbers in a's vector: b, a. In b's vector: b, a. */
        for (int i = 0; i < 2; i++) {
            struct fi_av_set_attr attr = {
                .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_UNIVERSE};
            OK(fi_av_set(sides[i]->av, &attr, &sets[i], NULL));
            mc[i] = join_begin(sides[i], sets[i], CONTEXT(i));
        }
        for (int i = 0; i < 2; i++) OK(join_end(sides[i], mc[i], CONTEXT(i)));
        for (int i = 0; i < 2; i++)
            POST(fi_allreduce(sides[i]->ep, &own[i], 1, NULL, &sums[i], NULL, fi_mc_addr(mc[i]), FI_UINT64, FI_SUM, 0,
                              CONTEXT(9)));
        for (int i = 0; i < 2; i++) wait_for(sides[i], CONTEXT(9));
        for (int i = 0; i < 2; i++) CHECK_EQ(sums[i], 42);
        for (int i = 0; i < 2; i++) {
            OK(fi_close(&mc[i]->fid));
            OK(fi_close(&sets[i]->fid));
        }
        side_close(p.b);
        side_close(p.a);
    }
}

CASE(beside_messages, 3,
     "the messages of a join do not match the program's receives: a receive from any sender stays posted", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    uint64_t in = 0, tagged = 0, out = (uint64_t)rank();
    POST(fi_recv(side->ep, &in, 8, NULL, FI_ADDR_UNSPEC, CONTEXT(1)));
    POST(fi_trecv(side->ep, &tagged, 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, CONTEXT(2)));
    struct fid_mc *mc = group_of_all(side);
    for (int i = 0; i < 100; i++) CHECK_EQ(sum_in(side, mc, 2), 6);
    CHECK_NONE(side->rx, 20);
    barrier();
    POST(fi_inject(side->ep, &out, 8, to((rank() + 1) % 3)));
    CHECK_PTR(WAIT_RX(side).context, CONTEXT(1));
    CHECK_EQ(in, (uint64_t)(rank() + 2) % 3);
    OK(fi_cancel(&side->ep->fid, CONTEXT(2)));
    OK(fi_close(&mc->fid));
}

/* ---- Misuse ------------------------------------------------------------------------------------------------------ */

CASE(wrong_calls, 2, "invalid calls are refused, and change nothing", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    struct fid_av_set *both = set_of(side, (const int[]){0, 1}, 2);
    struct fid_av_set *other = set_of(side, (const int[]){1 - rank()}, 1);
    struct fid_av_set *own = set_of(side, (const int[]){rank()}, 1);
    struct fid_mc *mc = NULL;
    fi_addr_t address = 0;
    OK(fi_av_set_addr(both, &address));
    CHECK_RC(fi_join_collective(side->ep, address, other, 0, &mc, NULL), -FI_EINVAL);
    CHECK_RC(fi_join_collective(side->ep, 0, both, 0, &mc, NULL), -FI_EINVAL);
    CHECK_RC(fi_join_collective(side->ep, address, NULL, 0, &mc, NULL), -FI_EINVAL);
    CHECK_RC(fi_join_collective(side->ep, address, both, FI_MULTICAST, &mc, NULL), -FI_EBADFLAGS);
    struct side *mute = side_open((struct wants){.caps = FI_MSG | FI_COLLECTIVE});
    struct side *plain = side_open((struct wants){.caps = FI_MSG, .events = true});
    struct fi_av_set_attr all = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_UNIVERSE};
    struct fid_av_set *set = NULL;
    CHECK_RC(fi_join_collective(mute->ep, address, both, 0, &mc, NULL), -FI_ENOEQ);
    OK(fi_av_set(plain->av, &all, &set, NULL));
    CHECK_RC(fi_join_collective(plain->ep, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL), -FI_EOPNOTSUPP);
    CHECK_RC(fi_barrier(plain->ep, 0, NULL), -FI_EOPNOTSUPP);
    CHECK_RC(fi_av_set_union(both, set), -FI_EINVAL);
    CHECK_RC(fi_join_collective(side->ep, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL), -FI_EINVAL);
    OK(fi_close(&set->fid));

    /* Before all have joined no operation can start. */
    if (rank() == 0) {
        mc = join_begin(side, both, CONTEXT(1));
        CHECK_RC(fi_barrier(side->ep, fi_mc_addr(mc), NULL), -FI_EOPBADSTATE);
        for (int i = 0; i < 1000; i++) progress();
        CHECK_RC(fi_eq_read(side->eq, &(uint32_t){0}, &(struct fi_eq_entry){0}, sizeof(struct fi_eq_entry), 0),
                 -FI_EAGAIN);
        barrier();
    } else {
        barrier();
        mc = join_begin(side, both, CONTEXT(1));
    }
    OK(join_end(side, mc, CONTEXT(1)));
    fi_addr_t group = fi_mc_addr(mc);
    uint32_t from[4] = {1, 2, 3, 4}, result[8];
    CHECK_RC(fi_barrier(side->ep, address, NULL), -FI_EINVAL);
    CHECK_RC(fi_barrier(side->ep, 0, NULL), -FI_EINVAL);
    CHECK_RC(fi_barrier(side->ep, group + 1, NULL), -FI_EINVAL);
    CHECK_RC(fi_barrier(mute->ep, group, NULL), -FI_EINVAL);
    CHECK_RC(fi_barrier2(side->ep, group, FI_TRIGGER, NULL), -FI_EBADFLAGS);
#define REDUCED(buf, count, to, type, op) fi_allreduce(side->ep, buf, count, NULL, to, NULL, group, type, op, 0, NULL)
    CHECK_RC(REDUCED(NULL, 4, result, FI_UINT32, FI_SUM), -FI_EINVAL);
    CHECK_RC(REDUCED(from, 4, NULL, FI_UINT32, FI_SUM), -FI_EINVAL);
    CHECK_RC(REDUCED(from, 0, result, FI_UINT32, FI_SUM), -FI_EINVAL);
    CHECK_RC(REDUCED(from, SIZE_MAX / 4, result, FI_UINT32, FI_SUM), -FI_EMSGSIZE);
    CHECK_RC(REDUCED(from, SIZE_MAX, result, FI_UINT32, FI_SUM), -FI_EMSGSIZE);
    CHECK_RC(REDUCED(from, 4, result, FI_UINT32, FI_ATOMIC_WRITE), -FI_EOPNOTSUPP);
    CHECK_RC(REDUCED(from, 4, result, FI_FLOAT, FI_BOR), -FI_EOPNOTSUPP);
    CHECK_RC(REDUCED(from, 4, result, FI_VOID, FI_SUM), -FI_EOPNOTSUPP);
    CHECK_RC(fi_broadcast(side->ep, from, 4, NULL, group, 77, FI_UINT32, 0, NULL), -FI_EINVAL);
    CHECK_RC(fi_scatter(side->ep, NULL, 1, NULL, result, NULL, group, to(rank()), FI_UINT32, 0, NULL), -FI_EINVAL);
    CHECK_RC(fi_gather(side->ep, from, 1, NULL, NULL, NULL, group, to(rank()), FI_UINT32, 0, NULL), -FI_EINVAL);
    REFUSED(fi_alltoall(side->ep, from, 1, NULL, result, NULL, group, FI_UINT32, 0, NULL));
    CHECK_NONE(side->tx, 10);
    CHECK_EQ(sum_in(side, mc, 4), 8);
    CHECK_RC(fi_close(&side->ep->fid), -FI_EBUSY);
    OK(fi_close(&mc->fid));

    mc = join_begin(side, own, NULL);
    OK(join_end(side, mc, NULL));
    CHECK_EQ(sum_in(side, mc, 4), 4);
    OK(fi_close(&mc->fid));
    OK(fi_close(&own->fid));
    OK(fi_close(&other->fid));
    OK(fi_close(&both->fid));
}

CASE(members_that_disagree, 3,
     "members that disagree on length, operation, type, root or collective all get FI_EINVAL, and the group still "
     "works",
     POSSIBLE)
{
    struct side *side = job_open(WANTS);
    struct fid_mc *mc = group_of_all(side);
    fi_addr_t group = fi_mc_addr(mc);
    uint64_t *from = buffer(1 << 20), *result = buffer(1 << 20);
    for (int odd = 0; odd < 3; odd++)
        for (int what = 0; what < 5; what++) {
            bool is_odd = rank() == odd;
            about("member %d differs in %d", odd, what);
            size_t n = what == 0 && is_odd ? 3 : what == 4 ? 60000 : 2;
            if (what == 4 && is_odd) n = 60001;
            enum fi_op op = what == 1 && is_odd ? FI_MAX : FI_SUM;
            enum fi_datatype type = what == 2 && is_odd ? FI_INT64 : FI_UINT64;
            if (what == 3 && is_odd) POST(fi_barrier(side->ep, group, CONTEXT(9)));
            else POST(fi_allreduce(side->ep, from, n, NULL, result, NULL, group, type, op, 0, CONTEXT(9)));
            struct fi_cq_err_entry error = WAIT_ERROR(side->tx);
            CHECK_EQ(error.err, FI_EINVAL);
            CHECK_PTR(error.op_context, CONTEXT(9));
            CHECK_FLAGS(error.flags, FI_COLLECTIVE, 0);
            CHECK_EQ(sum_in(side, mc, 5), 15);
        }
    OK(fi_close(&mc->fid));
}

CASE(members_in_another_order, 3, "members that disagree on the order of a set all get an error of the join", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    static const int ORDERS[2][3] = {{0, 1, 2}, {0, 2, 1}};
    for (int odd = 0; odd < 3; odd++) {
        struct fid_av_set *set = set_of(side, ORDERS[rank() == odd], 3);
        struct fid_mc *mc = join_begin(side, set, CONTEXT(1));
        CHECK_EQ(join_end(side, mc, CONTEXT(1)), FI_EINVAL);
        CHECK_RC(fi_barrier(side->ep, fi_mc_addr(mc), NULL), -FI_EOPBADSTATE);
        OK(fi_close(&mc->fid));
        OK(fi_close(&set->fid));
    }
    struct fid_mc *mc = group_of_all(side);
    CHECK_EQ(sum_in(side, mc, 1), 3);
    OK(fi_close(&mc->fid));
}

CASE(closed_before_all_have_joined, 3,
     "a member that closes its group while it joins does not block the others: they join, and get an error that it "
     "left",
     POSSIBLE)
{
    struct side *side = job_open(WANTS);
    for (int leaver = 0; leaver < 3; leaver++) {
        struct fid_av_set *set = set_of(side, (const int[]){1, 2, 0}, 3);
        struct fid_mc *mc = NULL;
        if (rank() == leaver) {
            mc = join_begin(side, set, NULL);
            OK(fi_close(&mc->fid));
            barrier();
        } else {
            barrier();
            mc = join_begin(side, set, NULL);
            int error = join_end(side, mc, NULL);
            if (error == 0) {
                POST(fi_barrier(side->ep, fi_mc_addr(mc), CONTEXT(2)));
                CHECK_EQ(WAIT_ERROR(side->tx).err, FI_ECANCELED);
            }
            OK(fi_close(&mc->fid));
        }
        OK(fi_close(&set->fid));
        barrier();
    }
}

CASE(closed_with_operations_under_way, 3,
     "closing a group with outstanding operations ends it: the others' operations are errors", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    uint64_t *from = buffer(1 << 20), *result = buffer(1 << 20);
    for (int round = 0; round < 30; round++) {
        struct fid_mc *mc = group_of_all(side);
        size_t n = round % 2 ? 1 : 1 << 16;
        POST(fi_allreduce(side->ep, from, n, NULL, result, NULL, fi_mc_addr(mc), FI_UINT64, FI_SUM, 0, CONTEXT(1)));
        if (rank() != round % 3) {
            POST(fi_barrier(side->ep, fi_mc_addr(mc), CONTEXT(2)));
            struct fi_cq_tagged_entry entry;
            ssize_t rc;
            UNTIL((rc = fi_cq_read(side->tx, &entry, 1)) != -FI_EAGAIN);
            struct fi_cq_err_entry error = {0};
            if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(side->tx, &error, 0), 1);
            error = WAIT_ERROR(side->tx);
            CHECK_EQ(error.err, FI_ECANCELED);
        }
        OK(fi_close(&mc->fid));
        /* An operation that completed before the group was closed has its completion. */
        struct completion taken;
        if (rank() == round % 3) (void)TAKE(side, side->tx, &taken);
        CHECK_NONE(side->tx, 2);
        barrier();
    }
}

/* ---- Deaths, and several hosts ----------------------------------------------------------------------------------- */

CASE(death_before_the_join, 4,
     "a member dies before it joins: the others' joins fail with FI_EHOSTDOWN, and a group without it works",
     POSSIBLE)
{
    struct side *side = job_open(WANTS);
    int dead = 2;
    if (rank() == dead) die_now(false);
    struct fid_av_set *set = set_of(side, (const int[]){0, 1, 2, 3}, 4);
    struct fid_mc *mc = join_begin(side, set, CONTEXT(1));
    CHECK_EQ(join_end(side, mc, CONTEXT(1)), FI_EHOSTDOWN);
    OK(fi_close(&mc->fid));
    OK(fi_close(&set->fid));
    mc = group_of(side, (const int[]){3, 1, 0}, 3);
    CHECK_EQ(sum_in(side, mc, 1), 3);
    OK(fi_close(&mc->fid));
}

static void die_while_joining(int dead)
{
    struct side *side = job_open(WANTS);
    for (int round = 0; rank() == dead || round == 0; round++) {
        struct fid_av_set *set = set_of(side, (const int[]){0, 1, 2, 3}, 4);
        struct fid_mc *mc = join_begin(side, set, CONTEXT(1));
        if (rank() == dead) die_now(false);
        int error = join_end(side, mc, CONTEXT(1));
        if (error == 0) {
            POST(fi_barrier(side->ep, fi_mc_addr(mc), CONTEXT(2)));
            error = WAIT_ERROR(side->tx).err;
        }
        CHECK_EQ(error, FI_EHOSTDOWN);
        OK(fi_close(&mc->fid));
        OK(fi_close(&set->fid));
    }
}

#define DIES "a member dies when it has begun to join: the others' joins, or their operations, are errors, FI_EHOSTDOWN"

CASE(death_in_the_join_0, 4, DIES, POSSIBLE) { die_while_joining(0); }
CASE(death_in_the_join_1, 4, DIES, POSSIBLE) { die_while_joining(1); }
CASE(death_in_the_join_2, 4, DIES, POSSIBLE) { die_while_joining(2); }
CASE(death_in_the_join_3, 4, DIES, POSSIBLE) { die_while_joining(3); }

CASE(death_of_a_member, 4,
     "a member is killed in the middle of operations: the others' operations fail with FI_EHOSTDOWN, their messages "
     "continue, and a group without it works",
     POSSIBLE)
{
    struct side *side = job_open(WANTS);
    struct fid_mc *mc = group_of_all(side);
    uint64_t *from = buffer(1 << 18), *result = buffer(1 << 18);
    for (int round = 0;; round++) {
        if (rank() == 1 && round == 100) die_now(false);
        size_t n = round % 5 == 0 ? 30000 : 3;
        POST(fi_allreduce(side->ep, from, n, NULL, result, NULL, fi_mc_addr(mc), FI_UINT64, FI_SUM, 0, CONTEXT(1)));
        POST(fi_barrier(side->ep, fi_mc_addr(mc), CONTEXT(2)));
        int failed = 0;
        for (int left = 2; left > 0; left--) {
            struct fi_cq_tagged_entry entry;
            ssize_t rc;
            UNTIL((rc = fi_cq_read(side->tx, &entry, 1)) != -FI_EAGAIN);
            if (rc == -FI_EAVAIL) {
                CHECK_EQ(WAIT_ERROR(side->tx).err, FI_EHOSTDOWN);
                failed++;
            }
        }
        if (failed) break;
        CHECK_OP(round, <, 100);
    }
    OK(fi_close(&mc->fid));
    mc = group_of(side, (const int[]){0, 2, 3}, 3);
    CHECK_EQ(sum_in(side, mc, 7), 21);
    OK(fi_close(&mc->fid));
}

CASE(on_several_hosts, 3, "members of several hosts cannot share memory: their join fails with FI_EOPNOTSUPP",
     .needs = "several hosts")
{
    struct side *side = job_open(WANTS);
    struct fid_av_set *set = set_of(side, (const int[]){0, 1, 2}, 3);
    struct fid_mc *mc = join_begin(side, set, CONTEXT(1));
    CHECK_EQ(join_end(side, mc, CONTEXT(1)), FI_EOPNOTSUPP);
    OK(fi_close(&mc->fid));
    OK(fi_close(&set->fid));
    mc = group_of(side, (const int[]){rank()}, 1);
    OK(fi_close(&mc->fid));
}
