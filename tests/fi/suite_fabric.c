/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects and waits of the libfabric suite: sides, regions, counters, completions. See suite.h for the contract.
 *
 * Invariants
 * 1. An open object is in one of the tables here until it is closed, so that progress() polls all of them.
 * 2. Objects are closed in the manual's order, and each close is checked.
 */
#include "suite.h"

#include <sched.h>

enum { SIDES_MAX = 256, QUEUES_MAX = 1024, COUNTERS_MAX = 256, REGIONS_MAX = 8192, POLLS_BEFORE_YIELD = 64 };

static struct side *sides[SIDES_MAX];
static int sides_count;
static struct fid_cq *queues[QUEUES_MAX];
static int queues_count;
static struct fid_cq *adopted[QUEUES_MAX];
static int adopted_count;
static struct fid_cntr *counters[COUNTERS_MAX];
static int counters_count;
static struct region regions[REGIONS_MAX];
static struct side *region_sides[REGIONS_MAX];
static int regions_count;
static fi_addr_t addresses[RANKS_MAX];

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

uint32_t api_version(void)
{
    uint32_t loaded = fi_version(), written = FI_VERSION(1, 17);
    return FI_VERSION_LT(loaded, written) ? loaded : written;
}

struct fi_info *hints_for(struct wants wants)
{
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL) FAIL("fi_allocinfo: NULL");
    hints->caps = wants.caps ? wants.caps : FI_MSG | FI_TAGGED;
    hints->mode = wants.mode;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = wants.mr_mode_exact ? wants.mr_mode : MR_ANY;
    hints->domain_attr->av_type = wants.av_type;
    bool says_nothing = wants.threading == FI_THREAD_UNSPEC;
    hints->domain_attr->threading = says_nothing && plainly() ? FI_THREAD_DOMAIN : wants.threading;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = wants.progress;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = wants.order;
    hints->tx_attr->op_flags = wants.tx_op_flags;
    hints->rx_attr->op_flags = wants.rx_op_flags;
    hints->fabric_attr->prov_name = strdup(provider());
    return hints;
}

struct fi_info *info_for_hints(uint32_t version, const struct fi_info *hints)
{
    struct fi_info *info = NULL;
    int rc = fi_getinfo(version, NULL, NULL, 0, hints, &info);
    if (rc == -FI_ENODATA) {
        CHECK_PTR(info, NULL);
        return NULL;
    }
    OK(rc);
    if (info == NULL) FAIL("fi_getinfo is 0, with no info");
    return info;
}

