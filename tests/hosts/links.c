/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * links: one rank of the jobs of `run.sh`. All ranks put checked bytes to each other.
 *
 *   links once                 one put to every other rank; a failed put is reported, and ends the rank with status 3
 *   links absent FILE          rank 0 puts 50 times 1 MiB to the last rank, which does not call the library until rank 0 has made FILE: when
 *                              all puts are acknowledged. Only the progress thread can make progress there
 *   links busy                 the same, but the last rank calls the library after 2 s
 *   links names                as once; and ranks have one nid if and only if their hosts have one name
 *   links unmapped BYTES       rank 1 unmaps a part of an entry's memory, once a put of rank 0 has arrived there: the next put to it fails, and
 *                              one to other memory arrives
 *   links meet SEED            all connect to all at once, each after a random time; a third of the ranks kill themselves meanwhile. No put
 *                              may hang, and none between survivors may fail
 *   links steady SECONDS       puts to all others for this time, and says how long the longest pause was. Links may break once all are connected
 *   links lost RANK            puts to all others, until those between RANK and the others fail; the others' continue for another second
 */
#include <portals4.h>
#include <selvedge.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 16, BYTES = 1 << 20, COUNT = 50 };

#define TRY(call)                                                                     \
    do {                                                                              \
        int code_ = (call);                                                           \
        if (code_ != PTL_OK) {                                                        \
            fprintf(stderr, "rank %d: %s gave %d\n", selvedge_rank(), #call, code_);  \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static int rank, size, parts = RANKS_MAX;
static ptl_handle_ni_t ni;
static ptl_process_t ids[RANKS_MAX];
static ptl_handle_ct_t arrived;
static unsigned char *inbox, *outbox; /* `parts` parts each */

/* Descriptor and counter of the acknowledgements of one target. */
static struct {
    ptl_handle_md_t md;
    ptl_handle_ct_t acked;
} to[RANKS_MAX];

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned char pattern(int sender, int part, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)part * 7 + (size_t)sender * 101);
}

static void set_up(void)
{
    ptl_pt_index_t index;
    ptl_handle_le_t entry;
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    rank = selvedge_rank();
    size = selvedge_size();
    TRY(PtlGetPhysId(ni, &ids[rank]));
    if (size < 2 || size > RANKS_MAX || selvedge_exchange(&ids[rank], sizeof *ids, ids) != 0)
        exit(2);
    inbox = calloc((size_t)parts, BYTES);
    outbox = malloc((size_t)parts * BYTES);
    for (int part = 0; part < parts; part++)
        for (size_t i = 0; i < BYTES; i++)
            outbox[(size_t)part * BYTES + i] = pattern(rank, part, i);
    TRY(PtlCTAlloc(ni, &arrived));
    TRY(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &index));
    ptl_le_t le = {.start = inbox, .length = (ptl_size_t)parts * BYTES, .ct_handle = arrived, .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE};
    TRY(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &entry));
    for (int r = 0; r < size; r++) {
        TRY(PtlCTAlloc(ni, &to[r].acked));
        ptl_md_t md = {.start = outbox, .length = (ptl_size_t)parts * BYTES, .options = PTL_MD_EVENT_CT_ACK,
                       .eq_handle = PTL_EQ_NONE, .ct_handle = to[r].acked};
        TRY(PtlMDBind(ni, &md, &to[r].md));
    }
    selvedge_barrier();
}

static void put(int target, int part, size_t bytes)
{
    ptl_size_t at = (ptl_size_t)part * BYTES;
    TRY(PtlPut(to[target].md, at, bytes, PTL_CT_ACK_REQ, ids[target], 0, 0, at, NULL, 0));
}

/* Whether all of a part has arrived. No byte of the inbox stays zero for long. */
static int is_there(int sender, int part, size_t bytes)
{
    const volatile unsigned char *found = inbox + (size_t)part * BYTES;
    for (size_t i = bytes; i-- > 0;)
        if (found[i] != pattern(sender, part, i))
            return 0;
    return 1;
}

static void compare(int sender, int part, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (inbox[(size_t)part * BYTES + i] != pattern(sender, part, i)) {
            fprintf(stderr, "rank %d: byte %zu of part %d is wrong\n", rank, i, part);
            exit(1);
        }
}

