/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Fabrics, domains, endpoints and event queues: opening, binding, enabling, closing while other objects need them, and
 * calls that RDM endpoints do not have. fi_fabric(3), fi_domain(3), fi_endpoint(3), fi_eq(3), fi_cm(3).
 */
#include "suite.h"

#include <rdma/fi_collective.h>

struct opened {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static struct opened opened(uint64_t caps)
{
    struct opened o = {.info = info_for((struct wants){.caps = caps, .av_type = FI_AV_TABLE})};
    if (o.info == NULL) skip("no answer for caps 0x%llx", (unsigned long long)caps);
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    OK(fi_fabric(o.info->fabric_attr, &o.fabric, &o));
    OK(fi_domain(o.fabric, o.info, &o.domain, &o));
    OK(fi_av_open(o.domain, &av_attr, &o.av, &o));
    OK(fi_cq_open(o.domain, &cq_attr, &o.cq, &o));
    OK(fi_endpoint(o.domain, o.info, &o.ep, &o));
    return o;
}

static void close_opened(struct opened *o)
{
    if (o->ep != NULL) OK(fi_close(&o->ep->fid));
    OK(fi_close(&o->cq->fid));
    OK(fi_close(&o->av->fid));
    OK(fi_close(&o->domain->fid));
    OK(fi_close(&o->fabric->fid));
    fi_freeinfo(o->info);
}

CASE(classes_and_contexts, 1, "fi_open: every object has its class and the context with which it was opened",
     .stock = "tcp;ofi_rxm: crashes when an endpoint without a vector is closed")
{
    struct side *side = side_open((struct wants){0});
    CHECK_EQ(side->fabric->fid.fclass, FI_CLASS_FABRIC);
    CHECK_EQ(side->domain->fid.fclass, FI_CLASS_DOMAIN);
    CHECK_EQ(side->av->fid.fclass, FI_CLASS_AV);
    CHECK_EQ(side->tx->fid.fclass, FI_CLASS_CQ);
    CHECK_EQ(side->ep->fid.fclass, FI_CLASS_EP);
    CHECK_PTR(side->ep->fid.context, side);
    struct fid_cntr *cntr = counter_open(side, FI_WAIT_NONE);
    CHECK_EQ(cntr->fid.fclass, FI_CLASS_CNTR);
    struct opened o = opened(FI_MSG);
    CHECK_OP(o.fabric->fid.context, !=, NULL);
    CHECK_OP(o.domain->fid.context, !=, NULL);
    CHECK_OP(o.cq->fid.context, !=, NULL);
    close_opened(&o);
}

CASE(fabric_of_another_name, 1, "fi_fabric: a name that the provider does not have is refused",
     .stock = "tcp;ofi_rxm: any name of a fabric will do | shm: any name of a fabric will do | sockets: any name of "
              "a fabric will do")
{
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG});
    struct fi_fabric_attr attr = *info->fabric_attr;
    struct fid_fabric *fabric = NULL;
    attr.name = (char *)"no_such_fabric";
    REFUSED(fi_fabric(&attr, &fabric, NULL));
    attr.name = info->fabric_attr->name;
    attr.prov_name = (char *)"no_such_provider";
    REFUSED(fi_fabric(&attr, &fabric, NULL));
    fi_freeinfo(info);
}