struct fi_info *info_for(struct wants wants)
{
    struct fi_info *hints = hints_for(wants);
    struct fi_info *info = info_for_hints(wants.version ? wants.version : api_version(), hints);
    fi_freeinfo(hints);
    return info;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static void queue_add(struct fid_cq *cq)
{
    if (queues_count == QUEUES_MAX) FAIL("too many queues for the suite");
    queues[queues_count++] = cq;
}

static void queue_remove(struct fid_cq *cq)
{
    for (int i = 0; i < queues_count; i++)
        if (queues[i] == cq) queues[i--] = queues[--queues_count];
}

static struct fid_cq *cq_for(struct side *side)
{
    struct fi_cq_attr attr = {
        .size = side->wants.cq_size,
        .format = side->wants.format ? side->wants.format : FI_CQ_FORMAT_TAGGED,
        .wait_obj = side->wants.wait_obj,
    };
    struct fid_cq *cq = NULL;
    OK(fi_cq_open(side->domain, &attr, &cq, NULL));
    return cq;
}

struct side *side_open(struct wants wants)
{
    if (wants.av_type == FI_AV_UNSPEC) wants.av_type = FI_AV_TABLE;
    struct side *side = calloc(1, sizeof *side);
    side->wants = wants;
    side->info = info_for(wants);
    if (side->info == NULL) skip("no answer to these hints (caps 0x%llx)", (unsigned long long)wants.caps);
    if (wants.beside != NULL) {
        side->fabric = wants.beside->fabric;
        side->domain = wants.beside->domain;
    } else {
        OK(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
        OK(fi_domain(side->fabric, side->info, &side->domain, NULL));
    }
    struct fi_av_attr av_attr = {.type = wants.av_type, .count = 16};
    OK(fi_av_open(side->domain, &av_attr, &side->av, NULL));
    side->tx = cq_for(side);
    side->rx = cq_for(side);
    OK(fi_endpoint(side->domain, side->info, &side->ep, side));
    OK(fi_ep_bind(side->ep, &side->av->fid, 0));
    OK(fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT | wants.bind_tx));
    OK(fi_ep_bind(side->ep, &side->rx->fid, FI_RECV | wants.bind_rx));
    if (wants.events) {
        struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
        OK(fi_eq_open(side->fabric, &eq_attr, &side->eq, NULL));
        OK(fi_ep_bind(side->ep, &side->eq->fid, 0));
    }
    if (sides_count == SIDES_MAX) FAIL("too many sides for the suite");
    sides[sides_count++] = side;
    if (!wants.disabled) side_enable(side);
    return side;
}

void side_enable(struct side *side)
{
    OK(fi_enable(side->ep));
    side->address_bytes = sizeof side->address;
    OK(fi_getname(&side->ep->fid, side->address, &side->address_bytes));
    side->enabled = true;
    queue_add(side->tx);
    queue_add(side->rx);
}

static void close_region(int at)
{
    OK(fi_close(&regions[at].mr->fid));
    regions[at] = regions[--regions_count];
    region_sides[at] = region_sides[regions_count];
}

void region_close(struct region *region)
{
    for (int i = 0; i < regions_count; i++)
        if (regions[i].mr == region->mr) {
            close_region(i);
            return;
        }
    FAIL("no such region");
}

static void close_endpoint(struct side *side)
{
    if (side->ep != NULL) OK(fi_close(&side->ep->fid));
    side->ep = NULL;
}

static void close_rest(struct side *side)
{
    for (int i = 0; i < regions_count; i++)
        if (region_sides[i] == side) close_region(i--);
    queue_remove(side->tx);
    queue_remove(side->rx);
    OK(fi_close(&side->tx->fid));
    OK(fi_close(&side->rx->fid));
    if (side->eq != NULL) OK(fi_close(&side->eq->fid));
    OK(fi_close(&side->av->fid));
}

static void close_domain(struct side *side)
{
    if (side->wants.beside == NULL) {
        OK(fi_close(&side->domain->fid));
        OK(fi_close(&side->fabric->fid));
    }
    fi_freeinfo(side->info);
    free(side);
}

void side_close(struct side *side)
{
    close_endpoint(side);
    close_rest(side);
    close_domain(side);
    for (int i = 0; i < sides_count; i++)
        if (sides[i] == side) {
            memmove(&sides[i], &sides[i + 1], sizeof sides[0] * (size_t)(--sides_count - i));
            return;
        }
}

void fabric_close_all(void)
{
    for (int i = 0; i < sides_count; i++) close_endpoint(sides[i]);
    while (regions_count > 0) close_region(regions_count - 1);
    while (counters_count > 0) OK(fi_close(&counters[--counters_count]->fid));
    while (adopted_count > 0) {
        queue_remove(adopted[--adopted_count]);
        OK(fi_close(&adopted[adopted_count]->fid));
    }
    for (int i = 0; i < sides_count; i++) close_rest(sides[i]);
    while (sides_count > 0) close_domain(sides[--sides_count]);
}

void fabric_forget_all(void)
{
    sides_count = queues_count = adopted_count = counters_count = regions_count = 0;
}

fi_addr_t address_insert(struct side *side, const void *address)
{
    fi_addr_t inserted = FI_ADDR_NOTAVAIL;
    CHECK_RC(fi_av_insert(side->av, address, 1, &inserted, 0, NULL), 1);
    CHECK_OP(inserted, !=, FI_ADDR_NOTAVAIL);
    return inserted;
}

fi_addr_t side_insert(struct side *side, const struct side *other) { return address_insert(side, other->address); }

static struct pair paired(struct side *a, struct side *b)
{
    struct pair pair = {.a = a, .b = b};
    pair.to_b = side_insert(a, b);
    side_insert(a, a); /* so that a peer has a different number in each vector */
    pair.to_a = side_insert(b, b);
    pair.to_a = side_insert(b, a);
    return pair;
}

struct pair pair_open(struct wants wants)
{
    struct side *a = side_open(wants);
    return paired(a, side_open(wants));
}

struct pair pair_open_beside(struct wants wants)
{
    struct side *a = side_open(wants);
    wants.beside = a;
    return paired(a, side_open(wants));
}

struct side *job_open(struct wants wants)
{
    struct side *side = side_open(wants);
    unsigned char all[RANKS_MAX * ADDRESS_BYTES_MAX];
    exchange(side->address, ADDRESS_BYTES_MAX, all);
    for (int r = 0; r < ranks(); r++) addresses[r] = address_insert(side, all + r * ADDRESS_BYTES_MAX);
    barrier();
    return side;
}

fi_addr_t to(int of_rank) { return addresses[of_rank]; }

struct fid_cntr *counter_open(struct side *side, enum fi_wait_obj wait_obj)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = wait_obj};
    struct fid_cntr *cntr = NULL;
    int rc = fi_cntr_open(side->domain, &attr, &cntr, NULL);
    if (rc == -FI_ENOSYS) skip("fi_cntr_open: -FI_ENOSYS");
    OK(rc);
    if (counters_count == COUNTERS_MAX) FAIL("too many counters for the suite");
    counters[counters_count++] = cntr;
    return cntr;
}

