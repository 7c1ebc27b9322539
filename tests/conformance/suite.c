/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared part of the Portals suite: the job's processes, interfaces, waiting, memory. See suite.h for the contract.
 *
 * Invariants
 * 1. Each interface in `open_interfaces` holds one reference of PtlInit and one of PtlNIInit, taken by ni_open or by the
 *    case that called ni_adopt. Closing releases both.
 * 2. A call that blocks on other processes runs in `while_driving`, so that interfaces which make progress only in their
 *    owner's calls make progress. The driver takes a counter during the wait and frees it afterwards, so it uses up no
 *    limit of the interface between calls.
 *
 * Costs: a barrier with interfaces to drive starts one thread.
 */
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>

enum { INTERFACES_MAX = 8, BUFFERS_MAX = 4096, BUFFER_ALIGN_BYTES = 64 };

struct interface {
    ptl_handle_ni_t handle;
    unsigned options;
    ptl_process_t physical[RANKS_MAX];
};

static struct interface open_interfaces[INTERFACES_MAX];
static int interfaces_count;
static int interface_in_use = -1;
static void *buffers[BUFFERS_MAX];
static int buffers_count;

/* ---- Names ---------------------------------------------------------------------------------------------- */

static const char *const return_names[] = {
    "PTL_OK",         "PTL_ARG_INVALID",   "PTL_CT_NONE_REACHED", "PTL_EQ_DROPPED", "PTL_EQ_EMPTY",     "PTL_FAIL",
    "PTL_IGNORED",    "PTL_IN_USE",        "PTL_LIST_TOO_LONG",   "PTL_NO_INIT",    "PTL_NO_SPACE",     "PTL_PID_IN_USE",
    "PTL_PT_FULL",    "PTL_PT_EQ_NEEDED",  "PTL_PT_IN_USE",       "PTL_ABORTED",    "PTL_INTERRUPTED",
};

static const char *const event_names[] = {
    "PTL_EVENT_GET",          "PTL_EVENT_GET_OVERFLOW",    "PTL_EVENT_PUT",          "PTL_EVENT_PUT_OVERFLOW",
    "PTL_EVENT_ATOMIC",       "PTL_EVENT_ATOMIC_OVERFLOW", "PTL_EVENT_FETCH_ATOMIC", "PTL_EVENT_FETCH_ATOMIC_OVERFLOW",
    "PTL_EVENT_REPLY",        "PTL_EVENT_SEND",            "PTL_EVENT_ACK",          "PTL_EVENT_PT_DISABLED",
    "PTL_EVENT_LINK",         "PTL_EVENT_AUTO_UNLINK",     "PTL_EVENT_AUTO_FREE",    "PTL_EVENT_SEARCH",
};

static const char *const failure_names[] = {
    "PTL_NI_OK",          "PTL_NI_UNDELIVERABLE",  "PTL_NI_DROPPED",      "PTL_NI_PT_DISABLED",
    "PTL_NI_PERM_VIOLATION", "PTL_NI_OP_VIOLATION", "PTL_NI_NO_MATCH",     "PTL_NI_SEGV",
};

static const char *name_in(const char *const *names, size_t count, unsigned long long value)
{
    return value < count ? names[value] : "(none so numbered)";
}

const char *return_name(int rc) { return name_in(return_names, COUNT_OF(return_names), (unsigned)rc); }
const char *event_name(ptl_event_kind_t kind) { return name_in(event_names, COUNT_OF(event_names), kind); }
const char *failure_name(ptl_ni_fail_t kind) { return name_in(failure_names, COUNT_OF(failure_names), kind); }

static bool is_one_of(const char *text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return true;
    return false;
}

static bool ends_with(const char *text, const char *tail)
{
    size_t text_length = strlen(text), tail_length = strlen(tail);
    return text_length >= tail_length && strcmp(text + text_length - tail_length, tail) == 0;
}

/* Events, failures and return codes have names; the source text shows the kind of a value. */
static const char *value_name(const char *found_text, const char *wanted_text, unsigned long long value)
{
    if (is_one_of(wanted_text, event_names, COUNT_OF(event_names)) || ends_with(found_text, ".type"))
        return name_in(event_names, COUNT_OF(event_names), value);
    if (is_one_of(wanted_text, failure_names, COUNT_OF(failure_names)) || ends_with(found_text, "ni_fail_type"))
        return name_in(failure_names, COUNT_OF(failure_names), value);
    if (is_one_of(wanted_text, return_names, COUNT_OF(return_names)) || strncmp(found_text, "Ptl", 3) == 0)
        return name_in(return_names, COUNT_OF(return_names), value);
    return "";
}

