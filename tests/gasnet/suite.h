/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The header of the GASNet suite, in addition to check.h.
 *
 * Rules for cases
 * 1. A case runs in all of its ranks at once. Before it the suite has called gasnet_init and gasnet_attach, with the handlers that the
 *    file declares with HANDLERS and a segment of SEGMENT bytes. After it the suite calls gasnet_exit, behind a barrier.
 * 2. A case with the flag RAW calls gasnet_init and gasnet_attach itself, and may end itself.
 * 3. A rank waits for another one only in barrier(), WAIT_FOR() and the functions of GASNet.
 */
#ifndef GASNET_SUITE_H
#define GASNET_SUITE_H

#define GASNET_PAR 1
#include "check.h"

#include <gasnet.h>

enum { RANKS_MAX = 64, WAIT_MS = 60000, SEGMENT = 24 << 20, RAW = 1 };

#define OK(call) check_eq_at(__FILE__, __LINE__, #call, (unsigned long long)(call), "GASNET_OK", GASNET_OK)
#define REFUSED(call, code) CHECK_EQ(call, code)

/* Declares the handler table of a file: rows of a number and a function. */
#define HANDLERS(...)                                                \
    static gasnet_handlerentry_t handler_rows[] = {__VA_ARGS__};     \
    __attribute__((constructor)) static void handlers_declare(void) \
    {                                                                \
        handlers = handler_rows;                                     \
        handlers_count = (int)COUNT_OF(handler_rows);                \
    }
extern gasnet_handlerentry_t *handlers;
extern int handlers_count;

unsigned char *segment(int rank);
#define MINE segment(rank())

/* Polls until the condition holds; fails if that takes too long. */
#define WAIT_FOR(condition)                                                        \
    do {                                                                           \
        long long give_up = now_ms() + WAIT_MS;                                    \
        while (!(condition)) {                                                     \
            if (now_ms() > give_up) FAIL("waited too long for %s", #condition);    \
            wait_a_little();                                                       \
        }                                                                          \
    } while (0)
void wait_a_little(void);
#endif
