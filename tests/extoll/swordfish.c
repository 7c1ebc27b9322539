/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Applets of SWORDFISH: swordfish.h; seed 002, section 2.7, table 1.
 *
 * SWORDFISH_Finish leaves the job, which the suite still needs: a test of the command covers it. A rank that receives must not wait in
 * barrier() while others send: barriers do not receive.
 */
#include "suite.h"

#include <swordfish.h>

enum { LONG_BYTES = 300001 };

static unsigned char sent[LONG_BYTES], found[LONG_BYTES];

#define SOK(call) check_eq_at(__FILE__, __LINE__, #call, (unsigned long long)(call), "SWORDFISH_SUCCESS", SWORDFISH_SUCCESS)
#define CODE(call) ((unsigned long long)(call))

void family_begin(void) { SOK(SWORDFISH_Init(NULL, NULL)); }

static void expect(SWORDFISH_Status got, int from, uint32_t tag, size_t bytes)
{
    CHECK_EQ(got.from, from);
    CHECK_EQ(got.tag, tag);
    CHECK_EQ(got.bytes, bytes);
}

CASE(swordfish_ranks, 3, "table 1: size and rank of an applet")
{
    CHECK_EQ(SWORDFISH_Size(), 3);
    CHECK_EQ(SWORDFISH_Rank(), rank());
    SOK(SWORDFISH_Init(NULL, NULL));
    CHECK_EQ(CODE(SWORDFISH_Send(3, 0, NULL, 0)), SWORDFISH_ERR_RANK);
    CHECK_EQ(CODE(SWORDFISH_Send(-1, 0, NULL, 0)), SWORDFISH_ERR_RANK);
    CHECK_EQ(CODE(SWORDFISH_Send(0, 0, NULL, 1)), SWORDFISH_ERR_POINTER);
    CHECK_EQ(CODE(SWORDFISH_RecvFrom(3, found, 1, NULL)), SWORDFISH_ERR_RANK);
    CHECK_EQ(CODE(SWORDFISH_ProbeFrom(-1, NULL)), SWORDFISH_ERR_RANK);
    CHECK_EQ(CODE(SWORDFISH_Recv(NULL, 1, NULL)), SWORDFISH_ERR_POINTER);
}

CASE(swordfish_sizes, 2, "table 1: Send and Recv carry messages of any size, with rank, tag and size")
{
    static const size_t sizes[] = {0, 1, 3, 8, 63, 64, 65, 4095, 16384, 16385, LONG_BYTES};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        SWORDFISH_Status status;
        about("%zu bytes", sizes[i]);
        pattern_fill(sent, sizes[i], (uint32_t)i);
        if (rank() == 0) {
            SOK(SWORDFISH_Send(1, (uint32_t)i, sent, sizes[i]));
        } else {
            memset(found, 0, sizes[i]);
            SOK(SWORDFISH_Recv(found, sizeof found, &status));
            expect(status, 0, (uint32_t)i, sizes[i]);
            CHECK_SAME(found, sent, sizes[i]);
        }
    }
}

CASE(swordfish_selection, 3, "table 1: RecvFrom and RecvTag select, and leave the others in their order")
{
    SWORDFISH_Status status;
    uint32_t value;
    if (rank() != 0) {
        for (uint32_t i = 0; i < 10; i++) SOK(SWORDFISH_Send(0, i, &i, sizeof i));
        return;
    }
    SOK(SWORDFISH_RecvTag(7, &value, sizeof value, &status));
    int first = status.from, other = 3 - first;
    expect(status, first, 7, sizeof value);
    CHECK_EQ(value, 7);
    for (uint32_t i = 0; i < 10; i++) {
        SOK(SWORDFISH_RecvFrom(other, &value, sizeof value, &status));
        expect(status, other, i, sizeof value);
    }
    for (uint32_t i = 0; i < 10; i++) {
        if (i == 7) continue;
        SOK(SWORDFISH_Recv(&value, sizeof value, &status));
        expect(status, first, i, sizeof value);
        CHECK_EQ(value, i);
    }
    CHECK_EQ(CODE(SWORDFISH_Probe(&status)), SWORDFISH_ERR_NO_MESSAGE);
}

CASE(swordfish_probe, 2, "table 1: the probes describe the message that the receive of the same selection gets")
{
    SWORDFISH_Status status;
    if (rank() == 1) {
        for (uint32_t i = 0; i < 4; i++) SOK(SWORDFISH_Send(0, i, sent, 100 + i));
        return;
    }
    while (CODE(SWORDFISH_ProbeTag(3, &status)) == SWORDFISH_ERR_NO_MESSAGE) continue;
    expect(status, 1, 3, 103);
    SOK(SWORDFISH_Probe(&status));
    expect(status, 1, 0, 100);
    SOK(SWORDFISH_ProbeFrom(1, &status));
    expect(status, 1, 0, 100);
    CHECK_EQ(CODE(SWORDFISH_ProbeFrom(0, &status)), SWORDFISH_ERR_NO_MESSAGE);
    CHECK_EQ(CODE(SWORDFISH_ProbeTag(9, &status)), SWORDFISH_ERR_NO_MESSAGE);
    for (uint32_t i = 0; i < 4; i++) {
        SOK(SWORDFISH_ProbeTag(i, NULL));
        SOK(SWORDFISH_RecvTag(i, found, sizeof found, &status));
        expect(status, 1, i, 100 + i);
    }
}

CASE(swordfish_room, 2, "a message without room stays, and its status has its size")
{
    SWORDFISH_Status status;
    if (rank() == 1) {
        pattern_fill(sent, 200, 5);
        SOK(SWORDFISH_Send(0, 5, sent, 200));
        SOK(SWORDFISH_Send(0, 6, sent, 10));
        return;
    }
    pattern_fill(sent, 200, 5);
    CHECK_EQ(CODE(SWORDFISH_Recv(found, 199, &status)), SWORDFISH_ERR_SIZE);
    expect(status, 1, 5, 200);
    CHECK_EQ(CODE(SWORDFISH_RecvTag(5, NULL, 0, &status)), SWORDFISH_ERR_SIZE);
    SOK(SWORDFISH_Recv(found, 200, &status));
    expect(status, 1, 5, 200);
    CHECK_SAME(found, sent, 200);
    SOK(SWORDFISH_RecvFrom(1, found, 10, NULL));
}

CASE(swordfish_self, 1, "a rank sends to itself")
{
    SWORDFISH_Status status;
    uint64_t value = 42;
    SOK(SWORDFISH_Send(0, 1, &value, sizeof value));
    value = 0;
    SOK(SWORDFISH_Recv(&value, sizeof value, &status));
    expect(status, 0, 1, sizeof value);
    CHECK_EQ(value, 42);
}

CASE(swordfish_time, 1, "table 1: ConsumeTime advances Time by at least as much")
{
    uint64_t begin = SWORDFISH_Time();
    SOK(SWORDFISH_ConsumeTime(250000));
    uint64_t took = SWORDFISH_Time() - begin;
    CHECK_EQ(took >= 250000, 1);
}