/* ---- Checks --------------------------------------------------------------------------------------------- */

void check_process_at(const char *file, int line, const char *found_text, ptl_process_t found, const char *wanted_text,
                      ptl_process_t wanted)
{
    if (same_process(found, wanted)) return;
    if (ni_is_logical())
        fail_at(file, line, "%s is rank %u, wanted %s = rank %u", found_text, found.rank, wanted_text, wanted.rank);
    fail_at(file, line, "%s is nid %u pid %u, wanted %s = nid %u pid %u", found_text, found.phys.nid, found.phys.pid,
            wanted_text, wanted.phys.nid, wanted.phys.pid);
}

/* ---- The job -------------------------------------------------------------------------------------------- */

int rank(void) { return selvedge_rank(); }
int ranks(void) { return selvedge_size(); }

static bool environment_is(const char *variable, const char *value, const char *otherwise)
{
    const char *found = getenv(variable);
    return strcmp(found && *found ? found : otherwise, value) == 0;
}

bool mode_is(const char *mode) { return environment_is("SELVEDGE_MODE", mode, "nic"); }
bool path_is(const char *path) { return environment_is("SELVEDGE_PATH", path, "auto"); }
bool memory_is_shared(void) { return environment_is("CONFORMANCE_MEMORY", "shared", "ordinary"); }

/* Makes one progress call on every open interface: a wait of a millisecond on a counter that nothing increments. */
static void drive_interfaces(void)
{
    for (int i = 0; i < interfaces_count; i++) {
        ptl_handle_ct_t ct;
        ptl_ct_event_t event;
        unsigned which;
        ptl_sr_value_t drops;
        ptl_size_t one = 1;
        if (PtlCTAlloc(open_interfaces[i].handle, &ct) == PTL_OK) {
            PtlCTPoll(&ct, &one, 1, 1, &event, &which);
            PtlCTFree(ct);
        } else { /* no counter is left: any call of the interface makes progress */
            PtlNIStatus(open_interfaces[i].handle, PTL_SR_DROP_COUNT, &drops);
            nap_us(500);
        }
    }
}

struct errand {
    void (*run)(void *);
    void *argument;
    atomic_bool done;
};

static void *run_errand(void *opaque)
{
    struct errand *errand = opaque;
    errand->run(errand->argument);
    atomic_store(&errand->done, true);
    return NULL;
}

static void while_driving(void (*run)(void *), void *argument)
{
    bool owner_must_drive = mode_is("host") || path_is("bounce");
    if (interfaces_count == 0 || !owner_must_drive) {
        run(argument);
        return;
    }
    struct errand errand = {run, argument, false};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_errand, &errand) != 0) FAIL("no thread for waiting");
    while (!atomic_load(&errand.done)) drive_interfaces();
    pthread_join(thread, NULL);
}

static void run_barrier(void *unused)
{
    (void)unused;
    CHECK_EQ(selvedge_barrier(), 0);
}

void barrier(void) { while_driving(run_barrier, NULL); }

struct exchange_arguments {
    const void *mine;
    size_t bytes;
    void *all;
};

static void run_exchange(void *opaque)
{
    struct exchange_arguments *arguments = opaque;
    CHECK_EQ(selvedge_exchange(arguments->mine, arguments->bytes, arguments->all), 0);
}

void exchange(const void *mine, size_t bytes, void *all)
{
    struct exchange_arguments arguments = {mine, bytes, all};
    while_driving(run_exchange, &arguments);
}

static void run_sleep(void *opaque) { nap_us(*(int *)opaque * 1000L); }

void sleep_ms(int ms) { while_driving(run_sleep, &ms); }

/* ---- Interfaces ----------------------------------------------------------------------------------------- */

static struct interface *in_use(void)
{
    if (interface_in_use < 0) FAIL("no interface is open");
    return &open_interfaces[interface_in_use];
}

ptl_handle_ni_t ni(void) { return in_use()->handle; }
bool ni_is_logical(void) { return in_use()->options & PTL_NI_LOGICAL; }
bool ni_is_matching(void) { return in_use()->options & PTL_NI_MATCHING; }

void ni_use(ptl_handle_ni_t handle)
{
    for (int i = 0; i < interfaces_count; i++) {
        if (open_interfaces[i].handle != handle) continue;
        interface_in_use = i;
        return;
    }
    FAIL("interface 0x%x is not open", handle);
}

