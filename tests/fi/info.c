/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the provider answers to hints, and which it refuses with -FI_ENODATA. The rule throughout: a hint that is not zero
 * must be met, or the answer is -FI_ENODATA; a zero is a wildcard, except for modes. fi_getinfo(3), fi_domain(3),
 * fi_endpoint(3).
 */
#include "harness.h"

#include <pthread.h>

#define CLAIMED_PRIMARY (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
#define CLAIMED_SECONDARY                                                                                        \
    (FI_DIRECTED_RECV | FI_MULTI_RECV | FI_RMA_EVENT | FI_SOURCE | FI_TRIGGER | FI_LOCAL_COMM | FI_REMOTE_COMM | \
     FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct fi_info *plain(void) { return info_for((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC}); }

static struct fi_info *plain_hints(void) { return hints_for((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC}); }

/* Asks with these hints, and frees them. */
static struct fi_info *asked(struct fi_info *hints)
{
    struct fi_info *info = info_for_hints(api_version(), hints);
    fi_freeinfo(hints);
    return info;
}

static void must_answer(const char *what, struct fi_info *info)
{
    if (info == NULL) FAIL("%s: -FI_ENODATA, wanted an answer", what);
}

/* ---- The answer ---------------------------------------------------------------------------------------------------------- */

static void check_complete(const struct fi_info *info, uint32_t version)
{
    CHECK(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
    CHECK(info->fabric_attr->prov_name && strcmp(info->fabric_attr->prov_name, provider()) == 0);
    CHECK(info->fabric_attr->name && info->fabric_attr->name[0]);
    CHECK(info->domain_attr->name && info->domain_attr->name[0]);
    CHECK(info->fabric_attr->prov_version != 0);
    CHECK_EQ(info->fabric_attr->api_version, version);
    CHECK_EQ(info->ep_attr->type, FI_EP_RDM);
    CHECK(info->ep_attr->max_msg_size > 0);
    CHECK(info->ep_attr->tx_ctx_cnt >= 1 && info->ep_attr->rx_ctx_cnt >= 1);
    CHECK(info->ep_attr->mem_tag_format != 0);
    CHECK(info->tx_attr->caps != 0 && info->rx_attr->caps != 0);
    CHECK_FLAGS(info->caps, info->tx_attr->caps & CLAIMED_PRIMARY, 0);
    CHECK_FLAGS(info->caps, info->rx_attr->caps & CLAIMED_PRIMARY, 0);
    CHECK(info->tx_attr->size > 0 && info->rx_attr->size > 0);
    CHECK(info->tx_attr->iov_limit > 0 && info->rx_attr->iov_limit > 0 && info->tx_attr->rma_iov_limit > 0);
    const struct fi_domain_attr *d = info->domain_attr;
    CHECK(d->threading != FI_THREAD_UNSPEC);
    CHECK(d->control_progress != FI_PROGRESS_UNSPEC && d->data_progress != FI_PROGRESS_UNSPEC);
    CHECK(d->resource_mgmt != FI_RM_UNSPEC);
    CHECK(d->mr_key_size > 0 && d->cq_data_size >= 4);
    CHECK(d->cq_cnt > 0 && d->ep_cnt > 0 && d->tx_ctx_cnt > 0 && d->rx_ctx_cnt > 0);
    CHECK(d->max_ep_tx_ctx >= 1 && d->max_ep_rx_ctx >= 1);
    if (info->src_addr != NULL) CHECK(info->src_addrlen > 0);
    if (info->src_addrlen > 0) CHECK(info->src_addr != NULL);
    CHECK_EQ(info->mode, 0); /* none was offered */
}

CASE(the_answer_is_complete, 1, "fi_getinfo: all attributes of the answer are there", .stock = "sockets: no type of progress with these hints")
{
    struct fi_info *info = plain();
    must_answer("all of MSG, TAGGED, RMA, ATOMIC", info);
    for (struct fi_info *one = info; one != NULL; one = one->next) check_complete(one, api_version());
    fi_freeinfo(info);
}

CASE(the_answer_is_ours, 1, "contract: names, sizes and limits of the provider", .ours = true)
{
    struct fi_info *info = plain();
    must_answer("all of MSG, TAGGED, RMA, ATOMIC", info);
    CHECK_EQ(strcmp(info->fabric_attr->name, "selvedge"), 0);
    CHECK_EQ(strcmp(info->domain_attr->name, "selvedge"), 0);
    CHECK(info->tx_attr->inject_size >= 256);
    CHECK_EQ(info->tx_attr->iov_limit, 8);
    CHECK_EQ(info->rx_attr->iov_limit, 8);
    CHECK_EQ(info->tx_attr->rma_iov_limit, 8);
    CHECK_EQ(info->domain_attr->mr_key_size, 8);
    CHECK_EQ(info->domain_attr->cq_data_size, 8);
    CHECK_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
    CHECK_FLAGS(info->caps, CLAIMED_PRIMARY, 0);
    CHECK(info->ep_attr->max_msg_size >= 1ull << 31);
    CHECK(info->domain_attr->cntr_cnt > 0 && info->domain_attr->mr_cnt > 0 && info->domain_attr->mr_iov_limit > 0);
    CHECK_EQ(info->ep_attr->msg_prefix_size, 0);
    fi_freeinfo(info);
}

CASE(no_hints, 1, "fi_getinfo: without hints, node and service the provider is among what is available, with all that it can")
{
    struct fi_info *info = NULL;
    OK(fi_getinfo(api_version(), NULL, NULL, 0, NULL, &info));
    bool found = false;
    for (struct fi_info *one = info; one != NULL; one = one->next)
        if (strcmp(one->fabric_attr->prov_name, provider()) == 0 && one->ep_attr->type == FI_EP_RDM) {
            found = true;
            if (is_ours()) CHECK_FLAGS(one->caps, CLAIMED_PRIMARY | FI_SOURCE | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_RMA_EVENT | FI_TRIGGER, 0);
        }
    CHECK(found);
    fi_freeinfo(info);
}

CASE(versions, 1, "fi_getinfo: every version from 1.5 to that of the library is answered with itself; the domain opens with it")
{
    uint32_t loaded = fi_version();
    for (uint32_t major = 1; major <= FI_MAJOR(loaded); major++)
        for (uint32_t minor = major == 1 ? 5 : 0; minor <= (major == FI_MAJOR(loaded) ? FI_MINOR(loaded) : 21); minor++) {
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

CASE(versions_not_had, 1, "fi_getinfo: a version that is newer than the library is refused")
{
    struct fi_info *info = NULL;
    REFUSED(fi_getinfo(FI_VERSION(9, 0), NULL, NULL, 0, NULL, &info));
}

CASE(copies, 1, "fi_dupinfo: a copy of all levels, which outlives its original; fi_allocinfo: all zero")
{
    struct fi_info *empty = fi_allocinfo();
    CHECK(empty && empty->tx_attr && empty->rx_attr && empty->ep_attr && empty->domain_attr && empty->fabric_attr);
    CHECK(empty->caps == 0 && empty->mode == 0 && empty->src_addr == NULL && empty->domain_attr->mr_mode == 0);
    fi_freeinfo(empty);
    struct fi_info *info = plain();
    must_answer("plain hints", info);
    struct fi_info *copy = fi_dupinfo(info);
    CHECK(copy && copy->next == NULL && copy->tx_attr != info->tx_attr && copy->domain_attr->name != info->domain_attr->name);
    CHECK_EQ(copy->caps, info->caps);
    CHECK_EQ(memcmp(copy->tx_attr, info->tx_attr, sizeof *copy->tx_attr), 0);
    CHECK_EQ(memcmp(copy->rx_attr, info->rx_attr, sizeof *copy->rx_attr), 0);
    char name[128];
    snprintf(name, sizeof name, "%s", info->domain_attr->name);
    fi_freeinfo(info);
    CHECK_EQ(strcmp(copy->domain_attr->name, name), 0);
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
    CHECK(strstr(text, info->fabric_attr->prov_name) && strstr(text, info->domain_attr->name) && strstr(text, "FI_EP_RDM"));
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

CASE(opened_ones_are_told, 1, "fi_getinfo: domain_attr.domain and fabric_attr.fabric are NULL before one is open, and refer to it then")
{
    struct fi_info *info = plain();
    must_answer("plain hints", info);
    CHECK_PTR(info->domain_attr->domain, NULL);
    CHECK_PTR(info->fabric_attr->fabric, NULL);
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    struct fi_info *again = plain();
    must_answer("plain hints", again);
    CHECK_PTR(again->fabric_attr->fabric, fabric);
    CHECK_PTR(again->domain_attr->domain, domain);
    fi_freeinfo(again);
    struct fi_info *hints = plain_hints();
    hints->domain_attr->domain = domain;
    again = info_for_hints(api_version(), hints);
    must_answer("hints with the open domain", again);
    hints->domain_attr->domain = NULL;
    fi_freeinfo(hints);
    fi_freeinfo(again);
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

/* ---- Capabilities and modes -------------------------------------------------------------------------------------------------- */

CASE(each_capability, 1, "fi_getinfo: each bit of caps is granted in the answer, or the question is -FI_ENODATA", .stock = "shm: grants bits that it does not tell")
{
    for (int bit = 0; bit < 64; bit++) {
        uint64_t caps = 1ull << bit | FI_MSG;
        about("bit %d with FI_MSG", bit);
        struct fi_info *info = info_for((struct wants){.caps = caps});
        if (info != NULL) CHECK_FLAGS(info->caps, caps, 0);
        if (is_ours() && caps & (CLAIMED_PRIMARY | CLAIMED_SECONDARY) & ~FI_MSG) must_answer("a claimed capability", info);
        if (is_ours() && 1ull << bit & (FI_MULTICAST | FI_NAMED_RX_CTX | FI_HMEM | FI_RMA_PMEM | FI_VARIABLE_MSG | FI_SHARED_AV) && info != NULL)
            FAIL("answered, though it is not claimed");
        fi_freeinfo(info);
    }
}

CASE(sets_of_capabilities, 1, "fi_getinfo: any set of what is claimed is answered, and granted", .ours = true)
{
    uint64_t state = 99, all = CLAIMED_PRIMARY | CLAIMED_SECONDARY;
    for (int i = 0; i < 300; i++) {
        uint64_t caps = random_next(&state) & all;
        if (!(caps & CLAIMED_PRIMARY)) caps |= FI_MSG;
        about("caps 0x%llx", (unsigned long long)caps);
        struct fi_info *info = info_for((struct wants){.caps = caps});
        must_answer("a set of claimed capabilities", info);
        CHECK_FLAGS(info->caps, caps, 0);
        fi_freeinfo(info);
    }
    struct fi_info *info = info_for((struct wants){.caps = all});
    must_answer("all that is claimed", info);
    fi_freeinfo(info);
}

CASE(caps_of_the_sides, 1, "fi_tx_attr, fi_rx_attr: caps of one side are granted there", .stock = "shm: tells others")
{
    struct fi_info *hints = plain_hints();
    hints->tx_attr->caps = FI_MSG | FI_SEND;
    hints->rx_attr->caps = FI_MSG | FI_RECV;
    struct fi_info *info = asked(hints);
    must_answer("these hints", info);
    CHECK_FLAGS(info->tx_attr->caps, FI_MSG | FI_SEND, FI_RECV);
    CHECK_FLAGS(info->rx_attr->caps, FI_MSG | FI_RECV, FI_SEND);
    fi_freeinfo(info);
}

CASE(modes, 1, "fi_getinfo: only modes that were offered come back; with none offered there is an answer that needs none")
{
    static const uint64_t MODES[] = {0, FI_CONTEXT, FI_CONTEXT2, FI_LOCAL_MR, FI_MSG_PREFIX, FI_RX_CQ_DATA, FI_ASYNC_IOV, FI_NOTIFY_FLAGS_ONLY, FI_RESTRICTED_COMP, ~0ull};
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        about("mode 0x%llx", (unsigned long long)MODES[i]);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG | FI_TAGGED | FI_RMA, .mode = MODES[i]});
        must_answer("these modes", info);
        CHECK_FLAGS(info->mode, 0, ~MODES[i]);
        CHECK_FLAGS(info->tx_attr->mode | info->rx_attr->mode | info->domain_attr->mode, 0, ~MODES[i]);
        if (is_ours()) CHECK_EQ(info->mode, 0);
        fi_freeinfo(info);
    }
}

CASE(region_modes, 1, "fi_mr: each set of mr_mode bits is answered by a subset of it, or refused because more are needed")
{
    static const int BITS[] = {FI_MR_LOCAL, FI_MR_RAW, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT, FI_MR_HMEM};
    for (int set = 0; set < 1 << COUNT_OF(BITS); set++) {
        int mode = 0;
        for (size_t i = 0; i < COUNT_OF(BITS); i++)
            if (set >> i & 1) mode |= BITS[i];
        about("mr_mode 0x%x", mode);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = mode});
        if (is_ours()) must_answer("any set of bits", info);
        if (info == NULL) continue;
        CHECK_FLAGS((uint64_t)info->domain_attr->mr_mode, 0, ~(uint64_t)mode);
        if (is_ours()) CHECK_FLAGS((uint64_t)info->domain_attr->mr_mode, 0, ~(uint64_t)(FI_MR_PROV_KEY | FI_MR_RMA_EVENT));
        fi_freeinfo(info);
    }
}

CASE(old_region_modes, 1, "fi_mr: FI_MR_BASIC is kept in the answer or refused, FI_MR_SCALABLE gives offsets and own keys; neither goes with other bits", .stock = "sockets: takes other bits with them")
{
    struct wants wants = {.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = FI_MR_BASIC};
    struct fi_info *info = info_for(wants);
    if (info != NULL) CHECK_EQ(info->domain_attr->mr_mode, FI_MR_BASIC);
    fi_freeinfo(info);
    wants.mr_mode = FI_MR_SCALABLE;
    info = info_for(wants);
    if (is_ours()) must_answer("FI_MR_SCALABLE", info);
    if (info != NULL) CHECK(info->domain_attr->mr_mode == FI_MR_SCALABLE || info->domain_attr->mr_mode == 0);
    fi_freeinfo(info);
    wants.mr_mode = FI_MR_BASIC | FI_MR_PROV_KEY;
    info = info_for(wants);
    if (info != NULL) FAIL("FI_MR_BASIC with FI_MR_PROV_KEY is answered with mr_mode 0x%x", info->domain_attr->mr_mode);
    wants.mr_mode = FI_MR_BASIC | FI_MR_SCALABLE;
    info = info_for(wants);
    if (info != NULL) FAIL("FI_MR_BASIC with FI_MR_SCALABLE is answered with mr_mode 0x%x", info->domain_attr->mr_mode);
}

/* ---- Types, threads, progress, order --------------------------------------------------------------------------------------------- */

CASE(endpoint_types, 1, "fi_endpoint: FI_EP_RDM, and what is not specified, are answered; an answer has the type that was asked for", .stock = "tcp;ofi_rxm: takes stream sockets for the type of no provider")
{
    for (int type = 0; type <= FI_EP_SOCK_DGRAM; type++) {
        about("type %d", type);
        struct fi_info *hints = hints_for((struct wants){.caps = FI_MSG});
        hints->ep_attr->type = (enum fi_ep_type)type;
        struct fi_info *info = asked(hints);
        if (type == FI_EP_RDM || type == FI_EP_UNSPEC) must_answer("this type", info);
        if (is_ours() && type != FI_EP_RDM && type != FI_EP_UNSPEC && info != NULL) FAIL("answered, though there are only RDM endpoints");
        if (info != NULL && type != FI_EP_UNSPEC) CHECK_EQ(info->ep_attr->type, type);
        if (is_ours() && info != NULL) CHECK_EQ(info->ep_attr->type, FI_EP_RDM);
        fi_freeinfo(info);
    }
}

CASE(threading, 1, "fi_domain: every model of threads is answered, with a model that allows at least as much")
{
    static const enum fi_threading MODELS[] = {FI_THREAD_UNSPEC, FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT};
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        about("model %d", MODELS[i]);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .threading = MODELS[i]});
        must_answer("this model", info);
        CHECK(info->domain_attr->threading != FI_THREAD_UNSPEC);
        if (MODELS[i] == FI_THREAD_SAFE) CHECK_EQ(info->domain_attr->threading, FI_THREAD_SAFE);
        fi_freeinfo(info);
    }
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .threading = (enum fi_threading)77});
    if (info != NULL) FAIL("a model of threads that does not exist is answered");
}

