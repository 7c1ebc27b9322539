/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Queries of fi_getinfo for info.c and hints.c. The rule: a non-zero hint must be met, or the answer is -FI_ENODATA; a
 * zero is a wildcard, except for modes.
 */
#ifndef FI_TESTS_QUERIES_H
#define FI_TESTS_QUERIES_H

#include "suite.h"

#define CLAIMED_PRIMARY (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
#define CLAIMED_SECONDARY                                                                                              \
    (FI_DIRECTED_RECV | FI_MULTI_RECV | FI_RMA_EVENT | FI_SOURCE | FI_TRIGGER | FI_LOCAL_COMM | FI_REMOTE_COMM |       \
     FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)

static inline struct fi_info *plain(void)
{
    return info_for((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC});
}

static inline struct fi_info *plain_hints(void)
{
    return hints_for((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC});
}

/* Queries with these hints, and frees them. */
static inline struct fi_info *answer_to(struct fi_info *hints)
{
    struct fi_info *info = info_for_hints(api_version(), hints);
    fi_freeinfo(hints);
    return info;
}

static inline void must_answer(const char *what, struct fi_info *info)
{
    if (info == NULL) FAIL("%s: -FI_ENODATA, wanted an answer", what);
}

#endif