void ni_adopt(ptl_handle_ni_t handle, unsigned options, bool set_map)
{
    if (interfaces_count == INTERFACES_MAX) FAIL("too many interfaces for the suite");
    struct interface *interface = &open_interfaces[interfaces_count];
    ptl_process_t mine;
    OK(PtlGetPhysId(handle, &mine));
    exchange(&mine, sizeof mine, interface->physical);
    interface->handle = handle;
    interface->options = options;
    interface_in_use = interfaces_count++;
    if (set_map && (options & PTL_NI_LOGICAL)) {
        OK(PtlSetMap(handle, (ptl_size_t)ranks(), interface->physical));
        barrier(); /* no process sends before the target has the map */
    }
}

ptl_handle_ni_t ni_open(unsigned options, const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual)
{
    ptl_handle_ni_t handle;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, desired, actual, &handle));
    ni_adopt(handle, options, true);
    return handle;
}

ptl_handle_ni_t ni_matching(void) { return ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, NULL); }
ptl_handle_ni_t ni_nonmatching(void) { return ni_open(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, NULL, NULL); }

void ni_close(ptl_handle_ni_t handle)
{
    ni_use(handle);
    barrier();
    OK(PtlNIFini(handle));
    PtlFini();
    open_interfaces[interface_in_use] = open_interfaces[--interfaces_count];
    interface_in_use = interfaces_count - 1;
}

void ni_close_all(void)
{
    while (interfaces_count > 0) ni_close(open_interfaces[interfaces_count - 1].handle);
}

ptl_process_t peer_physical(int rank)
{
    if (rank < 0 || rank >= ranks()) FAIL("invalid rank %d", rank);
    return in_use()->physical[rank];
}

ptl_process_t peer(int rank)
{
    ptl_process_t process = peer_physical(rank);
    if (ni_is_logical()) {
        memset(&process, 0, sizeof process);
        process.rank = (ptl_rank_t)rank;
    }
    return process;
}

ptl_process_t any_process(void)
{
    ptl_process_t process;
    memset(&process, 0, sizeof process);
    if (ni_is_logical()) {
        process.rank = PTL_RANK_ANY;
    } else {
        process.phys.nid = PTL_NID_ANY;
        process.phys.pid = PTL_PID_ANY;
    }
    return process;
}

bool same_process(ptl_process_t a, ptl_process_t b)
{
    if (ni_is_logical()) return a.rank == b.rank;
    return a.phys.nid == b.phys.nid && a.phys.pid == b.phys.pid;
}

int rank_of(ptl_process_t process)
{
    for (int i = 0; i < ranks(); i++)
        if (same_process(process, peer(i))) return i;
    return -1;
}

ptl_ni_limits_t limits_default(void)
{
    ptl_ni_limits_t limits;
    memset(&limits, 0, sizeof limits);
    limits.max_entries = 1024;
    limits.max_unexpected_headers = 1024;
    limits.max_mds = 256;
    limits.max_cts = 256;
    limits.max_eqs = 64;
    limits.max_pt_index = 63;
    limits.max_iovecs = 64;
    limits.max_list_size = 1024;
    limits.max_triggered_ops = 256;
    limits.max_msg_size = 16 << 20;
    limits.max_atomic_size = 4096;
    limits.max_fetch_atomic_size = 4096;
    limits.max_waw_ordered_size = 64;
    limits.max_war_ordered_size = 8;
    limits.max_volatile_size = 64;
    limits.features = 0;
    return limits;
}

/* ---- Objects -------------------------------------------------------------------------------------------- */

ptl_handle_eq_t eq_new(size_t count)
{
    ptl_handle_eq_t eq;
    OK(PtlEQAlloc(ni(), count, &eq));
    return eq;
}

ptl_handle_ct_t ct_new(void)
{
    ptl_handle_ct_t ct;
    OK(PtlCTAlloc(ni(), &ct));
    return ct;
}

ptl_pt_index_t pt_new(ptl_handle_eq_t eq, unsigned options)
{
    ptl_pt_index_t index;
    OK(PtlPTAlloc(ni(), options, eq, PTL_PT_ANY, &index));
    return index;
}

ptl_pt_index_t pt_at(ptl_pt_index_t wanted, ptl_handle_eq_t eq, unsigned options)
{
    ptl_pt_index_t index;
    OK(PtlPTAlloc(ni(), options, eq, wanted, &index));
    CHECK_EQ(index, wanted);
    return index;
}