CASE(progress_models, 1, "fi_domain: FI_PROGRESS_AUTO is answered with itself, FI_PROGRESS_MANUAL with itself or AUTO; one that does not exist is refused", .stock = "sockets: takes any")
{
    for (int control = 0; control <= FI_PROGRESS_MANUAL; control++)
        for (int data = 0; data <= FI_PROGRESS_MANUAL; data++) {
            about("control %d, data %d", control, data);
            struct fi_info *hints = plain_hints();
            hints->domain_attr->control_progress = (enum fi_progress)control;
            hints->domain_attr->data_progress = (enum fi_progress)data;
            struct fi_info *info = asked(hints);
            if (is_ours()) must_answer("this progress", info);
            if (info == NULL) continue;
            if (control == FI_PROGRESS_AUTO) CHECK_EQ(info->domain_attr->control_progress, FI_PROGRESS_AUTO);
            if (data == FI_PROGRESS_AUTO) CHECK_EQ(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
            fi_freeinfo(info);
        }
    struct fi_info *hints = plain_hints();
    hints->domain_attr->data_progress = (enum fi_progress)77;
    struct fi_info *info = asked(hints);
    if (info != NULL) FAIL("a kind of progress that does not exist is answered");
}

CASE(resource_management, 1, "fi_domain: FI_RM_ENABLED is answered with itself; FI_RM_DISABLED is answered; others are refused")
{
    for (int rm = 0; rm <= 3; rm++) {
        about("resource management %d", rm);
        struct fi_info *hints = plain_hints();
        hints->domain_attr->resource_mgmt = (enum fi_resource_mgmt)rm;
        struct fi_info *info = asked(hints);
        if (is_ours() && rm <= FI_RM_ENABLED) must_answer("this", info);
        if (is_ours() && rm > FI_RM_ENABLED && info != NULL) FAIL("one that does not exist is answered");
        if (info != NULL && rm == FI_RM_ENABLED) CHECK_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
        fi_freeinfo(info);
    }
}

CASE(vector_types, 1, "fi_domain: av_type that was asked for is the one that is answered", .stock = "shm: answers others")
{
    static const enum fi_av_type TYPES[] = {FI_AV_MAP, FI_AV_TABLE, FI_AV_UNSPEC};
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        about("type %d", TYPES[i]);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .av_type = TYPES[i]});
        must_answer("this type of vector", info);
        if (TYPES[i] != FI_AV_UNSPEC) CHECK_EQ(info->domain_attr->av_type, TYPES[i]);
        fi_freeinfo(info);
    }
}

