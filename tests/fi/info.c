/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The provider's description of itself: complete answers, versions, copies, names, addresses, flags. fi_getinfo(3),
 * fi_fabric(3).
 */
#include "queries.h"

#include <pthread.h>

/* ---- The answer -------------------------------------------------------------------------------------------------- */

static void check_complete(const struct fi_info *info, uint32_t version)
{
    CHECK(info->tx_attr);
    CHECK(info->rx_attr);
    CHECK(info->ep_attr);
    CHECK(info->domain_attr);
    CHECK(info->fabric_attr);
    CHECK(info->fabric_attr->prov_name);
    CHECK_TEXT(info->fabric_attr->prov_name, provider());
    CHECK(info->fabric_attr->name);
    CHECK(info->fabric_attr->name[0]);
    CHECK(info->domain_attr->name);
    CHECK(info->domain_attr->name[0]);
    CHECK_OP(info->fabric_attr->prov_version, !=, 0);
    CHECK_EQ(info->fabric_attr->api_version, version);
    CHECK_EQ(info->ep_attr->type, FI_EP_RDM);
    CHECK_OP(info->ep_attr->max_msg_size, >, 0);
    CHECK_OP(info->ep_attr->tx_ctx_cnt, >=, 1);
    CHECK_OP(info->ep_attr->rx_ctx_cnt, >=, 1);
    CHECK_OP(info->ep_attr->mem_tag_format, !=, 0);
    CHECK_OP(info->tx_attr->caps, !=, 0);
    CHECK_OP(info->rx_attr->caps, !=, 0);
    CHECK_FLAGS(info->caps, info->tx_attr->caps & CLAIMED_PRIMARY, 0);
    CHECK_FLAGS(info->caps, info->rx_attr->caps & CLAIMED_PRIMARY, 0);
    CHECK_OP(info->tx_attr->size, >, 0);
    CHECK_OP(info->rx_attr->size, >, 0);
    CHECK_OP(info->tx_attr->iov_limit, >, 0);
    CHECK_OP(info->rx_attr->iov_limit, >, 0);
    CHECK_OP(info->tx_attr->rma_iov_limit, >, 0);
    const struct fi_domain_attr *d = info->domain_attr;
    CHECK_OP(d->threading, !=, FI_THREAD_UNSPEC);
    CHECK_OP(d->control_progress, !=, FI_PROGRESS_UNSPEC);
    CHECK_OP(d->data_progress, !=, FI_PROGRESS_UNSPEC);
    CHECK_OP(d->resource_mgmt, !=, FI_RM_UNSPEC);
    CHECK_OP(d->mr_key_size, >, 0);
    CHECK_OP(d->cq_data_size, >=, 4);
    CHECK_OP(d->cq_cnt, >, 0);
    CHECK_OP(d->ep_cnt, >, 0);
    CHECK_OP(d->tx_ctx_cnt, >, 0);
    CHECK_OP(d->rx_ctx_cnt, >, 0);
    CHECK_OP(d->max_ep_tx_ctx, >=, 1);
    CHECK_OP(d->max_ep_rx_ctx, >=, 1);
    if (info->src_addr != NULL) CHECK_OP(info->src_addrlen, >, 0);
    if (info->src_addrlen > 0) CHECK_OP(info->src_addr, !=, NULL);
    CHECK_EQ(info->mode, 0); /* the hints offered none */
}

CASE(the_answer_is_complete, 1, "fi_getinfo: all attributes of the answer are set")
{
    struct fi_info *info = plain();
    must_answer("all of MSG, TAGGED, RMA, ATOMIC", info);
    for (struct fi_info *one = info; one != NULL; one = one->next) check_complete(one, api_version());
    fi_freeinfo(info);
}