ptl_handle_md_t md_new(void *start, size_t bytes, unsigned options, ptl_handle_eq_t eq, ptl_handle_ct_t ct)
{
    ptl_md_t md = {.start = start, .length = bytes, .options = options, .eq_handle = eq, .ct_handle = ct};
    ptl_handle_md_t handle;
    OK(PtlMDBind(ni(), &md, &handle));
    return handle;
}

ptl_me_t me_over(void *start, size_t bytes, ptl_match_bits_t bits)
{
    ptl_me_t me;
    memset(&me, 0, sizeof me);
    me.start = start;
    me.length = bytes;
    me.ct_handle = PTL_CT_NONE;
    me.uid = PTL_UID_ANY;
    me.options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE;
    me.match_id = any_process();
    me.match_bits = bits;
    return me;
}

ptl_le_t le_over(void *start, size_t bytes)
{
    ptl_le_t le;
    memset(&le, 0, sizeof le);
    le.start = start;
    le.length = bytes;
    le.ct_handle = PTL_CT_NONE;
    le.uid = PTL_UID_ANY;
    le.options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE;
    return le;
}

ptl_handle_me_t me_append(ptl_pt_index_t pt, const ptl_me_t *me, ptl_list_t list, void *user_ptr)
{
    ptl_handle_me_t handle;
    OK(PtlMEAppend(ni(), pt, me, list, user_ptr, &handle));
    return handle;
}

ptl_handle_le_t le_append(ptl_pt_index_t pt, const ptl_le_t *le, ptl_list_t list, void *user_ptr)
{
    ptl_handle_le_t handle;
    OK(PtlLEAppend(ni(), pt, le, list, user_ptr, &handle));
    return handle;
}

void put(ptl_handle_md_t md, size_t bytes, int to, ptl_pt_index_t pt, ptl_match_bits_t bits, ptl_hdr_data_t hdr)
{
    OK(PtlPut(md, 0, bytes, PTL_ACK_REQ, peer(to), pt, bits, 0, NULL, hdr));
}

void get(ptl_handle_md_t md, size_t bytes, int from, ptl_pt_index_t pt, ptl_match_bits_t bits, size_t remote_offset)
{
    OK(PtlGet(md, 0, bytes, peer(from), pt, bits, remote_offset, NULL));
}

/* ---- Waiting -------------------------------------------------------------------------------------------- */

static int wait_default_ms(void)
{
    const char *set = getenv("CONFORMANCE_WAIT_MS");
    return set && atoi(set) > 0 ? atoi(set) : WAIT_DEFAULT_MS;
}

int wait_event_at(const char *file, int line, ptl_handle_eq_t eq, ptl_event_t *ev, int timeout_ms)
{
    unsigned which = 99;
    if (timeout_ms <= 0) timeout_ms = wait_default_ms();
    memset(ev, 0xee, sizeof *ev);
    int rc = PtlEQPoll(&eq, 1, (ptl_time_t)timeout_ms, ev, &which);
    if (rc == PTL_EQ_EMPTY) fail_at(file, line, "no event within %d ms", timeout_ms);
    if (rc != PTL_OK && rc != PTL_EQ_DROPPED) fail_at(file, line, "PtlEQPoll returned %d %s", rc, return_name(rc));
    if (which != 0) fail_at(file, line, "PtlEQPoll of one queue returned which = %u", which);
    return rc;
}

static _Noreturn void fail_of_event(const char *file, int line, const char *wanted, const ptl_event_t *ev)
{
    fail_at(file, line, "event %d %s with %s, wanted %s (mlength %llu rlength %llu bits 0x%llx hdr 0x%llx)", ev->type,
            event_name(ev->type), failure_name(ev->ni_fail_type), wanted, (unsigned long long)ev->mlength,
            (unsigned long long)ev->rlength, (unsigned long long)ev->match_bits, (unsigned long long)ev->hdr_data);
}

ptl_event_t expect_failure_at(const char *file, int line, ptl_handle_eq_t eq, ptl_event_kind_t kind,
                              ptl_ni_fail_t failure)
{
    ptl_event_t ev;
    char wanted[96];
    snprintf(wanted, sizeof wanted, "%s with %s", event_name(kind), failure_name(failure));
    if (wait_event_at(file, line, eq, &ev, 0) == PTL_EQ_DROPPED) fail_at(file, line, "events dropped before %s", wanted);
    if (ev.type != kind || ev.ni_fail_type != failure) fail_of_event(file, line, wanted, &ev);
    return ev;
}

