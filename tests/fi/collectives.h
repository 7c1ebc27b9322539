/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Groups of the cases about collective operations: sets, joins, completions.
 *
 * `.needs = "collectives"`: the members are on one host, in real time. `.needs = "several hosts"`: each on its own.
 */
#ifndef FI_TESTS_COLLECTIVES_H
#define FI_TESTS_COLLECTIVES_H

#include "suite.h"

#include <rdma/fi_collective.h>

#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))
#define WANTS (struct wants){.caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE, .events = true}
#define POSSIBLE .needs = "collectives"

static inline struct fid_av_set *set_of(struct side *side, const int *members, int count)
{
    struct fi_av_set_attr attr = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    struct fid_av_set *set = NULL;
    OK(fi_av_set(side->av, &attr, &set, CONTEXT(7)));
    for (int i = 0; i < count; i++) OK(fi_av_set_insert(set, to(members[i])));
    return set;
}

static inline struct fid_mc *join_begin(struct side *side, struct fid_av_set *set, void *context)
{
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    struct fid_mc *mc = NULL;
    OK(fi_av_set_addr(set, &address));
    POST(fi_join_collective(side->ep, address, set, 0, &mc, context));
    CHECK_EQ(mc->fid.fclass, FI_CLASS_MC);
    CHECK_PTR(mc->fid.context, context);
    return mc;
}

/* Waits for the end of a join, which must be the next event. Returns 0 or the error. */
static inline int join_end(struct side *side, struct fid_mc *mc, void *context)
{
    struct fi_eq_entry entry = {0};
    uint32_t event = 0;
    ssize_t rc = -FI_EAGAIN;
    UNTIL((rc = fi_eq_read(side->eq, &event, &entry, sizeof entry, 0)) != -FI_EAGAIN);
    if (rc == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {0};
        CHECK_RC(fi_eq_read(side->eq, &event, &entry, sizeof entry, 0), -FI_EAVAIL);
        CHECK_OP(fi_eq_readerr(side->eq, &error, 0), >, 0);
        CHECK_PTR(error.fid, &mc->fid);
        CHECK_PTR(error.context, context);
        CHECK_OP(error.err, >, 0);
        CHECK_OP(fi_eq_strerror(side->eq, error.prov_errno, error.err_data, NULL, 0), !=, NULL);
        CHECK_RC(fi_eq_readerr(side->eq, &error, 0), -FI_EAGAIN);
        return error.err;
    }
    CHECK_RC(rc, (long long)sizeof entry);
    CHECK_EQ(event, FI_JOIN_COMPLETE);
    CHECK_PTR(entry.fid, &mc->fid);
    CHECK_PTR(entry.context, context);
    return 0;
}

/* Makes a group of some members of the job. Collective among them. */
static inline struct fid_mc *group_of(struct side *side, const int *members, int count)
{
    struct fid_av_set *set = set_of(side, members, count);
    struct fid_mc *mc = join_begin(side, set, CONTEXT(8));
    OK(join_end(side, mc, CONTEXT(8)));
    OK(fi_close(&set->fid));
    return mc;
}

static inline struct fid_mc *group_of_all(struct side *side)
{
    int all[RANKS_MAX];
    for (int r = 0; r < ranks(); r++) all[r] = r;
    return group_of(side, all, ranks());
}

/* Waits for the next completion, which must be this operation's. */
static inline void wait_for(struct side *side, void *context)
{
    struct completion c = WAIT_TX(side);
    CHECK_PTR(c.context, context);
    CHECK_FLAGS(c.flags, FI_COLLECTIVE, FI_SEND | FI_RECV);
}

#define DO(side, call)                                                                                                 \
    do {                                                                                                               \
        POST(call);                                                                                                    \
        wait_for(side, CONTEXT(9));                                                                                    \
    } while (0)

#endif
