/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One process with two domains of libfabric's provider. COUNT times, the first writes 8 bytes, writes 5,000 bytes and reads 5,000 bytes
 * of memory that the second has registered, and waits for each. With WINDOW_MB, the memory has this size and is registered anew each time.
 *
 * accesses COUNT [WINDOW_MB]
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BYTES = 5000 };

struct side {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static void check(long rc, const char *call)
{
    if (rc == 0) return;
    fprintf(stderr, "%s: %ld\n", call, rc);
    exit(1);
}

#define OK(call) check((long)(call), #call)
/* Repeats a call that finds no room, after a poll. */
#define POST(side, call)                                                                                               \
    for (long rc_ = -FI_EAGAIN; rc_ == -FI_EAGAIN;) {                                                                  \
        if ((rc_ = (long)(call)) == -FI_EAGAIN) fi_cq_read((side)->cq, NULL, 0);                                       \
        else check(rc_, #call);                                                                                        \
    }

static void side_open(struct side *side, struct fid_fabric *fabric, struct fi_info *info)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
    OK(fi_domain(fabric, info, &side->domain, NULL));
    OK(fi_av_open(side->domain, &av, &side->av, NULL));
    OK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
    OK(fi_endpoint(side->domain, info, &side->ep, NULL));
    OK(fi_ep_bind(side->ep, &side->av->fid, 0));
    OK(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_enable(side->ep));
}

static void side_close(struct side *side)
{
    OK(fi_close(&side->ep->fid));
    OK(fi_close(&side->cq->fid));
    OK(fi_close(&side->av->fid));
    OK(fi_close(&side->domain->fid));
}

static void wait_for(struct side *side)
{
    struct fi_cq_entry entry;
    long rc;
    while ((rc = fi_cq_read(side->cq, &entry, 1)) == -FI_EAGAIN) continue;
    check(rc - 1, "fi_cq_read");
}

int main(int argc, char **argv)
{
    static char out[BYTES], in[BYTES];
    long count = argc > 1 ? atol(argv[1]) : 1;
    size_t window = argc > 2 ? (size_t)atol(argv[2]) << 20 : BYTES;
    char *memory = mmap(NULL, window, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_mr *mr;
    struct side a, b;
    char name[64];
    size_t bytes = sizeof name;
    fi_addr_t to;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    side_open(&a, fabric, info);
    side_open(&b, fabric, info);
    OK(fi_getname(&b.ep->fid, name, &bytes));
    check(fi_av_insert(a.av, name, 1, &to, 0, NULL) - 1, "fi_av_insert");
    for (long i = 0; i < count; i++) {
        if (i == 0 || argc > 2)
            OK(fi_mr_reg(b.domain, memory, window, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7 + (uint64_t)i, 0, &mr, NULL));
        uint64_t key = fi_mr_key(mr);
        memset(out, (int)i + 1, BYTES);
        POST(&a, fi_write(a.ep, out, 8, NULL, to, 100, key, NULL));
        wait_for(&a);
        POST(&a, fi_write(a.ep, out, BYTES, NULL, to, 0, key, NULL));
        wait_for(&a);
        POST(&a, fi_read(a.ep, in, BYTES, NULL, to, 0, key, NULL));
        wait_for(&a);
        check(memcmp(in, out, BYTES), "the bytes");
        if (argc > 2) {
            OK(fi_close(&mr->fid));
            fi_cq_read(a.cq, NULL, 0);
            fi_cq_read(b.cq, NULL, 0);
        }
    }
    if (argc <= 2) OK(fi_close(&mr->fid));
    side_close(&a);
    side_close(&b);
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return 0;
}
