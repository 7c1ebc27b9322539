/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An applet of SWORDFISH (seed 002, section 2.7): work from a master. Rank 0 hands out pieces of work of different lengths and takes the
 * results by their tag; the other ranks compute and answer. Ends with 1 if a result is wrong.
 *
 *     selvedge sim -n 16 --machine atoll -- applet [PIECES]
 *     selvedge run -n 4 applet [PIECES]
 */
#include <swordfish.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORK = 1, RESULT = 2, STOP = 3 };

typedef struct Piece {
    uint64_t number;
    uint64_t value;
} Piece;

static void check(int code, const char *what)
{
    if (code == SWORDFISH_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", what, SWORDFISH_Strerror(code));
    exit(1);
}

/* Time that a piece takes. */
static uint64_t work_ns(uint64_t number) { return 10000 + number % 7 * 5000; }

static int master(uint64_t pieces)
{
    uint64_t begin = SWORDFISH_Time(), sent = 0, sum = 0, wrong = 0;
    for (int rank = 1; rank < SWORDFISH_Size() && sent < pieces; rank++, sent++)
        check(SWORDFISH_Send(rank, WORK, &sent, sizeof sent), "SWORDFISH_Send");
    for (uint64_t done = 0; done < pieces; done++) {
        Piece piece;
        SWORDFISH_Status status;
        check(SWORDFISH_RecvTag(RESULT, &piece, sizeof piece, &status), "SWORDFISH_RecvTag");
        wrong += piece.value != piece.number * piece.number || status.bytes != sizeof piece;
        sum += piece.value;
        if (sent < pieces) {
            check(SWORDFISH_Send(status.from, WORK, &sent, sizeof sent), "SWORDFISH_Send");
            sent++;
        }
    }
    for (int rank = 1; rank < SWORDFISH_Size(); rank++) check(SWORDFISH_Send(rank, STOP, NULL, 0), "SWORDFISH_Send");
    uint64_t took = SWORDFISH_Time() - begin, work = 0;
    for (uint64_t number = 0; number < pieces; number++) work += work_ns(number);
    printf("%" PRIu64 " pieces, sum %" PRIu64 ", in %.3f us: %.1f of %d workers busy\n", pieces, sum, (double)took / 1e3,
           (double)work / (double)took, SWORDFISH_Size() - 1);
    return wrong != 0;
}

static void worker(void)
{
    for (;;) {
        Piece piece = {0, 0};
        SWORDFISH_Status status;
        check(SWORDFISH_RecvFrom(0, &piece.number, sizeof piece.number, &status), "SWORDFISH_RecvFrom");
        if (status.tag == STOP) return;
        check(SWORDFISH_ConsumeTime(work_ns(piece.number)), "SWORDFISH_ConsumeTime");
        piece.value = piece.number * piece.number;
        check(SWORDFISH_Send(0, RESULT, &piece, sizeof piece), "SWORDFISH_Send");
    }
}

int main(int argc, char **argv)
{
    check(SWORDFISH_Init(&argc, &argv), "SWORDFISH_Init");
    if (SWORDFISH_Size() < 2) {
        fprintf(stderr, "usage: selvedge sim -n N --machine atoll -- applet [PIECES], with 2 ranks or more\n");
        return 2;
    }
    int failed = 0;
    if (SWORDFISH_Rank() == 0) failed = master(argc > 1 ? strtoull(argv[1], NULL, 10) : 100);
    else worker();
    check(SWORDFISH_Finish(), "SWORDFISH_Finish");
    return failed;
}
