/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hints that the provider meets or refuses: capabilities, modes, types, threads, progress, orders, sizes. fi_getinfo(3),
 * fi_domain(3), fi_endpoint(3).
 */
#include "queries.h"

/* ---- Capabilities and modes -------------------------------------------------------------------------------------- */

CASE(each_capability, 1, "fi_getinfo: each bit of caps is granted in the answer, or the query is -FI_ENODATA")
{
    for (int bit = 0; bit < 64; bit++) {
        uint64_t caps = 1ull << bit | FI_MSG;
        about("bit %d with FI_MSG", bit);
        struct fi_info *info = info_for((struct wants){.caps = caps});
        if (info != NULL) CHECK_FLAGS(info->caps, caps, 0);
        if (is_ours() && caps & (CLAIMED_PRIMARY | CLAIMED_SECONDARY) & ~FI_MSG)
            must_answer("a claimed capability", info);
        if (is_ours() &&
            1ull << bit & (FI_MULTICAST | FI_NAMED_RX_CTX | FI_HMEM | FI_RMA_PMEM | FI_VARIABLE_MSG | FI_SHARED_AV) &&
            info != NULL)
            FAIL("answered, though not claimed");
        fi_freeinfo(info);
    }
}

CASE(sets_of_capabilities, 1,
     "fi_getinfo: any set of claimed capabilities is answered, and granted", .needs = OUR_PROVIDER)
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

CASE(caps_of_the_sides, 1, "fi_tx_attr, fi_rx_attr: caps of one side are granted there")
{
    struct fi_info *hints = plain_hints();
    hints->tx_attr->caps = FI_MSG | FI_SEND;
    hints->rx_attr->caps = FI_MSG | FI_RECV;
    struct fi_info *info = answer_to(hints);
    must_answer("these hints", info);
    CHECK_FLAGS(info->tx_attr->caps, FI_MSG | FI_SEND, FI_RECV);
    CHECK_FLAGS(info->rx_attr->caps, FI_MSG | FI_RECV, FI_SEND);
    fi_freeinfo(info);
}

CASE(modes, 1, "fi_getinfo: only offered modes come back; without any an answer needs none")
{
    static const uint64_t MODES[] = {0,
                                     FI_CONTEXT,
                                     FI_CONTEXT2,
                                     FI_LOCAL_MR,
                                     FI_MSG_PREFIX,
                                     FI_RX_CQ_DATA,
                                     FI_ASYNC_IOV,
                                     FI_NOTIFY_FLAGS_ONLY,
                                     FI_RESTRICTED_COMP,
                                     ~0ull};
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

CASE(region_modes, 1,
     "fi_mr: each set of mr_mode bits is answered by a subset of it, or refused because more are needed")
{
    static const int BITS[] = {FI_MR_LOCAL,      FI_MR_RAW,       FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY,
                               FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT,  FI_MR_HMEM};
    for (int set = 0; set < 1 << COUNT_OF(BITS); set++) {
        int mode = 0;
        for (size_t i = 0; i < COUNT_OF(BITS); i++)
            if (set >> i & 1) mode |= BITS[i];
        about("mr_mode 0x%x", mode);
        struct fi_info *info = info_for(
            (struct wants){.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = mode});
        if (is_ours()) must_answer("any set of bits", info);
        if (info == NULL) continue;
        CHECK_FLAGS((uint64_t)info->domain_attr->mr_mode, 0, ~(uint64_t)mode);
        if (is_ours())
            CHECK_FLAGS((uint64_t)info->domain_attr->mr_mode, 0, ~(uint64_t)(FI_MR_PROV_KEY | FI_MR_RMA_EVENT));
        fi_freeinfo(info);
    }
}

CASE(old_region_modes, 1,
     "fi_mr: FI_MR_BASIC is kept in the answer or refused, FI_MR_SCALABLE gives offsets and own keys; neither "
     "combines with other bits")
{
    struct wants wants = {.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = FI_MR_BASIC};
    struct fi_info *info = info_for(wants);
    if (info != NULL) CHECK_EQ(info->domain_attr->mr_mode, FI_MR_BASIC);
    fi_freeinfo(info);
    wants.mr_mode = FI_MR_SCALABLE;
    info = info_for(wants);
    if (is_ours()) must_answer("FI_MR_SCALABLE", info);
    if (info != NULL) CHECK_EITHER(info->domain_attr->mr_mode, FI_MR_SCALABLE, 0);
    fi_freeinfo(info);
    wants.mr_mode = FI_MR_BASIC | FI_MR_PROV_KEY;
    info = info_for(wants);
    if (info != NULL) FAIL("FI_MR_BASIC with FI_MR_PROV_KEY is answered with mr_mode 0x%x", info->domain_attr->mr_mode);
    wants.mr_mode = FI_MR_BASIC | FI_MR_SCALABLE;
    info = info_for(wants);
    if (info != NULL) FAIL("FI_MR_BASIC with FI_MR_SCALABLE is answered with mr_mode 0x%x", info->domain_attr->mr_mode);
}

/* ---- Types, threads, progress, order ----------------------------------------------------------------------------- */

CASE(endpoint_types, 1,
     "fi_endpoint: FI_EP_RDM, and an unspecified type, are answered; an answer has the requested type")
{
    for (int type = 0; type <= FI_EP_SOCK_DGRAM; type++) {
        about("type %d", type);
        struct fi_info *hints = hints_for((struct wants){.caps = FI_MSG});
        hints->ep_attr->type = (enum fi_ep_type)type;
        struct fi_info *info = answer_to(hints);
        if (type == FI_EP_RDM || type == FI_EP_UNSPEC) must_answer("this type", info);
        if (is_ours() && type != FI_EP_RDM && type != FI_EP_UNSPEC && info != NULL)
            FAIL("answered, though there are only RDM endpoints");
        if (info != NULL && type != FI_EP_UNSPEC) CHECK_EQ(info->ep_attr->type, type);
        if (is_ours() && info != NULL) CHECK_EQ(info->ep_attr->type, FI_EP_RDM);
        fi_freeinfo(info);
    }
}

CASE(threading, 1, "fi_domain: every threading model is answered, with a model that allows at least as much")
{
    static const enum fi_threading MODELS[] = {FI_THREAD_UNSPEC, FI_THREAD_SAFE,       FI_THREAD_FID,
                                               FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT};
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        about("model %d", MODELS[i]);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .threading = MODELS[i]});
        must_answer("this model", info);
        CHECK_OP(info->domain_attr->threading, !=, FI_THREAD_UNSPEC);
        if (MODELS[i] == FI_THREAD_SAFE) CHECK_EQ(info->domain_attr->threading, FI_THREAD_SAFE);
        fi_freeinfo(info);
    }
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .threading = (enum fi_threading)77});
    if (info != NULL) FAIL("an unknown threading model is answered");
}