void adopt_cq(struct fid_cq *cq)
{
    queue_add(cq);
    adopted[adopted_count++] = cq;
}

uint64_t next_key(void)
{
    static uint64_t last = 0x1000;
    return ++last;
}

struct region region_flagged(struct side *side, void *start, size_t bytes, uint64_t access, uint64_t flags)
{
    struct region region = {.start = start, .bytes = bytes};
    OK(fi_mr_reg(side->domain, start, bytes, access, 0, next_key(), flags, &region.mr, NULL));
    if (side->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
        OK(fi_mr_bind(region.mr, &side->ep->fid, 0));
        OK(fi_mr_enable(region.mr));
    }
    int virtual = side->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
    region.base = virtual ? (uintptr_t)start : 0;
    region.key = fi_mr_key(region.mr);
    CHECK_OP(region.key, !=, FI_KEY_NOTAVAIL);
    if (regions_count == REGIONS_MAX) FAIL("too many regions for the suite");
    region_sides[regions_count] = side;
    regions[regions_count++] = region;
    return region;
}

struct region region_over(struct side *side, void *start, size_t bytes, uint64_t access)
{
    return region_flagged(side, start, bytes, access, 0);
}

/* ---- Completions ------------------------------------------------------------------------------------------------- */

void progress(void)
{
    static _Thread_local unsigned polls;
    for (int i = 0; i < queues_count; i++) fi_cq_read(queues[i], NULL, 0);
    for (int i = 0; i < counters_count; i++) fi_cntr_read(counters[i]);
    if (++polls % POLLS_BEFORE_YIELD == 0) sched_yield();
}

union entry {
    struct fi_cq_entry context;
    struct fi_cq_msg_entry msg;
    struct fi_cq_data_entry data;
    struct fi_cq_tagged_entry tagged;
};