CASE(the_answer_is_ours, 1, "contract: names, sizes and limits of the provider", .needs = OUR_PROVIDER)
{
    struct fi_info *info = plain();
    must_answer("all of MSG, TAGGED, RMA, ATOMIC", info);
    CHECK_TEXT(info->fabric_attr->name, "selvedge");
    CHECK_TEXT(info->domain_attr->name, "selvedge");
    CHECK_OP(info->tx_attr->inject_size, >=, 256);
    CHECK_EQ(info->tx_attr->iov_limit, 8);
    CHECK_EQ(info->rx_attr->iov_limit, 8);
    CHECK_EQ(info->tx_attr->rma_iov_limit, 8);
    CHECK_EQ(info->domain_attr->mr_key_size, 8);
    CHECK_EQ(info->domain_attr->cq_data_size, 8);
    CHECK_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
    CHECK_FLAGS(info->caps, CLAIMED_PRIMARY, 0);
    CHECK_OP(info->ep_attr->max_msg_size, >=, 1ull << 31);
    CHECK_OP(info->domain_attr->cntr_cnt, >, 0);
    CHECK_OP(info->domain_attr->mr_cnt, >, 0);
    CHECK_OP(info->domain_attr->mr_iov_limit, >, 0);
    CHECK_EQ(info->ep_attr->msg_prefix_size, 0);
    fi_freeinfo(info);
}

CASE(no_hints, 1,
     "fi_getinfo: without hints, node and service the provider is among the answers, with all its capabilities")
{
    struct fi_info *info = NULL;
    OK(fi_getinfo(api_version(), NULL, NULL, 0, NULL, &info));
    bool found = false;
    for (struct fi_info *one = info; one != NULL; one = one->next)
        if (strcmp(one->fabric_attr->prov_name, provider()) == 0 && one->ep_attr->type == FI_EP_RDM) {
            found = true;
            if (is_ours())
                CHECK_FLAGS(one->caps,
                            CLAIMED_PRIMARY | FI_SOURCE | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_RMA_EVENT | FI_TRIGGER,
                            0);
        }
    CHECK(found);
    fi_freeinfo(info);
}

CASE(versions, 1,
     "fi_getinfo: every version from 1.5 to the library's is answered with itself; the domain opens with it")
{
    uint32_t loaded = fi_version();
    for (uint32_t major = 1; major <= FI_MAJOR(loaded); major++)
        for (uint32_t minor = major == 1 ? 5 : 0; minor <= (major == FI_MAJOR(loaded) ? FI_MINOR(loaded) : 21);
             minor++) {
            about("version %u.%u of %u.%u", major, minor, FI_MAJOR(loaded), FI_MINOR(loaded));
            struct fi_info *hints = plain_hints();
            if (major >= 2) hints->domain_attr->av_type = FI_AV_UNSPEC;
            struct fi_info *info = info_for_hints(FI_VERSION(major, minor), hints);
            must_answer("these hints", info);
            CHECK_EQ(info->fabric_attr->api_version, FI_VERSION(major, minor));
            struct fid_fabric *fabric = NULL;
            struct fid_domain *domain = NULL;
            OK(fi_fabric(info->fabric_attr, &fabric, NULL));
            OK(fi_domain(fabric, info, &domain, NULL));
            OK(fi_close(&domain->fid));
            OK(fi_close(&fabric->fid));
            fi_freeinfo(info);
            fi_freeinfo(hints);
        }
}

CASE(versions_not_had, 1, "fi_getinfo: a version newer than the library is refused")
{
    struct fi_info *info = NULL;
    REFUSED(fi_getinfo(FI_VERSION(9, 0), NULL, NULL, 0, NULL, &info));
}

CASE(copies, 1, "fi_dupinfo: a copy of all levels, which outlives its original; fi_allocinfo: all zero")
{
    struct fi_info *empty = fi_allocinfo();
    CHECK(empty);
    CHECK(empty->tx_attr);
    CHECK(empty->rx_attr);
    CHECK(empty->ep_attr);
    CHECK(empty->domain_attr);
    CHECK(empty->fabric_attr);
    CHECK_OP(empty->caps, ==, 0);
    CHECK_OP(empty->mode, ==, 0);
    CHECK_OP(empty->src_addr, ==, NULL);
    CHECK_OP(empty->domain_attr->mr_mode, ==, 0);
    fi_freeinfo(empty);
    struct fi_info *info = plain();
    must_answer("plain hints", info);
    struct fi_info *copy = fi_dupinfo(info);
    CHECK_OP(copy, !=, NULL);
    CHECK_OP(copy->next, ==, NULL);
    CHECK_OP(copy->tx_attr, !=, info->tx_attr);
    CHECK_OP(copy->domain_attr->name, !=, info->domain_attr->name);
    CHECK_EQ(copy->caps, info->caps);
    CHECK_SAME(copy->tx_attr, info->tx_attr, sizeof *copy->tx_attr);
    CHECK_SAME(copy->rx_attr, info->rx_attr, sizeof *copy->rx_attr);
    char name[128];
    snprintf(name, sizeof name, "%s", info->domain_attr->name);
    fi_freeinfo(info);
    CHECK_TEXT(copy->domain_attr->name, name);
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    OK(fi_fabric(copy->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, copy, &domain, NULL));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(copy);
}