CASE(progress_models, 1,
     "fi_domain: FI_PROGRESS_AUTO is answered with itself, FI_PROGRESS_MANUAL with itself or AUTO; an unknown one is "
     "refused")
{
    for (int control = 0; control <= FI_PROGRESS_MANUAL; control++)
        for (int data = 0; data <= FI_PROGRESS_MANUAL; data++) {
            about("control %d, data %d", control, data);
            struct fi_info *hints = plain_hints();
            hints->domain_attr->control_progress = (enum fi_progress)control;
            hints->domain_attr->data_progress = (enum fi_progress)data;
            struct fi_info *info = answer_to(hints);
            if (is_ours()) must_answer("this progress", info);
            if (info == NULL) continue;
            if (control == FI_PROGRESS_AUTO) CHECK_EQ(info->domain_attr->control_progress, FI_PROGRESS_AUTO);
            if (data == FI_PROGRESS_AUTO) CHECK_EQ(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
            fi_freeinfo(info);
        }
    struct fi_info *hints = plain_hints();
    hints->domain_attr->data_progress = (enum fi_progress)77;
    struct fi_info *info = answer_to(hints);
    if (info != NULL) FAIL("an unknown progress model is answered");
}

CASE(resource_management, 1,
     "fi_domain: FI_RM_ENABLED is answered with itself; FI_RM_DISABLED is answered; others are refused")
{
    for (int rm = 0; rm <= 3; rm++) {
        about("resource management %d", rm);
        struct fi_info *hints = plain_hints();
        hints->domain_attr->resource_mgmt = (enum fi_resource_mgmt)rm;
        struct fi_info *info = answer_to(hints);
        if (is_ours() && rm <= FI_RM_ENABLED) must_answer("this", info);
        if (is_ours() && rm > FI_RM_ENABLED && info != NULL) FAIL("an unknown value is answered");
        if (info != NULL && rm == FI_RM_ENABLED) CHECK_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
        fi_freeinfo(info);
    }
}

CASE(vector_types, 1, "fi_domain: the answer has the requested av_type")
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

CASE(orders, 1,
     "fi_endpoint: each requested message order is in the answer, or the query is -FI_ENODATA; our provider answers "
     "all orders")
{
    static const uint64_t ORDERS[] = {FI_ORDER_RAR,       FI_ORDER_RAW,        FI_ORDER_RAS,        FI_ORDER_WAR,
                                      FI_ORDER_WAW,       FI_ORDER_WAS,        FI_ORDER_SAR,        FI_ORDER_SAW,
                                      FI_ORDER_SAS,       FI_ORDER_RMA_RAR,    FI_ORDER_RMA_RAW,    FI_ORDER_RMA_WAR,
                                      FI_ORDER_RMA_WAW,   FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAR,
                                      FI_ORDER_ATOMIC_WAW};
    uint64_t all = 0;
    for (size_t i = 0; i <= COUNT_OF(ORDERS); i++) {
        uint64_t order = i < COUNT_OF(ORDERS) ? ORDERS[i] : all;
        all |= order;
        for (int side = 1; side <= 3; side++) {
            about("order 0x%llx, sides %d", (unsigned long long)order, side);
            struct fi_info *hints = plain_hints();
            if (side & 1) hints->tx_attr->msg_order = order;
            if (side & 2) hints->rx_attr->msg_order = order;
            struct fi_info *info = answer_to(hints);
            if (is_ours()) must_answer("this order", info);
            if (info == NULL) continue;
            if (side & 1) CHECK_FLAGS(info->tx_attr->msg_order, order, 0);
            if (side & 2) CHECK_FLAGS(info->rx_attr->msg_order, order, 0);
            fi_freeinfo(info);
        }
    }
    struct fi_info *hints = plain_hints();
    hints->tx_attr->msg_order = 1ull << 62;
    struct fi_info *info = answer_to(hints);
    if (info != NULL) FAIL("an unknown order is answered");
    hints = plain_hints();
    hints->tx_attr->comp_order = FI_ORDER_STRICT;
    info = answer_to(hints);
    if (info != NULL) CHECK_FLAGS(info->tx_attr->comp_order, FI_ORDER_STRICT, 0);
    fi_freeinfo(info);
}

CASE(default_flags, 1, "fi_tx_attr: requested op_flags are in the answer, or the query is -FI_ENODATA")
{
    static const uint64_t FLAGS[] = {FI_COMPLETION,        FI_INJECT,          FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
                                     FI_DELIVERY_COMPLETE, FI_COMMIT_COMPLETE, FI_MULTICAST,       1ull << 40};
    for (size_t i = 0; i < COUNT_OF(FLAGS); i++) {
        about("flags 0x%llx", (unsigned long long)FLAGS[i]);
        struct fi_info *info = info_for((struct wants){.caps = FI_MSG, .tx_op_flags = FLAGS[i]});
        if (is_ours() && (i == 0 || (i >= 2 && i <= 4))) must_answer("these flags", info);
        if (is_ours() && i >= 5 && info != NULL) FAIL("unclaimed flags are answered");
        if (info != NULL) CHECK_FLAGS(info->tx_attr->op_flags, FLAGS[i], 0);
        fi_freeinfo(info);
    }
    struct fi_info *info = info_for((struct wants){.caps = FI_MSG | FI_MULTI_RECV, .rx_op_flags = FI_MULTI_RECV});
    if (is_ours()) must_answer("FI_MULTI_RECV as default of receives", info);
    if (info != NULL) CHECK_FLAGS(info->rx_attr->op_flags, FI_MULTI_RECV, 0);
    fi_freeinfo(info);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

struct size_field {
    const char *name;
    size_t offset;
    int of; /* tx, rx, ep, domain */
};

#define FIELD(kind, type, field) {#type "." #field, offsetof(struct type, field), kind}

static const struct size_field SIZE_FIELDS[] = {
    FIELD(0, fi_tx_attr, inject_size),
    FIELD(0, fi_tx_attr, size),
    FIELD(0, fi_tx_attr, iov_limit),
    FIELD(0, fi_tx_attr, rma_iov_limit),
    FIELD(1, fi_rx_attr, size),
    FIELD(1, fi_rx_attr, iov_limit),
    FIELD(1, fi_rx_attr, total_buffered_recv),
    FIELD(2, fi_ep_attr, max_msg_size),
    FIELD(2, fi_ep_attr, tx_ctx_cnt),
    FIELD(2, fi_ep_attr, rx_ctx_cnt),
    FIELD(2, fi_ep_attr, max_order_raw_size),
    FIELD(2, fi_ep_attr, max_order_war_size),
    FIELD(2, fi_ep_attr, max_order_waw_size),
    FIELD(3, fi_domain_attr, mr_key_size),
    FIELD(3, fi_domain_attr, cq_data_size),
    FIELD(3, fi_domain_attr, cq_cnt),
    FIELD(3, fi_domain_attr, ep_cnt),
    FIELD(3, fi_domain_attr, tx_ctx_cnt),
    FIELD(3, fi_domain_attr, rx_ctx_cnt),
    FIELD(3, fi_domain_attr, max_ep_tx_ctx),
    FIELD(3, fi_domain_attr, max_ep_rx_ctx),
    FIELD(3, fi_domain_attr, cntr_cnt),
    FIELD(3, fi_domain_attr, mr_iov_limit),
    FIELD(3, fi_domain_attr, mr_cnt),
    FIELD(3, fi_domain_attr, max_ep_stx_ctx),
    FIELD(3, fi_domain_attr, max_ep_srx_ctx),
    FIELD(3, fi_domain_attr, max_err_data),
};

static size_t *size_in(struct fi_info *info, const struct size_field *f)
{
    void *const structs[] = {info->tx_attr, info->rx_attr, info->ep_attr, info->domain_attr};
    return (size_t *)((char *)structs[f->of] + f->offset);
}

CASE(sizes, 1,
     "fi_getinfo: sizes up to the reported ones are answered with at least as much; larger ones too, or refused",
     .stock = "tcp;ofi_rxm: answers less than was asked for | shm: answers less than was asked for | sockets: "
              "answers less than was asked for")
{
    struct fi_info *told = plain();
    must_answer("plain hints", told);
    for (size_t i = 0; i < COUNT_OF(SIZE_FIELDS); i++) {
        const struct size_field *f = &SIZE_FIELDS[i];
        size_t value = *size_in(told, f);
        const size_t asking[] = {1, value / 2, value, value + 1, value * 2, value + (1ull << 40), SIZE_MAX - 1};
        for (size_t k = 0; k < COUNT_OF(asking); k++) {
            if (asking[k] == 0) continue;
            about("%s reported %zu, requested %zu", f->name, value, asking[k]);
            struct fi_info *hints = plain_hints();
            *size_in(hints, f) = asking[k];
            struct fi_info *info = answer_to(hints);
            if (asking[k] <= value) must_answer("a reported size", info);
            if (info == NULL) continue;
            if (*size_in(info, f) < asking[k]) FAIL("answered with %zu", *size_in(info, f));
            fi_freeinfo(info);
        }
    }
    fi_freeinfo(told);
}

CASE(sizes_that_cannot_be, 1,
     "contract: sizes above the limits are refused: inject, pieces, message, key, remote data, contexts",
     .needs = OUR_PROVIDER)
{
    struct fi_info *told = plain();
    static const char *const NAMES[] = {"fi_tx_attr.inject_size",     "fi_tx_attr.iov_limit",
                                        "fi_tx_attr.rma_iov_limit",   "fi_rx_attr.iov_limit",
                                        "fi_domain_attr.mr_key_size", "fi_domain_attr.cq_data_size",
                                        "fi_ep_attr.tx_ctx_cnt",      "fi_ep_attr.rx_ctx_cnt"};
    for (size_t n = 0; n < COUNT_OF(NAMES); n++)
        for (size_t i = 0; i < COUNT_OF(SIZE_FIELDS); i++) {
            if (strcmp(SIZE_FIELDS[i].name, NAMES[n]) != 0) continue;
            struct fi_info *hints = plain_hints();
            *size_in(hints, &SIZE_FIELDS[i]) = *size_in(told, &SIZE_FIELDS[i]) + 1;
            about("%s, one more than %zu", NAMES[n], *size_in(told, &SIZE_FIELDS[i]));
            struct fi_info *info = answer_to(hints);
            if (info != NULL) FAIL("answered with %zu", *size_in(info, &SIZE_FIELDS[i]));
        }
    fi_freeinfo(told);
}

CASE(contexts_and_authorization, 1,
     "fi_endpoint: shared contexts and authorization keys, which are not supported, are refused",
     .needs = OUR_PROVIDER)
{
    struct fi_info *hints = plain_hints();
    hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    CHECK_PTR(answer_to(hints), NULL);
    hints = plain_hints();
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    CHECK_PTR(answer_to(hints), NULL);
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
