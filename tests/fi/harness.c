/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The harness of the libfabric suite: main(), the table of cases, checks, what is opened, processes. See harness.h for
 * the contract.
 *
 * Invariants
 * 1. What was opened stands in one of the tables here until it is closed, so that progress() drives all of it.
 * 2. The processes of a case are forked before the first call of libfabric; they end with the one that forked them, and
 *    with each other when one fails.
 * 3. A process that fails has printed its message before it ends. One that hangs says where, and ends, after CASE_S.
 */
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CASES_MAX = 256,
    SIDES_MAX = 256,
    QUEUES_MAX = 1024,
    COUNTERS_MAX = 256,
    REGIONS_MAX = 8192,
    GIVEN_MAX = 32768,
    GUARD_BYTES = 64,
    GUARD_BYTE = 0xee,
    EXCHANGE_BYTES = 4096,
    STATUS_SKIPPED = 77,
    POLLS_BEFORE_NAP = 64,
};

struct fi_case {
    const char *name, *rule;
    void (*body)(void);
    int processes;
    struct case_extra extra;
};

struct given {
    unsigned char *start; /* of the guard before it */
    size_t bytes, rounded;
};

/* What the processes of a case share. */
struct common {
    atomic_int parties, arrived, generation, resetting;
    atomic_int dying[RANKS_MAX]; /* 1: will die; 2: and be replaced */
    atomic_int pid[RANKS_MAX];
    unsigned char exchanged[RANKS_MAX][EXCHANGE_BYTES];
    _Alignas(64) unsigned char shared[SHARED_BYTES];
};

static struct fi_case cases[CASES_MAX];
static int cases_count;
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
static struct given given[GIVEN_MAX];
static int given_count;
static struct common *common;
static fi_addr_t addresses[RANKS_MAX];
static int my_rank, ranks_count = 1, my_life;
static _Thread_local char subject[256];

/* ---- Checks --------------------------------------------------------------------------------------------- */

const char *provider(void)
{
    const char *name = getenv("FI_TEST_PROVIDER");
    return name != NULL && name[0] != '\0' ? name : "selvedge";
}

bool is_ours(void) { return strcmp(provider(), "selvedge") == 0; }

void about(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(subject, sizeof subject, format, arguments);
    va_end(arguments);
}

void fail_at(const char *file, int line, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const char *name = strrchr(file, '/');
    fprintf(stderr, "%s:%d: rank %d%s%s: %s\n", name != NULL ? name + 1 : file, line, my_rank, subject[0] ? ", " : "",
            subject, message);
    fflush(stderr);
    _exit(1);
}

void skip(const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (is_ours()) FAIL("passed over, which our provider must not need: %s", message);
    printf("%s: passed over: %s\n", provider(), message);
    fflush(stdout);
    _exit(STATUS_SKIPPED);
}

void check_eq_at(const char *file, int line, const char *found_text, unsigned long long found, const char *wanted_text,
                 unsigned long long wanted)
{
    if (found == wanted) return;
    fail_at(file, line, "%s is %lld (0x%llx), wanted %s = %lld (0x%llx)", found_text, (long long)found, found,
            wanted_text, (long long)wanted, wanted);
}

static const char *error_name(long long rc)
{
    return rc < 0 && rc > -1000 ? fi_strerror((int)-rc) : "no error";
}

void check_rc_at(const char *file, int line, const char *call, long long found, const char *wanted_text, long long wanted)
{
    if (found == wanted) return;
    fail_at(file, line, "%s is %lld (%s), wanted %s = %lld (%s)", call, found, error_name(found), wanted_text, wanted,
            error_name(wanted));
}

void check_negative_at(const char *file, int line, const char *call, long long found)
{
    if (found >= 0) fail_at(file, line, "%s is %lld, wanted an error", call, found);
    if (found == -FI_EAGAIN) fail_at(file, line, "%s is -FI_EAGAIN, wanted an error that lasts", call);
}