/* Part r of every inbox belongs to rank r. */
static int once(void)
{
    ptl_ct_event_t count;
    int failed = 0;
    for (int r = 0; r < size; r++)
        if (r != rank)
            put(r, rank, 30000);
    for (int r = 0; r < size; r++) {
        if (r == rank)
            continue;
        TRY(PtlCTWait(to[r].acked, 1, &count));
        if (count.failure == 0)
            continue;
        fprintf(stderr, "rank %d: the put to rank %d has failed\n", rank, r);
        failed++;
    }
    if (failed)
        return 3;
    TRY(PtlCTWait(arrived, (ptl_size_t)size - 1, &count));
    for (int r = 0; r < size; r++)
        if (r != rank)
            compare(r, r, 30000);
    printf("rank %d: right\n", rank);
    return 0;
}

static int names(void)
{
    char all[RANKS_MAX][64], *own = all[rank];
    memset(own, 0, sizeof *all);
    if (gethostname(own, sizeof *all - 1) != 0 || selvedge_exchange(own, sizeof *all, all) != 0)
        return 1;
    for (int a = 0; a < size; a++)
        for (int b = 0; b < a; b++)
            if ((ids[a].phys.nid == ids[b].phys.nid) != (strcmp(all[a], all[b]) == 0)) {
                fprintf(stderr, "rank %d on %s and rank %d on %s have the nids %u and %u\n", a, all[a], b, all[b], ids[a].phys.nid, ids[b].phys.nid);
                return 1;
            }
    return once();
}

static int absent(const char *file)
{
    double began_s = now_s(), limit_s = file ? 120 : 2;
    ptl_ct_event_t count;
    if (rank == 0) {
        for (int part = 0; part < COUNT; part++)
            put(size - 1, part, BYTES);
        TRY(PtlCTWait(to[size - 1].acked, COUNT, &count));
        FILE *made = file ? fopen(file, "w") : stdout;
        if (count.failure != 0 || !made)
            return 1;
        printf("all acknowledged after %.3f s\n", now_s() - began_s);
        if (file)
            fclose(made);
    } else if (rank == size - 1) {
        while (now_s() - began_s < limit_s && !(file && access(file, F_OK) == 0))
            ;
        if (file && access(file, F_OK) != 0) {
            fprintf(stderr, "the puts wait for the target's program\n");
            return 1;
        }
        TRY(PtlCTWait(arrived, COUNT, &count));
        for (int part = 0; part < COUNT; part++)
            compare(0, part, BYTES);
        printf("all arrived\n");
    }
    return 0;
}

static int unmapped(size_t bytes)
{
    enum { HOLE = 1 << 14 };
    ptl_ct_event_t count;
    ptl_pt_index_t index;
    ptl_handle_le_t entry;
    if (size != 2 || bytes < 2 * HOLE || bytes > BYTES)
        return 2;
    if (rank == 1) {
        char *room = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED)
            return 1;
        TRY(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 1, &index));
        ptl_le_t le = {.start = room, .length = BYTES, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
                       .options = PTL_LE_OP_PUT | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE};
        TRY(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &entry));
        selvedge_barrier();
        selvedge_barrier();
        if (munmap(room + HOLE, HOLE) != 0)
            return 1;
        selvedge_barrier();
        TRY(PtlCTWait(arrived, 1, &count));
        compare(0, 0, bytes);
        printf("all arrived but one\n");
        return 0;
    }
    selvedge_barrier();
    for (ptl_size_t sent = 1; sent <= 3; sent++) {
        double limit_s = now_s() + 120;
        TRY(PtlPut(to[1].md, 0, bytes, PTL_CT_ACK_REQ, ids[1], sent == 3 ? 0 : 1, 0, 0, NULL, 0));
        do
            TRY(PtlCTGet(to[1].acked, &count));
        while (count.success + count.failure < sent && now_s() < limit_s);
        if (count.failure != (sent > 1) || count.success + count.failure != sent) {
            fprintf(stderr, "put %d: %d of all have failed\n", (int)sent, (int)count.failure);
            return 1;
        }
        for (int barrier = 0; sent == 1 && barrier < 2; barrier++)
            selvedge_barrier();
    }
    return 0;
}