CASE(domain_of_another_name, 1, "fi_domain: a name that the provider does not have is refused", .needs = OUR_PROVIDER)
{
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG});
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    struct fi_info *other = fi_dupinfo(info);
    free(other->domain_attr->name);
    other->domain_attr->name = strdup("no_such_domain");
    REFUSED(fi_domain(fabric, other, &domain, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(other);
    fi_freeinfo(info);
}

CASE(close_in_the_wrong_order, 1,
     "fi_close: an object that others still need is -FI_EBUSY, and keeps working: fabric under domain, domain under "
     "all, queue and vector under an endpoint",
     .stock = "tcp;ofi_rxm: crashes when an endpoint without a vector is closed | sockets: closes the fabric under "
              "its domain")
{
    struct opened o = opened(FI_MSG | FI_RMA);
    struct fid_mr *mr = NULL;
    char *memory = buffer(64);
    CHECK_RC(fi_close(&o.fabric->fid), -FI_EBUSY);
    CHECK_RC(fi_close(&o.domain->fid), -FI_EBUSY);
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK_RC(fi_close(&o.cq->fid), -FI_EBUSY);
    CHECK_RC(fi_close(&o.av->fid), -FI_EBUSY);
    OK(fi_enable(o.ep));
    CHECK_RC(fi_close(&o.cq->fid), -FI_EBUSY);
    CHECK_RC(fi_close(&o.av->fid), -FI_EBUSY);
    OK(fi_close(&o.ep->fid));
    o.ep = NULL;
    OK(fi_mr_reg(o.domain, memory, 64, FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
    CHECK_RC(fi_close(&o.domain->fid), -FI_EBUSY);
    OK(fi_close(&o.cq->fid));
    CHECK_RC(fi_close(&o.domain->fid), -FI_EBUSY);
    OK(fi_close(&o.av->fid));
    CHECK_RC(fi_close(&o.domain->fid), -FI_EBUSY);
    OK(fi_close(&mr->fid));
    CHECK_RC(fi_close(&o.fabric->fid), -FI_EBUSY);
    OK(fi_close(&o.domain->fid));
    OK(fi_close(&o.fabric->fid));
    fi_freeinfo(o.info);
}

CASE(enable_without_a_queue, 1,
     "fi_enable: -FI_ENOCQ without a completion queue for the endpoint's capabilities, -FI_ENOAV without a vector; "
     "after binding it succeeds",
     .stock = "tcp;ofi_rxm: -FI_EOPBADSTATE | sockets: asks for no queue")
{
    struct opened o = opened(FI_MSG);
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    CHECK_RC(fi_enable(o.ep), -FI_ENOCQ);
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT));
    CHECK_RC(fi_enable(o.ep), -FI_ENOCQ);
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_RECV));
    OK(fi_enable(o.ep));
    OK(fi_close(&o.ep->fid));
    OK(fi_endpoint(o.domain, o.info, &o.ep, NULL));
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK_RC(fi_enable(o.ep), -FI_ENOAV);
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_enable(o.ep));
    close_opened(&o);
}

CASE(bind_rules, 1,
     "fi_ep_bind: unknown flags, a second queue for the same, a queue or vector after fi_enable, an object of another kind or "
     "domain are refused",
     .needs = OUR_PROVIDER)
{
    struct opened o = opened(FI_MSG), other = opened(FI_MSG);
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *second = NULL;
    OK(fi_cq_open(o.domain, &attr, &second, NULL));
    REFUSED(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_MULTICAST));
    REFUSED(fi_ep_bind(o.ep, &o.cq->fid, FI_SELECTIVE_COMPLETION));
    REFUSED(fi_ep_bind(o.ep, &o.cq->fid, 0));
    REFUSED(fi_ep_bind(o.ep, &o.domain->fid, 0));
    REFUSED(fi_ep_bind(o.ep, &o.ep->fid, 0));
    REFUSED(fi_ep_bind(o.ep, &other.cq->fid, FI_TRANSMIT | FI_RECV));
    REFUSED(fi_ep_bind(o.ep, &other.av->fid, 0));
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV));
    REFUSED(fi_ep_bind(o.ep, &second->fid, FI_TRANSMIT));
    REFUSED(fi_ep_bind(o.ep, &second->fid, FI_RECV));
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_enable(o.ep));
    REFUSED(fi_ep_bind(o.ep, &second->fid, FI_TRANSMIT));
    REFUSED(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_close(&second->fid));
    close_opened(&other);
    close_opened(&o);
}