CASE(orders, 1, "fi_endpoint: each order of messages that is asked for is in the answer, or the question is -FI_ENODATA; what exists is all answered by ours", .stock = "shm: leaves orders out")
{
    static const uint64_t ORDERS[] = {FI_ORDER_RAR, FI_ORDER_RAW, FI_ORDER_RAS, FI_ORDER_WAR, FI_ORDER_WAW, FI_ORDER_WAS,
                                      FI_ORDER_SAR, FI_ORDER_SAW, FI_ORDER_SAS, FI_ORDER_RMA_RAR, FI_ORDER_RMA_RAW,
                                      FI_ORDER_RMA_WAR, FI_ORDER_RMA_WAW, FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW,
                                      FI_ORDER_ATOMIC_WAR, FI_ORDER_ATOMIC_WAW};
    uint64_t all = 0;
    for (size_t i = 0; i <= COUNT_OF(ORDERS); i++) {
        uint64_t order = i < COUNT_OF(ORDERS) ? ORDERS[i] : all;
        all |= order;
        for (int side = 1; side <= 3; side++) {
            about("order 0x%llx, sides %d", (unsigned long long)order, side);
            struct fi_info *hints = plain_hints();
            if (side & 1) hints->tx_attr->msg_order = order;
            if (side & 2) hints->rx_attr->msg_order = order;
            struct fi_info *info = asked(hints);
            if (is_ours()) must_answer("this order", info);
            if (info == NULL) continue;
            if (side & 1) CHECK_FLAGS(info->tx_attr->msg_order, order, 0);
            if (side & 2) CHECK_FLAGS(info->rx_attr->msg_order, order, 0);
            fi_freeinfo(info);
        }
    }
    struct fi_info *hints = plain_hints();
    hints->tx_attr->msg_order = 1ull << 62;
    struct fi_info *info = asked(hints);
    if (info != NULL) FAIL("an order that does not exist is answered");
    hints = plain_hints();
    hints->tx_attr->comp_order = FI_ORDER_STRICT;
    info = asked(hints);
    if (info != NULL) CHECK_FLAGS(info->tx_attr->comp_order, FI_ORDER_STRICT, 0);
    fi_freeinfo(info);
}

