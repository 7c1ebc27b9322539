/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The memory of a process for each known process of another host to which it has not sent: one that a libfabric
 * program inserts into an address vector, as the MPIs do when they start.
 *
 * The addresses are this process's own with other tokens and numbers, so they name processes at hosts that are never contacted.
 * Figures, by number of peers: bytes allocated by malloc, and the growth of resident memory, each divided by the number.
 *
 * usage: peers PROVIDER COUNT
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define ADDRESS_BYTES 32 /* of our provider: magic 2, NIC 2, endpoint 2, IP address 16, port 2, token 8 */
#define TOKEN_AT 24

static void check(const char *what, long status)
{
    if (status == 0)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, fi_strerror((int)-status));
    exit(1);
}

static double resident_bytes(void)
{
    long whole, resident;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%ld %ld", &whole, &resident) != 2)
        check("/proc/self/statm", -FI_EIO);
    fclose(statm);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double given_bytes(void)
{
    struct mallinfo2 all = mallinfo2();
    return (double)all.uordblks + (double)all.hblkhd;
}

static void report(const char *name, unsigned count, double value)
{
    printf("{\"case\":\"%s\",\"size_bytes\":null,\"depth\":%u,\"value\":%.6g,\"unit\":\"B\"}\n", name, count, value);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        check("usage: peers PROVIDER COUNT", -FI_EINVAL);
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
    struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
    unsigned char own[ADDRESS_BYTES], *all = malloc((size_t)count * ADDRESS_BYTES);
    size_t length = sizeof own;
    if (hints == NULL || all == NULL)
        check("memory", -FI_ENOMEM);
    hints->caps = FI_TAGGED | FI_MSG | FI_REMOTE_COMM | FI_LOCAL_COMM;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(argv[1]);
    check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    check("fi_domain", fi_domain(fabric, info, &domain, NULL));
    check("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
    check("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
    check("fi_endpoint", fi_endpoint(domain, info, &endpoint, NULL));
    check("fi_ep_bind", fi_ep_bind(endpoint, &av->fid, 0));
    check("fi_ep_bind", fi_ep_bind(endpoint, &cq->fid, FI_SEND | FI_RECV));
    check("fi_enable", fi_enable(endpoint));
    check("fi_getname", fi_getname(&endpoint->fid, own, &length));
    if (length != sizeof own)
        check("an address of 32 bytes", -FI_EINVAL);
    for (unsigned i = 0; i < count; i++) {
        unsigned char *address = all + (size_t)i * ADDRESS_BYTES;
        memcpy(address, own, sizeof own);
        for (unsigned byte = 0; byte < sizeof i; byte++)
            address[TOKEN_AT + byte] ^= (unsigned char)((i + 1) >> 8 * byte);
    }
    double given = given_bytes(), resident = resident_bytes();
    for (unsigned i = 0; i < count; i++)
        if (fi_av_insert(av, all + (size_t)i * ADDRESS_BYTES, 1, NULL, 0, NULL) != 1)
            check("fi_av_insert", -FI_EINVAL);
    report("memory:allocated", count, (given_bytes() - given) / count);
    report("memory:resident", count, (resident_bytes() - resident) / count);
    fflush(NULL);
    fi_close(&endpoint->fid);
    fi_close(&cq->fid);
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    free(all);
    return 0;
}