static uint64_t random_state;

static unsigned random_below(unsigned limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % limit;
}

static int is_victim(int r)
{
    return r % 3 == 2;
}

static int meet(unsigned seed)
{
    int order[RANKS_MAX], status = 0;
    double killed_s = now_s() + 3600, limit_s = now_s() + 120;
    random_state = seed * 1000003u + (unsigned)rank * 7919u;
    for (int i = 0; i < size; i++) {
        int other = (int)random_below((unsigned)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    if (is_victim(rank))
        killed_s = now_s() + random_below(20000) * 1e-6;
    usleep(random_below(5000));
    for (int i = 0; i < size; i++) {
        if (order[i] != rank)
            put(order[i], rank, 30000);
        if (random_below(2) == 0)
            usleep(random_below(3000));
        if (now_s() > killed_s)
            raise(SIGKILL);
    }
    for (int r = 0; r < size; r++) {
        ptl_ct_event_t count = {0};
        while (r != rank && count.success + count.failure == 0) {
            if (now_s() > killed_s)
                raise(SIGKILL);
            if (now_s() > limit_s) {
                fprintf(stderr, "rank %d: the put to rank %d hangs\n", rank, r);
                return 1;
            }
            TRY(PtlCTGet(to[r].acked, &count));
            usleep(100);
        }
        if (count.failure != 0 && !is_victim(r)) {
            fprintf(stderr, "rank %d: the put to rank %d, which lives, has failed\n", rank, r);
            status = 1;
        }
    }
    while (is_victim(rank))
        if (now_s() > killed_s)
            raise(SIGKILL);
    /* Until all survivors' puts to this rank have arrived, and for another second: their acknowledgements need this rank meanwhile. */
    for (double until_s = now_s() + 1; now_s() < until_s; usleep(200)) {
        ptl_ct_event_t count;
        TRY(PtlCTGet(arrived, &count));
        for (int r = 0; r < size; r++)
            if (r != rank && !is_victim(r) && now_s() < limit_s && !is_there(r, r, 30000))
                until_s = now_s() + 1;
    }
    for (int r = 0; r < size; r++)
        if (r != rank && !is_victim(r))
            compare(r, r, 30000);
    if (status == 0)
        printf("rank %d: right\n", rank);
    fflush(stdout);
    return status;
}

static int lost(int victim)
{
    uint64_t sent[RANKS_MAX] = {0}, after = 0;
    if (2 * size > parts)
        return 2;
    double last_s[RANKS_MAX], failed_s[RANKS_MAX] = {0}, until_s = 0, limit_s = now_s() + 120;
    for (int r = 0; r < size; r++)
        last_s[r] = now_s();
    printf("rank %d runs\n", rank);
    fflush(stdout);
    while (until_s == 0 || now_s() < until_s || (rank != victim && after == 0)) {
        int must_fail = 0, have_failed = 0;
        for (int r = 0; r < size; r++) {
            if (r == rank)
                continue;
            ptl_ct_event_t count;
            int is_cut = r == victim || rank == victim;
            must_fail += is_cut;
            have_failed += failed_s[r] != 0;
            if (failed_s[r] != 0)
                continue;
            TRY(PtlCTGet(to[r].acked, &count));
            if (count.failure != 0) {
                failed_s[r] = now_s();
                if (!is_cut) {
                    fprintf(stderr, "rank %d: a put to rank %d has failed\n", rank, r);
                    return 1;
                }
                printf("rank %d: rank %d is lost, %.2f s after its last sign\n", rank, r, failed_s[r] - last_s[r]);
                fflush(stdout);
            } else if (count.success == sent[r]) {
                last_s[r] = now_s();
                after += until_s != 0;
                put(r, rank, 30000);
                sent[r]++;
            }
        }
        if (until_s == 0 && have_failed == must_fail)
            until_s = now_s() + 1;
        if (now_s() > limit_s) {
            fprintf(stderr, until_s == 0 ? "rank %d: nothing has failed in two minutes\n" : "rank %d: puts between survivors stand still\n", rank);
            return 1;
        }
        usleep(200);
    }
    printf("rank %d: right\n", rank);
    fflush(stdout);
    /* The survivors' last puts need their targets: each notifies the others that it has finished, in a part that belongs to no rank. */
    for (int r = 0; r < size; r++)
        if (r != rank && r != victim && rank != victim)
            put(r, size + rank, 1000);
    for (int r = 0; r < size; r++)
        while (r != rank && r != victim && rank != victim && now_s() < limit_s && !is_there(r, size + r, 1000)) {
            ptl_ct_event_t count;
            TRY(PtlCTGet(arrived, &count));
            usleep(200);
        }
    sleep(2);
    return 0;
}

static int steady(double seconds)
{
    uint64_t sent[RANKS_MAX] = {0};
    double last_s[RANKS_MAX], gap_s = 0, limit_s = now_s() + 120, until_s;
    int waiting;
    if (2 * size > parts)
        return 2;
    /* The first puts connect. */
    for (int r = 0; r < size; r++)
        if (r != rank)
            put(r, rank, 30000);
    for (int r = 0; r < size; r++) {
        ptl_ct_event_t count;
        if (r != rank)
            TRY(PtlCTWait(to[r].acked, 1, &count));
        sent[r] = 1;
    }
    printf("rank %d runs\n", rank);
    fflush(stdout);
    for (int r = 0; r < size; r++)
        last_s[r] = now_s();
    until_s = now_s() + seconds;
    do {
        waiting = 0;
        for (int r = 0; r < size; r++) {
            ptl_ct_event_t count;
            if (r == rank)
                continue;
            TRY(PtlCTGet(to[r].acked, &count));
            if (count.failure != 0) {
                fprintf(stderr, "rank %d: a put to rank %d has failed\n", rank, r);
                return 1;
            }
            if (count.success != sent[r]) {
                waiting = 1;
                continue;
            }
            if (now_s() - last_s[r] > gap_s)
                gap_s = now_s() - last_s[r];
            last_s[r] = now_s();
            if (now_s() < until_s) {
                put(r, rank, 30000);
                sent[r]++;
                waiting = 1;
            }
        }
        usleep(200);
    } while (waiting && now_s() < limit_s);
    /* The last puts of the others need this rank: each notifies the others that it has finished. */
    for (int r = 0; r < size; r++)
        if (r != rank)
            put(r, size + rank, 1000);
    for (int r = 0; r < size; r++)
        while (r != rank && !is_there(r, size + r, 1000)) {
            ptl_ct_event_t count;
            if (now_s() > limit_s) {
                fprintf(stderr, "rank %d: rank %d does not finish\n", rank, r);
                return 1;
            }
            TRY(PtlCTGet(arrived, &count));
            usleep(200);
        }
    for (int r = 0; r < size; r++)
        if (r != rank)
            compare(r, r, 30000);
    printf("rank %d: right, longest pause %.2f s\n", rank, gap_s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "absent") == 0 || strcmp(argv[1], "busy") == 0)
        parts = COUNT;
    set_up();
    int status = 2;
    if (strcmp(argv[1], "once") == 0)
        status = once();
    else if (strcmp(argv[1], "names") == 0)
        status = names();
    else if (strcmp(argv[1], "absent") == 0 && argc > 2)
        status = absent(argv[2]);
    else if (strcmp(argv[1], "busy") == 0)
        status = absent(NULL);
    else if (strcmp(argv[1], "steady") == 0 && argc > 2)
        status = steady(atof(argv[2]));
    else if (strcmp(argv[1], "lost") == 0 && argc > 2)
        status = lost(atoi(argv[2]));
    else if (strcmp(argv[1], "unmapped") == 0 && argc > 2)
        status = unmapped((size_t)atoi(argv[2]));
    else if (strcmp(argv[1], "meet") == 0 && argc > 2)
        status = meet((unsigned)atoi(argv[2]));
    if (status == 0 && strcmp(argv[1], "lost") != 0 && strcmp(argv[1], "meet") != 0)
        selvedge_barrier();
    fflush(stdout);
    if (status != 0)
        _exit(status);
    PtlNIFini(ni);
    PtlFini();
    return 0;
}