CASE(default_flags, 1, "fi_tx_attr: op_flags that are asked for are in the answer, or the question is -FI_ENODATA", .stock = "shm: leaves flags out | tcp;ofi_rxm: leaves flags out | sockets: leaves flags out")
{
    static const uint64_t FLAGS[] = {FI_COMPLETION, FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_COMMIT_COMPLETE, FI_MULTICAST, 1ull << 40};
    for (size_t i = 0; i < COUNT_OF(FLAGS); i++) {
        about("flags 0x%llx", (unsigned long long)FLAGS[i]);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .tx_op_flags = FLAGS[i]});
        if (is_ours() && (i == 0 || (i >= 2 && i <= 4))) must_answer("these flags", info);
        if (is_ours() && i >= 5 && info != NULL) FAIL("flags that are not claimed are answered");
        if (info != NULL) CHECK_FLAGS(info->tx_attr->op_flags, FLAGS[i], 0);
        fi_freeinfo(info);
    }
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG | FI_MULTI_RECV, .rx_op_flags = FI_MULTI_RECV});
    if (is_ours()) must_answer("FI_MULTI_RECV as default of receives", info);
    if (info != NULL) CHECK_FLAGS(info->rx_attr->op_flags, FI_MULTI_RECV, 0);
    fi_freeinfo(info);
}

