/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The header of the libfabric suite, in addition to check.h.
 *
 * `program NAME` runs the case: in this process, or in the number that it wants, forked before libfabric is called. With
 * FI_TEST_COMMON, which names an empty file, it runs one rank of a job that a launcher started.
 *
 * A case may name these members of `struct case_extra` after its rule:
 *
 *     CASE(never_drops, 1, "...", .needs = OUR_PROVIDER)       only our provider promises this; omitted elsewhere
 *     CASE(reads_back, 1, "...", .stock = "shm: why not | sockets: why not")
 *                                                              the stock providers of libfabric 1.17 that do not do it
 *
 * FI_TEST_PROVIDER names the provider; the default is `selvedge`. Runs over stock providers ("tcp;ofi_rxm", "sockets",
 * "shm") check the suite itself. `.stock` lists their deviations, and the case stays as strict as the manual.
 *
 * With FI_TEST_PLAINLY a case that requests no threading uses its domain from one thread (FI_THREAD_DOMAIN), and reads
 * completions without their sources, as MPI libraries do.
 *
 * Rules for cases
 * 1. A case opens its objects with side_open(), pair_open() and job_open(). When the body returns, the suite closes them,
 *    and a close that fails fails the case. It checks the guards of memory from buffer(), and frees it.
 * 2. A failed check in any process ends all processes of the case with an exit status that is not 0.
 * 3. Every wait has a limit, and polls all endpoints of this process meanwhile. A plain sleep does not: where progress is
 *    manual, nothing arrives during it.
 * 4. skip() is for features that a stock provider lacks. With our provider it is a failure.
 */
#ifndef FI_TESTS_SUITE_H
#define FI_TESTS_SUITE_H

#include "check.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

enum { RANKS_MAX = 16, ADDRESS_BYTES_MAX = 256, WAIT_MS = 60000, CASE_S = 200 };

#define OUR_PROVIDER "selvedge"

bool plainly(void);
bool is_ours(void);
const char *provider(void);

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* Prints return codes with fi_strerror(). */
void check_rc_at(const char *file, int line, const char *call, long long found, const char *wanted_text,
                 long long wanted);
void check_negative_at(const char *file, int line, const char *call, long long found);
void check_flags_at(const char *file, int line, const char *text, uint64_t found, uint64_t wanted, uint64_t unwanted);

#define CHECK_RC(call, wanted) check_rc_at(__FILE__, __LINE__, #call, (call), #wanted, wanted)
#define OK(call) check_rc_at(__FILE__, __LINE__, #call, (call), "0", 0)
/* Checks that the call fails, with any error: the manual names none. */
#define REFUSED(call) check_negative_at(__FILE__, __LINE__, #call, (call))
/* Checks that the flags include all of `wanted` and none of `unwanted`. */
#define CHECK_FLAGS(found, wanted, unwanted) check_flags_at(__FILE__, __LINE__, #found, found, wanted, unwanted)

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

enum { MR_ANY = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY };

/* Request to side_open(). A zero member means the value in its comment. */
struct wants {
    uint64_t caps;      /* FI_MSG | FI_TAGGED */
    uint32_t version;   /* 1.17 */
    uint64_t mode;      /* none */
    bool mr_mode_exact; /* ask for exactly mr_mode, not for MR_ANY */
    int mr_mode;
    enum fi_av_type av_type;     /* FI_AV_TABLE */
    enum fi_threading threading; /* unspecified */
    enum fi_progress progress;   /* unspecified */
    uint64_t order;              /* of messages, both sides */
    uint64_t tx_op_flags, rx_op_flags;
    enum fi_cq_format format;  /* FI_CQ_FORMAT_TAGGED */
    enum fi_wait_obj wait_obj; /* FI_WAIT_UNSPEC is 1: FI_WAIT_NONE */
    size_t cq_size;            /* the provider's */
    uint64_t bind_tx, bind_rx; /* flags beside FI_TRANSMIT and FI_RECV: FI_SELECTIVE_COMPLETION */
    bool disabled;             /* the case binds more objects, and calls side_enable() */
    bool events;               /* bind an event queue */
    struct side *beside;       /* use its domain */
};

/* An endpoint and its objects; tx and rx are two queues. */
struct side {
    struct wants wants;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *tx, *rx;
    struct fid_eq *eq; /* NULL without `events` */
    struct fid_ep *ep;
    bool enabled;
    unsigned char address[ADDRESS_BYTES_MAX];
    size_t address_bytes;
};

/* Two endpoints of this process; each one's vector has the other's address. */
struct pair {
    struct side *a, *b;
    fi_addr_t to_a, to_b; /* of a in b's vector, of b in a's */
};

uint32_t api_version(void);
/* Makes hints for these wants; the caller frees them with fi_freeinfo(). */
struct fi_info *hints_for(struct wants wants);
/* Calls fi_getinfo() with these wants; NULL if it is -FI_ENODATA. Any other error fails the case. */
struct fi_info *info_for(struct wants wants);
struct fi_info *info_for_hints(uint32_t version, const struct fi_info *hints);

struct side *side_open(struct wants wants);
void side_enable(struct side *side);
/* Closes the objects of side_open(), its regions first, in the manual's order. */
void side_close(struct side *side);
fi_addr_t side_insert(struct side *side, const struct side *other);
fi_addr_t address_insert(struct side *side, const void *address);
struct pair pair_open(struct wants wants);        /* two domains */
struct pair pair_open_beside(struct wants wants); /* one domain */
/* Opens one endpoint in each process of the case. Every vector has all addresses, in the order of ranks; the address of
 * rank r is to(r). Collective. */