ptl_event_t expect_send_ack_at(const char *file, int line, ptl_handle_eq_t eq, ptl_ni_fail_t failure)
{
    ptl_event_t events[2], *send = &events[0], *ack = &events[1];
    for (int i = 0; i < 2; i++)
        if (wait_event_at(file, line, eq, &events[i], 0) == PTL_EQ_DROPPED) fail_at(file, line, "events dropped");
    if (send->type == PTL_EVENT_ACK) { /* the specification leaves their order open */
        send = &events[1];
        ack = &events[0];
    }
    if (send->type != PTL_EVENT_SEND || send->ni_fail_type != PTL_NI_OK) fail_of_event(file, line, "a SEND", send);
    if (ack->type != PTL_EVENT_ACK || ack->ni_fail_type != failure) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "an ACK with %s", failure_name(failure));
        fail_of_event(file, line, wanted, ack);
    }
    return *ack;
}

void no_event_at(const char *file, int line, ptl_handle_eq_t eq, int ms)
{
    ptl_event_t ev;
    unsigned which;
    int rc = PtlEQPoll(&eq, 1, (ptl_time_t)ms, &ev, &which);
    if (rc == PTL_EQ_EMPTY) return;
    if (rc == PTL_OK || rc == PTL_EQ_DROPPED) fail_of_event(file, line, "none", &ev);
    fail_at(file, line, "PtlEQPoll returned %d %s", rc, return_name(rc));
}

ptl_ct_event_t wait_ct_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t n)
{
    ptl_ct_event_t value = {0, 0};
    unsigned which = 99;
    const long long give_up = now_ms() + wait_default_ms();
    for (long long left; (left = give_up - now_ms()) > 0;) {
        int rc = PtlCTPoll(&ct, &n, 1, (ptl_time_t)left, &value, &which);
        if (rc != PTL_OK && rc != PTL_CT_NONE_REACHED)
            fail_at(file, line, "PtlCTPoll returned %d %s", rc, return_name(rc));
        if (rc == PTL_OK && value.success + value.failure >= n) return value;
        nap_us(200); /* after a failure the call may return early: counters.c checks when it should */
    }
    PtlCTGet(ct, &value);
    fail_at(file, line, "counter stays at success %llu failure %llu, wanted a sum of %llu",
            (unsigned long long)value.success, (unsigned long long)value.failure, (unsigned long long)n);
}

void expect_ct_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t success, ptl_size_t failure)
{
    ptl_ct_event_t value = wait_ct_at(file, line, ct, success + failure);
    if (value.success != success || value.failure != failure)
        fail_at(file, line, "counter is success %llu failure %llu, wanted %llu and %llu",
                (unsigned long long)value.success, (unsigned long long)value.failure, (unsigned long long)success,
                (unsigned long long)failure);
}

/* ---- Memory and the rest -------------------------------------------------------------------------------- */

void *buffer(size_t bytes)
{
    if (buffers_count == BUFFERS_MAX) FAIL("too many buffers for the suite");
    size_t rounded = (bytes + BUFFER_ALIGN_BYTES - 1) / BUFFER_ALIGN_BYTES * BUFFER_ALIGN_BYTES;
    if (rounded == 0) rounded = BUFFER_ALIGN_BYTES;
    void *start = memory_is_shared() ? selvedge_alloc(rounded) : aligned_alloc(BUFFER_ALIGN_BYTES, rounded);
    if (start == NULL) FAIL("no %zu bytes of %s memory", rounded, memory_is_shared() ? "shared" : "ordinary");
    memset(start, 0, rounded);
    buffers[buffers_count++] = start;
    return start;
}

static void free_buffers(void)
{
    while (buffers_count > 0) {
        void *start = buffers[--buffers_count];
        if (memory_is_shared()) selvedge_free(start);
        else free(start);
    }
}

/* ---- The program ---------------------------------------------------------------------------------------- */

static int run_case(const struct test_case *c)
{
    int rc = selvedge_init();
    if (rc != 0) {
        fprintf(stderr, "selvedge_init returned %d\n", rc);
        return 2;
    }
    if (ranks() != c->ranks) FAIL("%s wants %d processes, has %d", c->name, c->ranks, ranks());
    c->body();
    ni_close_all();
    CHECK_EQ(selvedge_barrier(), 0); /* a rank whose check fails late still fails the case of the others */
    free_buffers();
    selvedge_finalize();
    return 0;
}

static void end_job(void) { selvedge_abort(1, NULL); }

const struct suite *the_suite(void)
{
    static const struct suite suite = {
        .ranks_max = RANKS_MAX, .run = run_case, .end_job = end_job, .value_name = value_name};
    return &suite;
}