/* ---- Sizes ---------------------------------------------------------------------------------------------------------------------------- */

struct size_field {
    const char *name;
    size_t offset;
    int of; /* tx, rx, ep, domain */
};

#define FIELD(kind, type, field) {#type "." #field, offsetof(struct type, field), kind}

static const struct size_field SIZE_FIELDS[] = {
    FIELD(0, fi_tx_attr, inject_size),   FIELD(0, fi_tx_attr, size),           FIELD(0, fi_tx_attr, iov_limit),
    FIELD(0, fi_tx_attr, rma_iov_limit), FIELD(1, fi_rx_attr, size),           FIELD(1, fi_rx_attr, iov_limit),
    FIELD(1, fi_rx_attr, total_buffered_recv), FIELD(2, fi_ep_attr, max_msg_size), FIELD(2, fi_ep_attr, tx_ctx_cnt),
    FIELD(2, fi_ep_attr, rx_ctx_cnt),    FIELD(2, fi_ep_attr, max_order_raw_size), FIELD(2, fi_ep_attr, max_order_war_size),
    FIELD(2, fi_ep_attr, max_order_waw_size), FIELD(3, fi_domain_attr, mr_key_size), FIELD(3, fi_domain_attr, cq_data_size),
    FIELD(3, fi_domain_attr, cq_cnt),    FIELD(3, fi_domain_attr, ep_cnt),     FIELD(3, fi_domain_attr, tx_ctx_cnt),
    FIELD(3, fi_domain_attr, rx_ctx_cnt), FIELD(3, fi_domain_attr, max_ep_tx_ctx), FIELD(3, fi_domain_attr, max_ep_rx_ctx),
    FIELD(3, fi_domain_attr, cntr_cnt),  FIELD(3, fi_domain_attr, mr_iov_limit), FIELD(3, fi_domain_attr, mr_cnt),
    FIELD(3, fi_domain_attr, max_ep_stx_ctx), FIELD(3, fi_domain_attr, max_ep_srx_ctx), FIELD(3, fi_domain_attr, max_err_data),
};