CASE(transfers_before_enable, 1,
     "fi_endpoint: an endpoint must be enabled before it transfers: every call is an error until then",
     .needs = OUR_PROVIDER)
{
    struct opened o = opened(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);
    char bytes[64] = {0};
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV));
    REFUSED(fi_send(o.ep, bytes, 8, NULL, 0, NULL));
    REFUSED(fi_inject(o.ep, bytes, 8, 0));
    REFUSED(fi_recv(o.ep, bytes, 8, NULL, FI_ADDR_UNSPEC, NULL));
    REFUSED(fi_tsend(o.ep, bytes, 8, NULL, 0, 1, NULL));
    REFUSED(fi_trecv(o.ep, bytes, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    REFUSED(fi_write(o.ep, bytes, 8, NULL, 0, 0, 1, NULL));
    REFUSED(fi_read(o.ep, bytes, 8, NULL, 0, 0, 1, NULL));
    REFUSED(fi_atomic(o.ep, bytes, 1, NULL, 0, 0, 1, FI_UINT64, FI_SUM, NULL));
    close_opened(&o);
}

CASE(calls_without_the_capability, 1,
     "fi_getinfo: an endpoint opened without a capability refuses its calls: tagged, RMA, atomics",
     .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    uint64_t word = 1;
    fi_addr_t self = side_insert(side, side);
    if (!(side->info->caps & FI_TAGGED)) {
        REFUSED(fi_tsend(side->ep, &word, 8, NULL, self, 1, NULL));
        REFUSED(fi_trecv(side->ep, &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    }
    if (!(side->info->caps & FI_RMA)) REFUSED(fi_write(side->ep, &word, 8, NULL, self, 0, 1, NULL));
    if (!(side->info->caps & FI_ATOMIC))
        REFUSED(fi_atomic(side->ep, &word, 1, NULL, self, 0, 1, FI_UINT64, FI_SUM, NULL));
}

CASE(calls_of_other_endpoints, 1,
     "fi_endpoint: scalable and passive endpoints, shared contexts, connections, multicast, poll and wait sets are "
     "refused as not implemented",
     .needs = OUR_PROVIDER)
{
    struct opened o = opened(FI_MSG);
    struct fid_ep *sep = NULL;
    struct fid_pep *pep = NULL;
    struct fid_stx *stx = NULL;
    struct fid_mc *mc = NULL;
    struct fid_poll *poll = NULL;
    struct fid_wait *wait = NULL;
    struct fi_poll_attr poll_attr = {.flags = 0};
    struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_UNSPEC};
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_enable(o.ep));
    REFUSED(fi_scalable_ep(o.domain, o.info, &sep, NULL));
    REFUSED(fi_passive_ep(o.fabric, o.info, &pep, NULL));
    REFUSED(fi_stx_context(o.domain, o.info->tx_attr, &stx, NULL));
    REFUSED(fi_srx_context(o.domain, o.info->rx_attr, &sep, NULL));
    REFUSED(fi_tx_context(o.ep, 0, NULL, &sep, NULL));
    REFUSED(fi_rx_context(o.ep, 0, NULL, &sep, NULL));
    REFUSED(fi_connect(o.ep, &o, NULL, 0));
    REFUSED(fi_accept(o.ep, NULL, 0));
    REFUSED(fi_shutdown(o.ep, 0));
    char name[64];
    size_t bytes = sizeof name;
    REFUSED(fi_getpeer(o.ep, name, &bytes));
    REFUSED(fi_setname(&o.ep->fid, name, 32));
    REFUSED(fi_join(o.ep, name, 0, &mc, NULL));
    int rc = fi_poll_open(o.domain, &poll_attr, &poll);
    if (rc == 0) OK(fi_close(&poll->fid));
    rc = fi_wait_open(o.fabric, &wait_attr, &wait);
    if (rc == 0) OK(fi_close(&wait->fid));
    void *ops = NULL;
    REFUSED(fi_open_ops(&o.domain->fid, "no_such_operations", 0, &ops, NULL));
    close_opened(&o);
}

CASE(endpoints_that_cannot_be, 1,
     "fi_endpoint: an info beyond the answer of fi_getinfo is refused: another type, more capabilities, larger sizes",
     .needs = OUR_PROVIDER)
{
    struct opened o = opened(FI_MSG);
    struct fid_ep *ep = NULL;
    struct fi_info *info = fi_dupinfo(o.info);
    info->ep_attr->type = FI_EP_MSG;
    REFUSED(fi_endpoint(o.domain, info, &ep, NULL));
    info->ep_attr->type = FI_EP_RDM;
    info->caps |= FI_MULTICAST;
    REFUSED(fi_endpoint(o.domain, info, &ep, NULL));
    info->caps = o.info->caps;
    info->tx_attr->inject_size = 1 << 30;
    REFUSED(fi_endpoint(o.domain, info, &ep, NULL));
    info->tx_attr->inject_size = o.info->tx_attr->inject_size;
    info->rx_attr->iov_limit = 100000;
    REFUSED(fi_endpoint(o.domain, info, &ep, NULL));
    info->rx_attr->iov_limit = o.info->rx_attr->iov_limit;
    OK(fi_endpoint(o.domain, info, &ep, NULL));
    OK(fi_close(&ep->fid));
    fi_freeinfo(info);
    close_opened(&o);
}

CASE(opened_and_closed_again, 1,
     "fi_close: leaves nothing: a fabric with all its objects is opened, used and closed 40 times")
{
    for (int i = 0; i < 40; i++) {
        about("round %d", i);
        struct side *a = side_open((struct wants){.caps = FI_MSG | FI_RMA}),
                    *b = side_open((struct wants){.caps = FI_MSG | FI_RMA});
        fi_addr_t to_b = side_insert(a, b);
        static char in[8], memory[8];
        struct region r = region_over(b, memory, 8, ACCESS_ALL);
        POST(fi_recv(b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        POST(fi_inject(a->ep, "hello", 6, to_b));
        WAIT_RX(b);
        POST(fi_read(a->ep, in, 8, NULL, to_b, r.base, r.key, NULL));
        WAIT_TX(a);
        side_close(a);
        side_close(b);
    }
}

CASE(closed_with_work_outstanding, 1,
     "fi_close: an endpoint with receives posted and messages unread closes, its operations are dropped, its peers "
     "continue")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED}),
                q = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    static char in[100][8];
    for (int i = 0; i < 100; i++) {
        POST(fi_trecv(p.b->ep, in[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        POST(fi_tinject(p.a->ep, "unread", 6, p.to_b, 2));
    }
    for (int i = 0; i < 100; i++) progress();
    fi_addr_t from_a_to_q = side_insert(p.a, q.b);
    side_close(p.b);
    POST(fi_trecv(q.b->ep, in[0], 8, NULL, FI_ADDR_UNSPEC, 3, 0, NULL));
    POST(fi_tinject(p.a->ep, "after", 5, from_a_to_q, 3));
    CHECK_EQ(WAIT_RX(q.b).len, 5);
}

/* ---- Event queues ------------------------------------------------------------------------------------------------ */

static struct fid_eq *eq_open(struct side *side, uint64_t flags, enum fi_wait_obj wait_obj)
{
    struct fi_eq_attr attr = {.size = 64, .flags = flags, .wait_obj = wait_obj};
    struct fid_eq *eq = NULL;
    OK(fi_eq_open(side->fabric, &attr, &eq, NULL));
    return eq;
}

CASE(eq_empty, 1, "fi_eq_read, fi_eq_readerr: -FI_EAGAIN from an empty queue")
{
    struct side *side = side_open((struct wants){0});
    struct fid_eq *eq = eq_open(side, 0, FI_WAIT_NONE);
    uint32_t event;
    struct fi_eq_entry entry;
    struct fi_eq_err_entry error = {0};
    CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAGAIN);
    CHECK_RC(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
    CHECK_OP(fi_eq_strerror(eq, 1, NULL, NULL, 0), !=, NULL);
    OK(fi_close(&eq->fid));
}

CASE(eq_of_the_user, 1, "fi_eq_write: events of the user come out in order, whole; FI_PEEK leaves them in the queue")
{
    struct side *side = side_open((struct wants){0});
    struct fid_eq *eq = eq_open(side, FI_WRITE, FI_WAIT_NONE);
    struct fi_eq_entry out = {.fid = &side->ep->fid, .context = side}, in;
    uint32_t event = 0;
    for (uint64_t i = 0; i < 20; i++) {
        out.data = i;
        CHECK_RC(fi_eq_write(eq, FI_NOTIFY, &out, sizeof out, 0), sizeof out);
    }
    for (uint64_t i = 0; i < 20; i++)
        for (int peek = 1; peek >= 0; peek--) {
            memset(&in, 0, sizeof in);
            CHECK_RC(fi_eq_read(eq, &event, &in, sizeof in, peek ? FI_PEEK : 0), sizeof in);
            CHECK_EQ(event, FI_NOTIFY);
            CHECK_EQ(in.data, i);
            CHECK_PTR(in.context, side);
            CHECK_PTR(in.fid, &side->ep->fid);
        }
    CHECK_RC(fi_eq_read(eq, &event, &in, sizeof in, 0), -FI_EAGAIN);
    OK(fi_close(&eq->fid));
}

CASE(eq_not_for_the_user, 1, "fi_eq_write: without FI_WRITE among the flags it is refused",
     .stock = "tcp;ofi_rxm: takes it | shm: takes it")
{
    struct side *side = side_open((struct wants){0});
    struct fid_eq *eq = eq_open(side, 0, FI_WAIT_NONE);
    struct fi_eq_entry out = {0};
    REFUSED(fi_eq_write(eq, FI_NOTIFY, &out, sizeof out, 0));
    OK(fi_close(&eq->fid));
}

CASE(eq_sread, 1, "fi_eq_sread: -FI_EAGAIN after the timeout, not before; a pending event at once",
     .stock = "shm: never returns")
{
    struct side *side = side_open((struct wants){0});
    struct fid_eq *eq = eq_open(side, FI_WRITE, FI_WAIT_UNSPEC);
    struct fi_eq_entry entry = {.data = 5};
    uint32_t event;
    long long from = now_ms();
    CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof entry, 50, 0), -FI_EAGAIN);
    CHECK_OP(now_ms() - from, >=, 49);
    CHECK_RC(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
    CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof entry, -1, 0), sizeof entry);
    CHECK_EQ(entry.data, 5);
    OK(fi_close(&eq->fid));
}

