/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads on one endpoint, one queue, one domain. fi_domain(3) on FI_THREAD_SAFE. */
#include "transfers.h"

#include <pthread.h>

enum { THREADED = 1000 }; /* each message may cost a time slice of a core that others also use */

struct worker {
    struct side *side;
    fi_addr_t peer;
    int number, failed;
    int received; /* completions of this thread's receives, whichever thread reads them */
};

/* Sends numbers with this thread's tag, and receives those of the peer's thread with the same tag. */
static void *works(void *argument)
{
    struct worker *w = argument;
    static _Thread_local int in, out;
    for (int i = 0; i < THREADED && !w->failed; i++) {
        out = w->number * THREADED + i;
        while (fi_tinject(w->side->ep, &out, 4, w->peer, (uint64_t)w->number) == -FI_EAGAIN)
            fi_cq_read(w->side->tx, NULL, 0);
        while (fi_trecv(w->side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, (uint64_t)w->number, 0, w) == -FI_EAGAIN) continue;
        int *counted = &w->received;
        long long until = now_ms() + WAIT_MS;
        while (__atomic_load_n(counted, __ATOMIC_SEQ_CST) <= i) {
            struct fi_cq_tagged_entry entry;
            if (fi_cq_read(w->side->rx, &entry, 1) == 1) {
                /* the completion may be the other thread's */
                struct worker *of = entry.op_context;
                __atomic_add_fetch(&of->received, 1, __ATOMIC_SEQ_CST);
            }
            if (now_ms() > until) {
                w->failed = 1;
                return NULL;
            }
        }
        if (in != w->number * THREADED + i) w->failed = 2;
    }
    return NULL;
}

CASE(two_threads_on_an_endpoint, 2,
     "FI_THREAD_SAFE: two threads send, receive and read one queue of one endpoint at once; each gets its own "
     "messages, in order; operations posted and sent by a single thread complete under several",
     .stock = "sockets: hangs")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .threading = FI_THREAD_SAFE});
    static struct worker workers[2];
    pthread_t threads[2];
    enum { POSTED_BEFORE = 77, SENT_BEFORE };
    static struct worker before;
    static int posted, sent = 5;
    while (fi_trecv(side->ep, &posted, 4, NULL, FI_ADDR_UNSPEC, POSTED_BEFORE, 0, &before) == -FI_EAGAIN) continue;
    while (fi_tinject(side->ep, &sent, 4, to(1 - rank()), SENT_BEFORE) == -FI_EAGAIN) fi_cq_read(side->tx, NULL, 0);
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct worker){.side = side, .peer = to(1 - rank()), .number = i};
        pthread_create(&threads[i], NULL, works, &workers[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        about("thread %d", i);
        if (workers[i].failed == 1) FAIL("a message never came (%d of %d)", workers[i].received, THREADED);
        if (workers[i].failed == 2) FAIL("a message of another, or out of order");
    }
    about("operations posted and sent before the threads");
    static int met;
    while (fi_tinject(side->ep, &sent, 4, to(1 - rank()), POSTED_BEFORE) == -FI_EAGAIN) fi_cq_read(side->tx, NULL, 0);
    while (fi_trecv(side->ep, &met, 4, NULL, FI_ADDR_UNSPEC, SENT_BEFORE, 0, &before) == -FI_EAGAIN) continue;
    for (long long until = now_ms() + WAIT_MS; before.received < 2;) {
        struct fi_cq_tagged_entry entry;
        if (fi_cq_read(side->rx, &entry, 1) == 1) {
            CHECK_PTR(entry.op_context, &before);
            before.received++;
        }
        CHECK_OP(now_ms(), <, until);
    }
    CHECK_OP(posted, ==, 5);
    CHECK_OP(met, ==, 5);
}

static void *opens_and_closes(void *argument)
{
    struct side *side = argument;
    for (int i = 0; i < 200; i++) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
        struct fid_cq *cq = NULL;
        struct fid_mr *mr = NULL;
        static _Thread_local char memory[64];
        if (fi_cq_open(side->domain, &attr, &cq, NULL) != 0 ||
            fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 0, (uint64_t)(uintptr_t)memory + (uint64_t)i, 0, &mr,
                      NULL) != 0)
            return (void *)1;
        if (fi_close(&mr->fid) != 0 || fi_close(&cq->fid) != 0) return (void *)2;
        fi_addr_t inserted;
        if (fi_av_insert(side->av, side->address, 1, &inserted, 0, NULL) != 1) return (void *)3;
    }
    return NULL;
}

CASE(threads_open_and_close, 1,
     "fi_domain: control calls are thread safe: three threads open, register, insert and close while a fourth "
     "transfers",
     .stock = "shm: refuses an address that it has already")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_RMA, .threading = FI_THREAD_SAFE});
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, opens_and_closes, p.a);
    char in[8];
    for (int i = 0; i < 500; i++) {
        POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        POST(fi_inject(p.a->ep, "x", 1, p.to_b));
        WAIT_RX(p.b);
    }
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK_PTR(failed, NULL);
    }
}

static struct side *threaded_side;

static void *sends_in_background(void *unused)
{
    for (int i = 0; i < 1000; i++)
        while (fi_tinject(threaded_side->ep, &i, 4, to(1), 1) == -FI_EAGAIN) fi_cq_read(threaded_side->tx, NULL, 0);
    return unused;
}

CASE(one_sends_while_one_sleeps, 2,
     "FI_THREAD_SAFE: a thread that sleeps in fi_cq_sread does not block another's sends and receives on the same "
     "endpoint")
{
    threaded_side = job_open(
        (struct wants){.caps = FI_TAGGED, .threading = FI_THREAD_SAFE, .wait_obj = FI_WAIT_UNSPEC});
    struct fi_cq_tagged_entry entry;
    if (rank() == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, sends_in_background, NULL);
        int in;
        POST(fi_trecv(threaded_side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 2, 0, NULL));
        CHECK_RC(fi_cq_sread(threaded_side->rx, &entry, 1, NULL, WAIT_MS), 1);
        pthread_join(thread, NULL);
        return;
    }
    for (int i = 0; i < 1000; i++) {
        int in = -1;
        POST(fi_trecv(threaded_side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        CHECK_RC(fi_cq_sread(threaded_side->rx, &entry, 1, NULL, WAIT_MS), 1);
        CHECK_EQ(in, i);
    }
    POST(fi_tinject(threaded_side->ep, "done", 4, to(0), 2));
}