static size_t *size_in(struct fi_info *info, const struct size_field *f)
{
    void *const structs[] = {info->tx_attr, info->rx_attr, info->ep_attr, info->domain_attr};
    return (size_t *)((char *)structs[f->of] + f->offset);
}

CASE(sizes, 1, "fi_getinfo: sizes up to those that are told are answered with at least as much; larger ones too, or refused",
     .stock = "sockets: answers less than was asked for | tcp;ofi_rxm: answers less than was asked for | shm: answers less than was asked for")
{
    struct fi_info *told = plain();
    must_answer("plain hints", told);
    for (size_t i = 0; i < COUNT_OF(SIZE_FIELDS); i++) {
        const struct size_field *f = &SIZE_FIELDS[i];
        size_t value = *size_in(told, f);
        const size_t asking[] = {1, value / 2, value, value + 1, value * 2, value + (1ull << 40), SIZE_MAX - 1};
        for (size_t k = 0; k < COUNT_OF(asking); k++) {
            if (asking[k] == 0) continue;
            about("%s told %zu, asked for %zu", f->name, value, asking[k]);
            struct fi_info *hints = plain_hints();
            *size_in(hints, f) = asking[k];
            struct fi_info *info = asked(hints);
            if (asking[k] <= value) must_answer("a size that was told", info);
            if (info == NULL) continue;
            if (*size_in(info, f) < asking[k]) FAIL("answered with %zu", *size_in(info, f));
            fi_freeinfo(info);
        }
    }
    fi_freeinfo(told);
}

