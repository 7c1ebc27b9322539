/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The header of the EXTOLL suite, in addition to check.h.
 *
 * Rules for cases
 * 1. A case runs in all of its ranks at once. The suite opens one port of each library in every rank before the case starts, rma() and
 *    velo(), and closes them after a barrier when it returns. Their VPIDs are the same everywhere.
 * 2. A rank waits for another one only in barrier(), exchange() and the waiting functions below. They poll both ports, so that a NIC
 *    that needs its owner's calls makes progress.
 * 3. Notification puts of class BARRIER_CLASS belong to the suite.
 */
#ifndef EXTOLL_SUITE_H
#define EXTOLL_SUITE_H

#include "check.h"

#include <rma2.h>
#include <velo2.h>
#include <velorun.h>

enum { RANKS_MAX = 64, BARRIER_CLASS = 253, WAIT_MS = 60000, PAGE = 4096 };

/*
 * A family may define these. The first runs before the suite opens its ports, in a process that has joined the job; the second after
 * the case, before the suite's last barrier.
 */
void family_begin(void) __attribute__((weak));
void family_end(void) __attribute__((weak));

/* A case for variants where a NIC works while its owner makes no call. */
#define CASE_NIC(name, ranks, rule) CASE(name, ranks, rule, .needs = "independent")

#define OK(call) check_eq_at(__FILE__, __LINE__, #call, (unsigned long long)(call), "RMA2_SUCCESS", RMA2_SUCCESS)
#define VOK(call) check_eq_at(__FILE__, __LINE__, #call, (unsigned long long)(call), "VELO2_RET_SUCCESS", VELO2_RET_SUCCESS)

RMA2_Port rma(void);
velo2_port_t *velo(void);
/* Connection of rma() to rma() of a rank; of velo() to velo() of a rank. */
RMA2_Handle to(int rank);
velo2_connection_t *velo_to(int rank);
void exchange(const void *mine, size_t bytes, void *all);

/* Zeroed page-aligned memory, registered with rma(). Freed when the case ends. */
struct memory {
    unsigned char *start;
    RMA2_Region *region;
    RMA2_NLA nla;
    RMA2_NLA of_rank[RANKS_MAX]; /* of the same memory at every rank, if it is shared() */
};
struct memory registered(size_t bytes);
/* Makes such memory at every rank. Collective. */
struct memory shared(size_t bytes);

/* Waits for the next notification that is not the suite's, and frees it. */
RMA2_Notification next_notification(void);
/* Checks that no notification arrives within some milliseconds. */
void expect_no_notification(void);
void check_notification_at(const char *file, int line, RMA2_Notification found, RMA2_Notification_Spec unit, RMA2_Command command, int from,
                           int error);
#define CHECK_NOTIFICATION(found, unit, command, from, error) \
    check_notification_at(__FILE__, __LINE__, found, unit, command, from, error)

struct message {
    unsigned char bytes[VELO2_MTU];
    uint32_t length, source;
    uint8_t tag, mtt;
};
struct message next_message(void);
void poll_ports(void);
#endif