CASE(printed, 1, "fi_tostr: the answer can be printed, with the names in it")
{
    struct fi_info *info = plain();
    must_answer("plain hints", info);
    const char *text = fi_tostr(info, FI_TYPE_INFO);
    CHECK(strstr(text, info->fabric_attr->prov_name) && strstr(text, info->domain_attr->name) &&
          strstr(text, "FI_EP_RDM"));
    fi_freeinfo(info);
}

CASE(asked_by_several_threads, 1, "fi_getinfo: threads may call it at once")
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        extern void *ask_often(void *);
        pthread_create(&threads[i], NULL, ask_often, NULL);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

void *ask_often(void *unused)
{
    for (int i = 0; i < 20; i++) {
        struct fi_info *info = plain();
        must_answer("plain hints", info);
        fi_freeinfo(info);
    }
    return unused;
}

CASE(opened_ones_are_told, 1,
     "fi_getinfo: domain_attr.domain and fabric_attr.fabric are NULL unless hints name an open one, which is returned",
     .stock = "tcp;ofi_rxm: fabric is NULL | shm: domain is NULL | sockets: fabric is NULL")
{
    struct fi_info *info = plain();
    must_answer("plain hints", info);
    CHECK_PTR(info->domain_attr->domain, NULL);
    CHECK_PTR(info->fabric_attr->fabric, NULL);
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    struct fi_info *hints = plain_hints();
    hints->fabric_attr->fabric = fabric;
    hints->domain_attr->domain = domain;
    struct fi_info *again = info_for_hints(api_version(), hints);
    must_answer("hints with the open domain", again);
    CHECK_PTR(again->fabric_attr->fabric, fabric);
    CHECK_PTR(again->domain_attr->domain, domain);
    hints->fabric_attr->fabric = NULL;
    hints->domain_attr->domain = NULL;
    fi_freeinfo(hints);
    fi_freeinfo(again);
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

/* ---- Names and addresses ----------------------------------------------------------------------------------------- */

CASE(names, 1, "fi_getinfo: the reported names of provider, fabric and domain are answered, others are -FI_ENODATA",
     .stock = "tcp;ofi_rxm: any name of a fabric will do | shm: any name of a fabric will do | sockets: any name of "
              "a fabric will do")
{
    struct fi_info *told = plain();
    must_answer("plain hints", told);
    for (int which = 0; which < 3; which++)
        for (int how = 0; how < 4; how++) {
            const char *right = which == 0   ? told->fabric_attr->prov_name
                                : which == 1 ? told->fabric_attr->name
                                             : told->domain_attr->name;
            char name[256];
            static const char *const WRONG[] = {NULL, "no_such_thing", "x", NULL};
            snprintf(name, sizeof name, "%s", how == 0 ? right : how == 3 ? right : WRONG[how]);
            if (how == 3) strcat(name, "2");
            about("%s '%s'", which == 0 ? "provider" : which == 1 ? "fabric" : "domain", name);
            struct fi_info *hints = plain_hints();
            if (which == 0) {
                free(hints->fabric_attr->prov_name);
                hints->fabric_attr->prov_name = strdup(name);
            } else if (which == 1) {
                hints->fabric_attr->name = strdup(name);
            } else {
                hints->domain_attr->name = strdup(name);
            }
            struct fi_info *info = answer_to(hints);
            if (how == 0) must_answer("the right name", info);
            if (how != 0 && info != NULL) FAIL("answered");
            fi_freeinfo(info);
        }
    fi_freeinfo(told);
}

CASE(formats_and_protocols, 1, "fi_getinfo: the reported address format and protocol are answered, others are not")
{
    struct fi_info *told = plain();
    must_answer("plain hints", told);
    struct fi_info *hints = plain_hints();
    hints->addr_format = told->addr_format;
    hints->ep_attr->protocol = told->ep_attr->protocol;
    struct fi_info *info = answer_to(hints);
    must_answer("the reported values", info);
    fi_freeinfo(info);
    static const uint32_t FORMATS[] = {FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_ADDR_PSMX,
                                       FI_ADDR_GNI,    FI_ADDR_STR,     FI_ADDR_EFA};
    for (size_t i = 0; i < COUNT_OF(FORMATS); i++) {
        about("format %u", FORMATS[i]);
        hints = plain_hints();
        hints->addr_format = FORMATS[i];
        info = answer_to(hints);
        if (info != NULL) CHECK_EQ(info->addr_format, FORMATS[i]);
        fi_freeinfo(info);
    }
    hints = plain_hints();
    hints->ep_attr->protocol = FI_PROTO_IWARP;
    info = answer_to(hints);
    if (info != NULL) FAIL("FI_PROTO_IWARP is answered with protocol %u", info->ep_attr->protocol);
    hints = plain_hints();
    hints->ep_attr->protocol = told->ep_attr->protocol;
    hints->ep_attr->protocol_version = told->ep_attr->protocol_version + 1000;
    info = answer_to(hints);
    if (is_ours() && info != NULL) FAIL("a later version of the protocol is answered");
    fi_freeinfo(info);
    fi_freeinfo(told);
}

CASE(nodes_and_services, 1,
     "fi_getinfo: FI_SOURCE needs a node or a service; a node that cannot be resolved is an error",
     .stock = "shm: takes any name of a node")
{
    struct fi_info *hints = plain_hints(), *info = NULL;
    REFUSED(fi_getinfo(api_version(), "no.such.host.invalid", "4711", FI_NUMERICHOST, hints, &info));
    REFUSED(fi_getinfo(api_version(), NULL, NULL, FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
}

CASE(sources_and_targets, 1,
     "fi_getinfo: a node and a service of this machine are dest_addr, with FI_SOURCE src_addr; hints with such an "
     "address are answered with it; without any, src_addr is still set",
     .needs = OUR_PROVIDER)
{
    struct fi_info *hints = plain_hints(), *source = NULL, *target = NULL, *info = NULL;
    OK(fi_getinfo(api_version(), NULL, NULL, 0, hints, &info));
    CHECK_OP(info->src_addr, !=, NULL);
    CHECK_OP(info->src_addrlen, >, 0);
    CHECK_OP(info->dest_addr, ==, NULL);
    CHECK_OP(info->dest_addrlen, ==, 0);
    fi_freeinfo(info);
    const char *nodes[] = {NULL, "127.0.0.1", "localhost"};
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        about("node %s", nodes[i] ? nodes[i] : "NULL");
        OK(fi_getinfo(api_version(), nodes[i], "4711", FI_SOURCE, hints, &source));
        CHECK_OP(source->dest_addr, ==, NULL);
        OK(fi_getinfo(api_version(), nodes[i], "4711", 0, hints, &target));
        CHECK_EQ(target->dest_addrlen, source->src_addrlen);
        CHECK_SAME(target->dest_addr, source->src_addr, source->src_addrlen);
        OK(fi_getinfo(api_version(), nodes[i], "4712", 0, hints, &info));
        CHECK_OP(memcmp(info->dest_addr, source->src_addr, source->src_addrlen), !=, 0);
        fi_freeinfo(info);
        OK(fi_getinfo(api_version(), NULL, NULL, 0, source, &info));
        CHECK_SAME(info->src_addr, source->src_addr, source->src_addrlen);
        fi_freeinfo(info);
        OK(fi_getinfo(api_version(), NULL, NULL, 0, target, &info));
        CHECK_SAME(info->dest_addr, source->src_addr, source->src_addrlen);
        fi_freeinfo(info);
        fi_freeinfo(source);
        fi_freeinfo(target);
    }
    CHECK_RC(fi_getinfo(api_version(), "127.0.0.1", "no-such-service", 0, hints, &info), -FI_ENODATA);
    CHECK_RC(fi_getinfo(api_version(), "127.0.0.1", "65536", 0, hints, &info), -FI_ENODATA);
    CHECK_RC(fi_getinfo(api_version(), "localhost", "1", FI_NUMERICHOST, hints, &info), -FI_ENODATA);
    CHECK_RC(fi_getinfo(api_version(), "192.0.2.1", "1", FI_SOURCE, hints, &info), -FI_ENODATA);
    hints->src_addr = malloc(8);
    hints->src_addrlen = 8;
    memset(hints->src_addr, 1, 8);
    CHECK_RC(fi_getinfo(api_version(), NULL, NULL, 0, hints, &info), -FI_ENODATA);
    fi_freeinfo(hints);
}

CASE(addresses_as_hints, 1,
     "fi_getinfo: an address of an endpoint as FI_ADDR_STR node, or as dest_addr, is answered with it, or refused",
     .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    char text[256];
    size_t room = sizeof text;
    fi_av_straddr(side->av, side->address, text, &room);
    struct fi_info *hints = hints_for((struct wants){.caps = FI_MSG}), *info = NULL;
    int rc = fi_getinfo(api_version(), text, NULL, 0, hints, &info);
    if (rc == 0) {
        CHECK_OP(info->dest_addr, !=, NULL);
        CHECK_OP(info->dest_addrlen, ==, side->address_bytes);
        fi_freeinfo(info);
    } else {
        CHECK_OP(rc, <, 0);
    }
    hints->dest_addr = malloc(side->address_bytes);
    memcpy(hints->dest_addr, side->address, side->address_bytes);
    hints->dest_addrlen = side->address_bytes;
    info = info_for_hints(api_version(), hints);
    if (info != NULL) {
        CHECK_OP(info->dest_addr, !=, NULL);
        CHECK_OP(info->dest_addrlen, ==, side->address_bytes);
        CHECK_SAME(info->dest_addr, side->address, side->address_bytes);
    }
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

CASE(flags_not_known, 1, "fi_getinfo: unsupported flags are refused", .needs = OUR_PROVIDER)
{
    struct fi_info *hints = plain_hints(), *info = NULL;
    REFUSED(fi_getinfo(api_version(), NULL, NULL, 1ull << 40, hints, &info));
    fi_freeinfo(hints);
}

CASE(providers_only, 1, "FI_PROV_ATTR_ONLY: one info with the provider's name and version")
{
    struct fi_info *info = NULL;
    OK(fi_getinfo(api_version(), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info));
    int found = 0;
    for (struct fi_info *one = info; one != NULL; one = one->next) {
        CHECK_OP(one->fabric_attr->prov_name, !=, NULL);
        const char *name = one->fabric_attr->prov_name, *wanted = provider();
        if (strcmp(name, wanted) == 0 || (strchr(wanted, ';') && strncmp(name, wanted, strcspn(wanted, ";")) == 0)) {
            CHECK_OP(one->fabric_attr->prov_version, !=, 0);
            found++;
        }
    }
    CHECK_EQ(found, 1);
    fi_freeinfo(info);
}

CASE(errors_have_names, 1, "fi_strerror: every error has a text of its own")
{
    static const int ERRORS[] = {FI_EAGAIN, FI_EBUSY,     FI_EINVAL,     FI_ENOSYS, FI_ENODATA, FI_ENOKEY,
                                 FI_EACCES, FI_ETRUNC,    FI_ECANCELED,  FI_ENOMSG, FI_EAVAIL,  FI_EBADFLAGS,
                                 FI_ENOEQ,  FI_EDOMAIN,   FI_ENOCQ,      FI_ECRC,   FI_ENOAV,   FI_EOVERRUN,
                                 FI_ENORX,  FI_ETOOSMALL, FI_EOPBADSTATE};
    for (size_t i = 0; i < COUNT_OF(ERRORS); i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", fi_strerror(ERRORS[i]));
        CHECK(text[0] != '\0');
        for (size_t k = 0; k < i; k++) CHECK(strcmp(text, fi_strerror(ERRORS[k])) != 0 || ERRORS[i] == ERRORS[k]);
    }
}