CASE(sizes_that_cannot_be, 1, "contract: more than can be is refused: inject, pieces, message, key, remote data, contexts", .ours = true)
{
    struct fi_info *told = plain();
    static const char *const NAMES[] = {"fi_tx_attr.inject_size", "fi_tx_attr.iov_limit", "fi_tx_attr.rma_iov_limit", "fi_rx_attr.iov_limit", "fi_domain_attr.mr_key_size",
                                        "fi_domain_attr.cq_data_size", "fi_ep_attr.tx_ctx_cnt", "fi_ep_attr.rx_ctx_cnt"};
    for (size_t n = 0; n < COUNT_OF(NAMES); n++)
        for (size_t i = 0; i < COUNT_OF(SIZE_FIELDS); i++) {
            if (strcmp(SIZE_FIELDS[i].name, NAMES[n]) != 0) continue;
            struct fi_info *hints = plain_hints();
            *size_in(hints, &SIZE_FIELDS[i]) = *size_in(told, &SIZE_FIELDS[i]) + 1;
            about("%s, one more than %zu", NAMES[n], *size_in(told, &SIZE_FIELDS[i]));
            struct fi_info *info = asked(hints);
            if (info != NULL) FAIL("answered with %zu", *size_in(info, &SIZE_FIELDS[i]));
        }
    fi_freeinfo(told);
}

CASE(contexts_and_authorization, 1, "fi_endpoint: shared contexts and authorization keys, which are not had, are refused", .ours = true)
{
    struct fi_info *hints = plain_hints();
    hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    CHECK_PTR(asked(hints), NULL);
    hints = plain_hints();
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    CHECK_PTR(asked(hints), NULL);
    uint8_t key[8] = {1};
    hints = plain_hints();
    hints->ep_attr->auth_key = key;
    hints->ep_attr->auth_key_size = sizeof key;
    struct fi_info *info = info_for_hints(api_version(), hints);
    hints->ep_attr->auth_key = NULL;
    hints->ep_attr->auth_key_size = 0;
    fi_freeinfo(hints);
    CHECK_PTR(info, NULL);
}

/* ---- Names and addresses --------------------------------------------------------------------------------------------------------------- */

CASE(names, 1, "fi_getinfo: the names of provider, fabric and domain that were told are answered, others are -FI_ENODATA", .stock = "tcp;ofi_rxm: takes the front of a name")
{
    struct fi_info *told = plain();
    must_answer("plain hints", told);
    for (int which = 0; which < 3; which++)
        for (int how = 0; how < 4; how++) {
            const char *right = which == 0 ? told->fabric_attr->prov_name : which == 1 ? told->fabric_attr->name : told->domain_attr->name;
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
            struct fi_info *info = asked(hints);
            if (how == 0) must_answer("the right name", info);
            if (how != 0 && info != NULL) FAIL("answered");
            fi_freeinfo(info);
        }
    fi_freeinfo(told);
}