struct side *job_open(struct wants wants);
fi_addr_t to(int rank);

struct fid_cntr *counter_open(struct side *side, enum fi_wait_obj wait_obj);
/* progress() reads this queue too, and the suite closes it after the case. */
void adopt_cq(struct fid_cq *cq);

struct region {
    struct fid_mr *mr;
    void *start;
    size_t bytes;
    uint64_t base; /* a peer adds offsets to this */
    uint64_t key;
};

struct region region_over(struct side *side, void *start, size_t bytes, uint64_t access);
struct region region_flagged(struct side *side, void *start, size_t bytes, uint64_t access, uint64_t flags);
void region_close(struct region *region);
uint64_t next_key(void);
#define ACCESS_ALL (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* ---- Completions ------------------------------------------------------------------------------------------------- */

/* One entry of a queue of any format; members that the format lacks are zero. */
struct completion {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data;
    uint64_t tag;
    fi_addr_t source;
};

/* Reads all queues and counters that this process has open, without taking completions. */
void progress(void);
/* Takes a pending completion; false if the queue is empty. An error entry fails the case. */
bool take_at(const char *file, int line, struct side *side, struct fid_cq *cq, struct completion *taken);
struct completion wait_at(const char *file, int line, struct side *side, struct fid_cq *cq);
struct fi_cq_err_entry wait_error_at(const char *file, int line, struct fid_cq *cq);
void none_at(const char *file, int line, struct fid_cq *cq, int ms);

#define TAKE(side, cq, taken) take_at(__FILE__, __LINE__, side, cq, taken)
#define WAIT_TX(side) wait_at(__FILE__, __LINE__, side, (side)->tx)
#define WAIT_RX(side) wait_at(__FILE__, __LINE__, side, (side)->rx)
/* Waits for the next entry of the queue, which must be an error. */
#define WAIT_ERROR(cq) wait_error_at(__FILE__, __LINE__, cq)
/* Checks that no entry arrives within this many milliseconds, while progress() runs. */
#define CHECK_NONE(cq, ms) none_at(__FILE__, __LINE__, cq, ms)

/* Repeats the call while it is -FI_EAGAIN, with progress; then it must be 0. */
#define POST(call)                                                                                                     \
    do {                                                                                                               \
        long long until_ = now_ms() + WAIT_MS;                                                                         \
        ssize_t rc_;                                                                                                   \
        while ((rc_ = (call)) == -FI_EAGAIN && now_ms() < until_) progress();                                          \
        check_rc_at(__FILE__, __LINE__, #call, rc_, "0", 0);                                                           \
    } while (0)
/* Repeats the call while it is -FI_EAGAIN, with progress; then it must be another error. */
#define POST_REFUSED(call)                                                                                             \
    do {                                                                                                               \
        long long until_ = now_ms() + WAIT_MS;                                                                         \
        ssize_t rc_;                                                                                                   \
        while ((rc_ = (call)) == -FI_EAGAIN && now_ms() < until_) progress();                                          \
        check_negative_at(__FILE__, __LINE__, #call, rc_);                                                             \
    } while (0)
/* Waits until the expression holds, with progress. */
#define UNTIL(expr)                                                                                                    \
    do {                                                                                                               \
        long long until_ = now_ms() + WAIT_MS;                                                                         \
        while (!(expr)) {                                                                                              \
            if (now_ms() > until_) fail_at(__FILE__, __LINE__, "not so after %d ms: %s", WAIT_MS, #expr);              \
            progress();                                                                                                \
        }                                                                                                              \
    } while (0)
/* Checks that the counter reaches exactly `value`, and does not change a moment later. */
#define CHECK_COUNTER(cntr, value) check_counter_at(__FILE__, __LINE__, #cntr, cntr, value, 0)
#define CHECK_COUNTER_ERRORS(cntr, value) check_counter_at(__FILE__, __LINE__, #cntr, cntr, value, 1)
void check_counter_at(const char *file, int line, const char *text, struct fid_cntr *cntr, uint64_t value, int errors);

/* ---- The processes of a case ------------------------------------------------------------------------------------- */

/* A barrier that calls nothing of libfabric, whereas barrier() reads all open queues and counters. */
void barrier_asleep(void);
/* All-gathers `bytes` of every process: all[r * bytes] is from rank r. Collective, at most 4096 bytes. */
void exchange(const void *mine, size_t bytes, void *all);
/* Memory shared by all processes of the case, zero at first. */
enum { SHARED_BYTES = 1 << 22 };
void *shared(void);
/* Send SIGKILL to this process, or to the process of `rank`. In virtual time die_now(false) is an exit that closes
 * nothing. barrier() no longer waits for a dead process. If `replaced`, another process starts the body again in its
 * place, with life() one higher. */
_Noreturn void die_now(bool replaced);
void kill_rank(int rank, bool replaced);
void await_end_of(int rank); /* returns when a killed process has ended */
int life(void);
/* Called in a process that a case forks itself: runs `body`, and exits with 0 or with a failed check. */
void child_run(void (*body)(void));

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

/* Allocates zeroed memory, aligned to 64 bytes, between guards. */
void *buffer(size_t bytes);

void fabric_close_all(void);
void fabric_forget_all(void);

#endif
