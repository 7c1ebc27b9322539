/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Eight threads of one process on one FI_THREAD_SAFE domain, for ThreadSanitizer: they send, receive, read completions, cancel,
 * compute in registered memory, and change the address vector and the endpoint's options, all on one endpoint.
 *
 *     fi_threads           sends to its own endpoint
 *     fi_threads peer      sends to a forked process, which does the same
 *
 * Ends with 0 if each message came to a receive of its tag.
 */
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 150, LONG_BYTES = 9000, ADDRESS_BYTES = 64, KEY = 77, LIMIT_S = 240 };

#define OK(call)                                                                       \
    do {                                                                               \
        long code_ = (long)(call);                                                     \
        if (code_ != 0) {                                                              \
            fprintf(stderr, "%s:%d: %s gave %ld\n", __FILE__, __LINE__, #call, code_); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

struct meeting {
    char address[2][ADDRESS_BYTES];
    size_t bytes;
    atomic_int arrived[3];
};

static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t peer;
static char own_address[ADDRESS_BYTES];
static size_t own_bytes = ADDRESS_BYTES;
static uint64_t region[THREADS + 1];
static time_t end;

struct operation {
    struct fi_context2 context;
    atomic_int over; /* 1: completed, 2: cancelled */
};

static void check_time(const char *where)
{
    if (time(NULL) < end) return;
    fprintf(stderr, "time limit exceeded: %s\n", where);
    exit(2);
}

static void read_one(void)
{
    struct fi_cq_tagged_entry entry;
    ssize_t got = fi_cq_read(cq, &entry, 1);
    if (got == 1) {
        if (entry.op_context) atomic_store(&((struct operation *)entry.op_context)->over, 1);
        return;
    }
    if (got != -FI_EAVAIL) return;
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(cq, &error, 0) != 1) return;
    if (error.err != FI_ECANCELED) {
        fprintf(stderr, "a completion says error %d\n", error.err);
        exit(1);
    }
    atomic_store(&((struct operation *)error.op_context)->over, 2);
}

static int wait_for(struct operation *operation, const char *what)
{
    while (atomic_load(&operation->over) == 0) {
        read_one();
        check_time(what);
    }
    return atomic_load(&operation->over);
}

#define POST(call)                    \
    while ((call) == -FI_EAGAIN) {    \
        read_one();                   \
        check_time(#call);            \
    }

static void *works(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    char *in = malloc(LONG_BYTES), *out = malloc(LONG_BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = round % 8 == 7 ? LONG_BYTES : round % 4 == 3 ? 600 : 8;
        struct operation receive = {0}, send = {0}, never = {0}, add = {0};
        memset(out, (int)number + 1, bytes);
        POST(fi_trecv(ep, in, bytes, NULL, FI_ADDR_UNSPEC, number, 0, &receive));
        if (round % 2 == 0) {
            POST(fi_tsend(ep, out, bytes, NULL, peer, number, &send));
        } else {
            while (fi_tinject(ep, out, bytes <= 64 ? bytes : 64, peer, number) == -FI_EAGAIN) read_one();
            atomic_store(&send.over, 1);
        }
        wait_for(&send, "a send");
        if (wait_for(&receive, "a receive") != 1 || in[0] != (char)(number + 1)) {
            fprintf(stderr, "thread %d received something else\n", (int)number);
            exit(1);
        }
        /* A receive that no message matches. */
        POST(fi_trecv(ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1000 + number, 0, &never));
        OK(fi_cancel(&ep->fid, &never));
        if (wait_for(&never, "a cancelled receive") != 2) exit(1);
        uint64_t one = 1;
        POST(fi_atomic(ep, &one, 1, NULL, peer, THREADS * 8, KEY, FI_UINT64, FI_SUM, &add));
        wait_for(&add, "an atomic operation");
        /* Control calls beside the transfers of other threads. */
        if (round % 10 == 5) {
            fi_addr_t again;
            char name[ADDRESS_BYTES];
            size_t room = sizeof name;
            if (fi_av_insert(av, own_address, 1, &again, 0, NULL) != 1) exit(1);
            OK(fi_av_lookup(av, again, name, &room));
            OK(fi_av_remove(av, &again, 1, 0));
            room = sizeof(size_t);
            size_t least = 64;
            OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
            OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &room));
            room = sizeof name;
            OK(fi_getname(&ep->fid, name, &room));
        }
    }
    free(in);
    free(out);
    return NULL;
}

static void meet(struct meeting *meeting, int step, int processes)
{
    atomic_fetch_add(&meeting->arrived[step], 1);
    while (atomic_load(&meeting->arrived[step]) < processes) {
        read_one();
        check_time("the peer");
    }
}

int main(int count, char **arguments)
{
    end = time(NULL) + LIMIT_S;
    struct meeting *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int processes = count > 1 && strcmp(arguments[1], "peer") == 0 ? 2 : 1, rank = 0;
    pid_t child = -1;
    if (processes == 2) {
        child = fork();
        rank = child == 0;
    }

    struct fi_info *hints = fi_allocinfo(), *info;
    hints->caps = FI_TAGGED | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = 0;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup("selvedge");
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_mr *mr;
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr vector = {0};
    OK(fi_cq_open(domain, &queue, &cq, NULL));
    OK(fi_av_open(domain, &vector, &av, NULL));
    OK(fi_endpoint(domain, info, &ep, NULL));
    OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_ep_bind(ep, &av->fid, 0));
    OK(fi_enable(ep));
    OK(fi_mr_reg(domain, region, sizeof region, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr, NULL));
    OK(fi_getname(&ep->fid, own_address, &own_bytes));
    memcpy(meeting->address[rank], own_address, own_bytes);
    meet(meeting, 0, processes);
    if (fi_av_insert(av, meeting->address[processes - 1 - rank], 1, &peer, 0, NULL) != 1) exit(1);

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, works, (void *)(uintptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    meet(meeting, 1, processes);
    if (__atomic_load_n(&region[THREADS], __ATOMIC_SEQ_CST) != (uint64_t)THREADS * ROUNDS) {
        fprintf(stderr, "%llu additions of %d\n", (unsigned long long)region[THREADS], THREADS * ROUNDS);
        exit(1);
    }
    meet(meeting, 2, processes);

    OK(fi_close(&mr->fid));
    OK(fi_close(&ep->fid));
    OK(fi_close(&av->fid));
    OK(fi_close(&cq->fid));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    fi_freeinfo(hints);
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    return status != 0;
}