CASE(formats_and_protocols, 1, "fi_getinfo: the format of addresses and the protocol that were told are answered, others not", .stock = "shm: answers any protocol | sockets: answers FI_SOCKADDR_IN6 with another")
{
    struct fi_info *told = plain();
    must_answer("plain hints", told);
    struct fi_info *hints = plain_hints();
    hints->addr_format = told->addr_format;
    hints->ep_attr->protocol = told->ep_attr->protocol;
    struct fi_info *info = asked(hints);
    must_answer("what was told", info);
    fi_freeinfo(info);
    static const uint32_t FORMATS[] = {FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_ADDR_PSMX, FI_ADDR_GNI, FI_ADDR_STR, FI_ADDR_EFA};
    for (size_t i = 0; i < COUNT_OF(FORMATS); i++) {
        about("format %u", FORMATS[i]);
        hints = plain_hints();
        hints->addr_format = FORMATS[i];
        info = asked(hints);
        if (info != NULL) CHECK_EQ(info->addr_format, FORMATS[i]);
        fi_freeinfo(info);
    }
    hints = plain_hints();
    hints->ep_attr->protocol = FI_PROTO_IWARP;
    info = asked(hints);
    if (info != NULL) FAIL("FI_PROTO_IWARP is answered with protocol %u", info->ep_attr->protocol);
    hints = plain_hints();
    hints->ep_attr->protocol = told->ep_attr->protocol;
    hints->ep_attr->protocol_version = told->ep_attr->protocol_version + 1000;
    info = asked(hints);
    if (is_ours() && info != NULL) FAIL("a later version of the protocol is answered");
    fi_freeinfo(info);
    fi_freeinfo(told);
}

CASE(nodes_and_services, 1, "fi_getinfo: FI_SOURCE needs a node or a service; a node that cannot be resolved is an error", .stock = "shm: takes any name | tcp;ofi_rxm: FI_SOURCE alone is taken | sockets: FI_SOURCE alone is taken")
{
    struct fi_info *hints = plain_hints(), *info = NULL;
    REFUSED(fi_getinfo(api_version(), "no.such.host.invalid", "4711", FI_NUMERICHOST, hints, &info));
    REFUSED(fi_getinfo(api_version(), NULL, NULL, FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
}

CASE(addresses_as_hints, 1, "fi_getinfo: an address of an endpoint as FI_ADDR_STR node, or as dest_addr, is answered with it, or refused", .ours = true)
{
    struct side *side = side_open((struct wants){.caps = FI_MSG});
    char text[256];
    size_t room = sizeof text;
    fi_av_straddr(side->av, side->address, text, &room);
    struct fi_info *hints = hints_for((struct wants){.caps = FI_MSG}), *info = NULL;
    int rc = fi_getinfo(api_version(), text, NULL, 0, hints, &info);
    if (rc == 0) {
        CHECK(info->dest_addr != NULL && info->dest_addrlen == side->address_bytes);
        fi_freeinfo(info);
    } else {
        CHECK(rc < 0);
    }
    hints->dest_addr = malloc(side->address_bytes);
    memcpy(hints->dest_addr, side->address, side->address_bytes);
    hints->dest_addrlen = side->address_bytes;
    info = info_for_hints(api_version(), hints);
    if (info != NULL) {
        CHECK(info->dest_addr != NULL && info->dest_addrlen == side->address_bytes);
        CHECK_EQ(memcmp(info->dest_addr, side->address, side->address_bytes), 0);
    }
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

CASE(flags_not_known, 1, "fi_getinfo: flags that it does not have are refused", .ours = true)
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
        CHECK(one->fabric_attr->prov_name != NULL);
        const char *name = one->fabric_attr->prov_name, *wanted = provider();
        if (strcmp(name, wanted) == 0 || (strchr(wanted, ';') && strncmp(name, wanted, strcspn(wanted, ";")) == 0)) {
            CHECK(one->fabric_attr->prov_version != 0);
            found++;
        }
    }
    CHECK_EQ(found, 1);
    fi_freeinfo(info);
}

CASE(errors_have_names, 1, "fi_strerror: every error has a text of its own")
{
    static const int ERRORS[] = {FI_EAGAIN, FI_EBUSY, FI_EINVAL, FI_ENOSYS, FI_ENODATA, FI_ENOKEY, FI_EACCES, FI_ETRUNC, FI_ECANCELED, FI_ENOMSG,
                                 FI_EAVAIL, FI_EBADFLAGS, FI_ENOEQ, FI_EDOMAIN, FI_ENOCQ, FI_ECRC, FI_ENOAV, FI_EOVERRUN, FI_ENORX, FI_ETOOSMALL, FI_EOPBADSTATE};
    for (size_t i = 0; i < COUNT_OF(ERRORS); i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", fi_strerror(ERRORS[i]));
        CHECK(text[0] != '\0');
        for (size_t k = 0; k < i; k++) CHECK(strcmp(text, fi_strerror(ERRORS[k])) != 0 || ERRORS[i] == ERRORS[k]);
    }
}