CASE(eq_is_bound, 1, "fi_eq: bound to an endpoint it cannot be closed: -FI_EBUSY",
     .stock = "shm: closes it | sockets: closes it")
{
    struct opened o = opened(FI_MSG);
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_eq *eq = NULL;
    OK(fi_eq_open(o.fabric, &attr, &eq, NULL));
    OK(fi_ep_bind(o.ep, &o.av->fid, 0));
    OK(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV));
    int rc = fi_ep_bind(o.ep, &eq->fid, 0);
    OK(fi_enable(o.ep));
    if (is_ours()) OK(rc);
    if (rc == 0) CHECK_RC(fi_close(&eq->fid), -FI_EBUSY);
    OK(fi_close(&o.ep->fid));
    o.ep = NULL;
    OK(fi_close(&eq->fid));
    close_opened(&o);
}

CASE(eq_of_the_domain, 1,
     "fi_domain_bind: registration reported by events (FI_REG_MR) ends with FI_MR_COMPLETE; or binding is refused",
     .stock = "sockets: reports another object")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG | FI_RMA});
    struct fid_eq *eq = eq_open(side, 0, FI_WAIT_NONE);
    int rc = fi_domain_bind(side->domain, &eq->fid, FI_REG_MR);
    if (rc == 0) {
        struct fid_mr *mr = NULL;
        char *memory = buffer(64);
        OK(fi_mr_reg(side->domain, memory, 64, FI_REMOTE_READ, 0, 1, 0, &mr, &mr));
        struct fi_eq_entry entry;
        uint32_t event = 0;
        ssize_t got;
        long long until = now_ms() + WAIT_MS;
        while ((got = fi_eq_read(eq, &event, &entry, sizeof entry, 0)) == -FI_EAGAIN && now_ms() < until) progress();
        CHECK_RC(got, sizeof entry);
        CHECK_EQ(event, FI_MR_COMPLETE);
        CHECK_PTR(entry.fid, &mr->fid);
        CHECK_PTR(entry.context, &mr);
        OK(fi_close(&mr->fid));
        side_close(side);
    } else {
        CHECK_OP(rc, <, 0);
    }
    OK(fi_close(&eq->fid));
}

CASE(eq_wait_objects, 1, "fi_eq_open: an unknown wait object or flag is refused", .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){0});
    struct fi_eq_attr object = {.wait_obj = 77}, flags = {.flags = 1ull << 40};
    struct fid_eq *eq = NULL;
    REFUSED(fi_eq_open(side->fabric, &object, &eq, NULL));
    REFUSED(fi_eq_open(side->fabric, &flags, &eq, NULL));
}