static struct completion unpacked(const union entry *e, enum fi_cq_format format)
{
    struct completion c = {.context = e->context.op_context};
    if (format == FI_CQ_FORMAT_CONTEXT) return c;
    c.flags = e->msg.flags;
    c.len = e->msg.len;
    if (format == FI_CQ_FORMAT_MSG) return c;
    c.buf = e->data.buf;
    c.data = e->data.data;
    if (format == FI_CQ_FORMAT_DATA) return c;
    c.tag = e->tagged.tag;
    return c;
}

static void fail_with_entry(const char *file, int line, struct fid_cq *cq)
{
    struct fi_cq_err_entry error = {.err = 0};
    ssize_t rc = fi_cq_readerr(cq, &error, 0);
    fail_at(file, line,
            "a completion in error: fi_cq_readerr %zd, err %d (%s), prov_errno %d, flags 0x%llx, len %zu, olen %zu", rc,
            error.err, fi_strerror(error.err), error.prov_errno, (unsigned long long)error.flags, error.len,
            error.olen);
}

bool take_at(const char *file, int line, struct side *side, struct fid_cq *cq, struct completion *taken)
{
    union entry entry;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    memset(&entry, 0x5a, sizeof entry);
    bool asks = !plainly() || side->wants.caps & FI_SOURCE;
    ssize_t rc = asks ? fi_cq_readfrom(cq, &entry, 1, &source) : fi_cq_read(cq, &entry, 1);
    if (rc == -FI_EAGAIN) return false;
    if (rc == -FI_EAVAIL) fail_with_entry(file, line, cq);
    check_rc_at(file, line, asks ? "fi_cq_readfrom" : "fi_cq_read", rc, "1", 1);
    *taken = unpacked(&entry, side->wants.format ? side->wants.format : FI_CQ_FORMAT_TAGGED);
    taken->source = source;
    return true;
}

struct completion wait_at(const char *file, int line, struct side *side, struct fid_cq *cq)
{
    struct completion taken;
    long long until = now_ms() + WAIT_MS;
    while (!take_at(file, line, side, cq, &taken)) {
        if (now_ms() > until) fail_at(file, line, "no completion within %d ms", WAIT_MS);
        progress();
    }
    return taken;
}

struct fi_cq_err_entry wait_error_at(const char *file, int line, struct fid_cq *cq)
{
    union entry entry;
    long long until = now_ms() + WAIT_MS;
    ssize_t rc;
    while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
        if (now_ms() > until) fail_at(file, line, "no completion in error within %d ms", WAIT_MS);
        progress();
    }
    check_rc_at(file, line, "fi_cq_read", rc, "-FI_EAVAIL", -FI_EAVAIL);
    struct fi_cq_err_entry error;
    memset(&error, 0, sizeof error);
    check_rc_at(file, line, "fi_cq_readerr", fi_cq_readerr(cq, &error, 0), "1", 1);
    return error;
}

void none_at(const char *file, int line, struct fid_cq *cq, int ms)
{
    union entry entry;
    long long until = now_ms() + ms;
    do {
        progress();
        ssize_t rc = fi_cq_read(cq, &entry, 1);
        if (rc == -FI_EAVAIL) fail_with_entry(file, line, cq);
        if (rc != -FI_EAGAIN)
            fail_at(file, line, "fi_cq_read is %zd (context %p), wanted nothing there", rc, entry.context.op_context);
    } while (now_ms() < until);
}

void check_counter_at(const char *file, int line, const char *text, struct fid_cntr *cntr, uint64_t value, int errors)
{
    long long until = now_ms() + WAIT_MS;
    uint64_t found;
    while ((found = errors ? fi_cntr_readerr(cntr) : fi_cntr_read(cntr)) != value && now_ms() < until) progress();
    if (found == value) {
        for (int i = 0; i < 100; i++) progress();
        found = errors ? fi_cntr_readerr(cntr) : fi_cntr_read(cntr);
    }
    if (found != value)
        fail_at(file, line, "%s%s is %llu, wanted %llu", text, errors ? " (errors)" : "", (unsigned long long)found,
                (unsigned long long)value);
}