void check_flags_at(const char *file, int line, const char *text, uint64_t found, uint64_t wanted, uint64_t unwanted)
{
    if ((found & wanted) == wanted && !(found & unwanted)) return;
    char names[512];
    snprintf(names, sizeof names, "%s", fi_tostr(&found, FI_TYPE_CAPS));
    fail_at(file, line, "%s is 0x%llx [%s]: missing 0x%llx, not wanted 0x%llx", text, (unsigned long long)found, names,
            (unsigned long long)(wanted & ~found), (unsigned long long)(found & unwanted));
}

void check_bytes_at(const char *file, int line, const void *start, size_t bytes, int value)
{
    const unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)value)
            fail_at(file, line, "byte %zu of %zu is 0x%02x, wanted 0x%02x", i, bytes, at[i], (unsigned char)value);
}

static unsigned char pattern_byte(size_t at, unsigned seed)
{
    uint64_t mixed = (at + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(mixed >> 56);
}

void pattern_fill(void *start, size_t bytes, unsigned seed)
{
    unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++) at[i] = pattern_byte(i, seed);
}

void check_pattern_at(const char *file, int line, const void *start, size_t bytes, unsigned seed)
{
    const unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_byte(i, seed))
            fail_at(file, line, "byte %zu of %zu is 0x%02x, wanted 0x%02x of pattern %u", i, bytes, at[i],
                    pattern_byte(i, seed), seed);
}

/* ---- Asking --------------------------------------------------------------------------------------------- */

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
    hints->domain_attr->threading = wants.threading;
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

/* ---- Opening -------------------------------------------------------------------------------------------- */

