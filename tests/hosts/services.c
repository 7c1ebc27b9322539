/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * services: processes of several hosts, without a launcher, that find each other by a node and a service, over the libfabric provider.
 *
 *   services answer NODE SERVICE ASKERS   opens an endpoint under that name, answers ASKERS clients, and checks their messages. NODE may be
 *                                         "-": any address of the host
 *   services ask NODE SERVICE             asks the endpoint of that name: exit status 0 with the right answer, 3 if it has no such
 *                                         endpoint, after some tries
 *   services unmap NODE SERVICE           the same, after a long message whose memory it unmaps at once: that one fails
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESS_BYTES = 32, BYTES = 4096, PATIENCE_S = 120, TRIES = 20, NOBODY = 3 };

/* Question and answer: the address of the sender, then bytes. */
struct message {
    unsigned char sender[ADDRESS_BYTES];
    unsigned char bytes[BYTES];
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct message out, in;

static void must(const char *what, long rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "services: %s: %s\n", what, fi_strerror((int)-rc));
    exit(1);
}

static void open_all(const char *node, const char *service, uint64_t flags)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("selvedge");
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_av_open", fi_av_open(domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &av, NULL));
    must("fi_cq_open", fi_cq_open(domain, &(struct fi_cq_attr){.format = FI_CQ_FORMAT_CONTEXT}, &cq, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_enable", fi_enable(ep));
    size_t bytes = sizeof out.sender;
    must("fi_getname", fi_getname(&ep->fid, out.sender, &bytes));
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void close_all(void)
{
    struct fid *open[] = {&ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        must("fi_close", fi_close(open[i]));
}

static void complete(void)
{
    const time_t until = time(NULL) + PATIENCE_S;
    struct fi_cq_entry entry;
    ssize_t got;
    while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        if (time(NULL) > until)
            must("a completion", -FI_ETIMEDOUT);
    must("fi_cq_read", got == 1 ? 0 : got);
}

static void fill(int side)
{
    for (int i = 0; i < BYTES; i++)
        out.bytes[i] = (unsigned char)(i * 31 + i / 251 + side);
}

static void compare(int side)
{
    for (int i = 0; i < BYTES; i++)
        if (in.bytes[i] != (unsigned char)(i * 31 + i / 251 + side)) {
            fprintf(stderr, "services: wrong at %d\n", i);
            exit(1);
        }
}

static void receive(void) { must("fi_recv", fi_recv(ep, &in, sizeof in, NULL, FI_ADDR_UNSPEC, NULL)); }

static void send_to(fi_addr_t to)
{
    ssize_t rc;
    while ((rc = fi_send(ep, &out, sizeof out, NULL, to, NULL)) == -FI_EAGAIN)
        fi_cq_read(cq, NULL, 0);
    must("fi_send", rc);
}

/* Sends a long message and unmaps a part of it, before any message has gone to that peer. */
static void unmap_a_message(fi_addr_t to)
{
    enum { LONG = 1 << 20, HOLE = 1 << 14 };
    const time_t until = time(NULL) + PATIENCE_S;
    struct fi_cq_err_entry error = {0};
    char *bytes = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        must("mmap", -errno);
    memset(bytes, 1, LONG);
    must("fi_send", fi_send(ep, bytes, LONG, NULL, to, NULL));
    if (munmap(bytes + HOLE, HOLE) != 0)
        must("munmap", -errno);
    ssize_t got;
    struct fi_cq_entry entry;
    while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        if (time(NULL) > until)
            must("the failure", -FI_ETIMEDOUT);
    if (got != -FI_EAVAIL || fi_cq_readerr(cq, &error, 0) != 1) {
        fprintf(stderr, "services: a message without memory: %zd, %s\n", got, fi_strerror(error.err));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    fi_addr_t peer;
    if (argc == 5 && strcmp(argv[1], "answer") == 0) {
        open_all(strcmp(argv[2], "-") ? argv[2] : NULL, argv[3], FI_SOURCE);
        fill(1);
        printf("services: ready\n");
        fflush(stdout);
        for (int asker = 0; asker < atoi(argv[4]); asker++) {
            receive();
            complete();
            compare(0);
            if (fi_av_insert(av, in.sender, 1, &peer, 0, NULL) != 1)
                must("the asker's address", -FI_EINVAL);
            send_to(peer);
            complete();
        }
    } else if (argc == 4 && (strcmp(argv[1], "ask") == 0 || strcmp(argv[1], "unmap") == 0)) {
        open_all(NULL, NULL, 0);
        fill(0);
        for (int tries = 0; fi_av_insertsvc(av, argv[2], argv[3], &peer, 0, NULL) != 1; tries++) {
            if (tries == TRIES) {
                printf("services: %s has no endpoint %s\n", argv[2], argv[3]);
                close_all();
                return NOBODY;
            }
            usleep(100000);
        }
        if (strcmp(argv[1], "unmap") == 0)
            unmap_a_message(peer);
        receive();
        send_to(peer);
        complete();
        complete();
        compare(1);
    } else {
        fprintf(stderr, "usage: services answer NODE SERVICE ASKERS, or services ask|unmap NODE SERVICE\n");
        return 2;
    }
    close_all();
    printf("services: right\n");
    return 0;
}