static void queue_add(struct fid_cq *cq)
{
    if (queues_count == QUEUES_MAX) FAIL("too many queues for the harness");
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
    if (sides_count == SIDES_MAX) FAIL("too many sides for the harness");
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

static void close_all(void)
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

fi_addr_t address_insert(struct side *side, const void *address)
{
    fi_addr_t inserted = FI_ADDR_NOTAVAIL;
    CHECK_RC(fi_av_insert(side->av, address, 1, &inserted, 0, NULL), 1);
    CHECK(inserted != FI_ADDR_NOTAVAIL);
    return inserted;
}

fi_addr_t side_insert(struct side *side, const struct side *other) { return address_insert(side, other->address); }

static struct pair paired(struct side *a, struct side *b)
{
    struct pair pair = {.a = a, .b = b};
    pair.to_b = side_insert(a, b);
    side_insert(a, a); /* so that the two vectors number differently */
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
    for (int r = 0; r < ranks_count; r++) addresses[r] = address_insert(side, all + r * ADDRESS_BYTES_MAX);
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
    if (counters_count == COUNTERS_MAX) FAIL("too many counters for the harness");
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
    CHECK(region.key != FI_KEY_NOTAVAIL);
    if (regions_count == REGIONS_MAX) FAIL("too many regions for the harness");
    region_sides[regions_count] = side;
    regions[regions_count++] = region;
    return region;
}

struct region region_over(struct side *side, void *start, size_t bytes, uint64_t access)
{
    return region_flagged(side, start, bytes, access, 0);
}

/* ---- Completions ---------------------------------------------------------------------------------------- */

void progress(void)
{
    static _Thread_local unsigned polls;
    for (int i = 0; i < queues_count; i++) fi_cq_read(queues[i], NULL, 0);
    for (int i = 0; i < counters_count; i++) fi_cntr_read(counters[i]);
    if (++polls % POLLS_BEFORE_NAP == 0) sched_yield();
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
    fail_at(file, line, "a completion in error: fi_cq_readerr %zd, err %d (%s), prov_errno %d, flags 0x%llx, len %zu, olen %zu",
            rc, error.err, fi_strerror(error.err), error.prov_errno, (unsigned long long)error.flags, error.len,
            error.olen);
}

bool take_at(const char *file, int line, struct side *side, struct fid_cq *cq, struct completion *taken)
{
    union entry entry;
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    memset(&entry, 0x5a, sizeof entry);
    ssize_t rc = fi_cq_readfrom(cq, &entry, 1, &source);
    if (rc == -FI_EAGAIN) return false;
    if (rc == -FI_EAVAIL) fail_with_entry(file, line, cq);
    check_rc_at(file, line, "fi_cq_readfrom", rc, "1", 1);
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

/* ---- The processes of a case ---------------------------------------------------------------------------- */

int rank(void) { return my_rank; }
int ranks(void) { return ranks_count; }
int life(void) { return my_life; }
void *shared(void) { return common->shared; }

static void barrier_driving(void (*drive)(void))
{
    int generation = atomic_load(&common->generation);
    atomic_fetch_add(&common->arrived, 1);
    for (unsigned polls = 1; atomic_load(&common->generation) == generation; polls++) {
        int free = 0;
        if (atomic_load(&common->arrived) >= atomic_load(&common->parties) &&
            atomic_compare_exchange_strong(&common->resetting, &free, 1)) {
            if (atomic_load(&common->generation) == generation) {
                atomic_store(&common->arrived, 0);
                atomic_fetch_add(&common->generation, 1);
            }
            atomic_store(&common->resetting, 0);
        }
        if (drive != NULL) drive();
        if (polls % POLLS_BEFORE_NAP == 0) usleep(50);
    }
}

void barrier(void) { barrier_driving(progress); }
void barrier_asleep(void) { barrier_driving(NULL); }

void exchange(const void *mine, size_t bytes, void *all)
{
    if (bytes > EXCHANGE_BYTES) FAIL("%zu bytes are too many to exchange", bytes);
    memcpy(common->exchanged[my_rank], mine, bytes);
    barrier();
    for (int r = 0; r < ranks_count; r++) memcpy((char *)all + (size_t)r * bytes, common->exchanged[r], bytes);
    barrier();
}

void die_now(bool replaced)
{
    kill_rank(my_rank, replaced);
    for (;;) pause();
}

void kill_rank(int victim, bool replaced)
{
    atomic_store(&common->dying[victim], replaced ? 2 : 1);
    if (kill(atomic_load(&common->pid[victim]), SIGKILL) != 0) FAIL("kill: %s", strerror(errno));
}

/* ---- The rest ------------------------------------------------------------------------------------------- */

void *buffer(size_t bytes)
{
    if (given_count == GIVEN_MAX) FAIL("too many buffers for the harness");
    size_t rounded = (bytes + 63) / 64 * 64;
    unsigned char *start = aligned_alloc(64, rounded + 2 * GUARD_BYTES);
    if (start == NULL) FAIL("no %zu bytes of memory", bytes);
    given[given_count++] = (struct given){start, bytes, rounded};
    memset(start, GUARD_BYTE, GUARD_BYTES);
    memset(start + GUARD_BYTES + bytes, GUARD_BYTE, rounded - bytes + GUARD_BYTES);
    return memset(start + GUARD_BYTES, 0, bytes);
}

static void check_buffers(void)
{
    about("%s", "");
    while (given_count > 0) {
        const struct given *g = &given[--given_count];
        for (size_t k = 0; k < GUARD_BYTES; k++)
            if (g->start[k] != GUARD_BYTE) FAIL("%zu bytes before a buffer of %zu were written", GUARD_BYTES - k, g->bytes);
        for (size_t k = GUARD_BYTES + g->bytes; k < g->rounded + 2 * GUARD_BYTES; k++)
            if (g->start[k] != GUARD_BYTE) FAIL("byte %zu of a buffer of %zu was written", k - GUARD_BYTES, g->bytes);
        free(g->start);
    }
}

uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du;
}

void sleep_ms(int ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&nap, &nap) != 0 && errno == EINTR) continue;
}

long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- The program ---------------------------------------------------------------------------------------- */

void case_register(const char *name, int processes, const char *rule, void (*body)(void), struct case_extra extra)
{
    if (cases_count == CASES_MAX || processes < 1 || processes > RANKS_MAX) abort();
    cases[cases_count++] = (struct fi_case){name, rule, body, processes, extra};
}

static void list_cases(void)
{
    for (int i = 0; i < cases_count; i++)
        printf("%s\t%s\t%s\t%s\n", cases[i].name, cases[i].extra.ours ? "ours" : "any",
               cases[i].extra.stock != NULL ? cases[i].extra.stock : "", cases[i].rule);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    char line[512];
    int bytes = snprintf(line, sizeof line, "rank %d, %s: the case did not end within %d s\n", my_rank, subject, CASE_S);
    if (bytes > 0 && write(STDERR_FILENO, line, (size_t)bytes) < 0) _exit(1);
    _exit(1);
}

static void run_body(void (*body)(void))
{
    signal(SIGALRM, on_alarm);
    alarm(CASE_S);
    body();
    about("at the end");
    if (ranks_count > 1) barrier(); /* others may still need this one's endpoints */
    close_all();
    check_buffers();
}

void child_run(void (*body)(void))
{
    sides_count = queues_count = adopted_count = counters_count = regions_count = 0;
    signal(SIGALRM, on_alarm);
    alarm(CASE_S);
    body();
    close_all();
    _exit(0);
}

static void start(const struct fi_case *c, int new_rank, int new_life)
{
    pid_t pid = fork();
    if (pid < 0) FAIL("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        my_rank = new_rank;
        my_life = new_life;
        atomic_store(&common->pid[new_rank], getpid());
        run_body(c->body);
        fflush(NULL);
        _exit(0);
    }
    atomic_store(&common->pid[new_rank], pid);
}

static int rank_of(pid_t pid)
{
    for (int r = 0; r < ranks_count; r++)
        if (atomic_load(&common->pid[r]) == pid) return r;
    return -1;
}

/* A death that the case wants; else the status of the process is that of the case. */
static bool has_died(const struct fi_case *c, int dead, int status)
{
    int how = dead >= 0 ? atomic_exchange(&common->dying[dead], 0) : 0;
    if (how == 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return false;
    if (how == 2)
        start(c, dead, 1);
    else
        atomic_fetch_sub(&common->parties, 1);
    return true;
}

static int run_job(const struct fi_case *c)
{
    for (int r = 0; r < ranks_count; r++) start(c, r, 0);
    int worst = 0, status;
    pid_t pid;
    while ((pid = wait(&status)) > 0) {
        int ended = rank_of(pid);
        if (has_died(c, ended, status)) continue;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        if (WIFSIGNALED(status) && worst == 0) fprintf(stderr, "rank %d: killed by signal %d\n", ended, WTERMSIG(status));
        if (ended >= 0) atomic_store(&common->pid[ended], 0);
        if (code == 0 || worst != 0) continue;
        worst = code;
        for (int r = 0; r < ranks_count; r++)
            if (atomic_load(&common->pid[r]) != 0) kill(atomic_load(&common->pid[r]), SIGKILL);
    }
    return worst;
}

static int run_case(const struct fi_case *c)
{
    if (c->extra.ours && !is_ours()) skip("only with our provider");
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED) FAIL("mmap: %s", strerror(errno));
    ranks_count = c->processes;
    atomic_store(&common->parties, ranks_count);
    if (ranks_count > 1) return run_job(c);
    run_body(c->body);
    return 0;
}

int main(int argc, char **argv)
{
    /* Only this provider: the others take their time to find out that they have no hardware. */
    char only[64];
    snprintf(only, sizeof only, "%s", provider());
    for (char *at = only; *at != '\0'; at++)
        if (*at == ';') *at = ',';
    setenv("FI_PROVIDER", only, 0);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_cases();
        return 0;
    }
    for (int i = 0; argc == 2 && i < cases_count; i++)
        if (strcmp(argv[1], cases[i].name) == 0) return run_case(&cases[i]);
    fprintf(stderr, "usage: %s --list | CASE (one of %d)\n", argv[0], cases_count);
    return 2;
}
