/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The harness of the libfabric suite: main(), the table of cases, checks, processes, memory. What cases open is in
 * harness_fabric.c. See harness.h for the contract.
 *
 * Invariants
 * 1. The processes of a case are forked before the first call of libfabric; they end with the one that forked them, and
 *    with each other when one fails. In virtual time they are the ranks of the simulated job: forked ones would have real
 *    clocks; and what they share is a file. With FI_TEST_EXEC each runs the program anew: a forked process's memory is not
 *    in place for others where its program's is.
 * 2. A process that fails has printed its message before it ends. One that hangs says where, and ends, after CASE_S.
 */
#define _GNU_SOURCE /* memfd_create */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
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
static struct given given[GIVEN_MAX];
static int given_count;
static struct common *common;
static int common_fd = -1; /* what it lies in, where processes run the program anew */
static int my_rank, ranks_count = 1, my_life;
static _Thread_local char subject[256];

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

const char *provider(void)
{
    const char *name = getenv("FI_TEST_PROVIDER");
    return name != NULL && name[0] != '\0' ? name : "selvedge";
}

bool plainly(void) { return getenv("FI_TEST_PLAINLY") != NULL; }

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

static const char *error_name(long long rc) { return rc < 0 && rc > -1000 ? fi_strerror((int)-rc) : "no error"; }

void check_rc_at(const char *file, int line, const char *call, long long found, const char *wanted_text,
                 long long wanted)
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

/* ---- The processes of a case ------------------------------------------------------------------------------------- */

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

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

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
            if (g->start[k] != GUARD_BYTE)
                FAIL("%zu bytes before a buffer of %zu were written", GUARD_BYTES - k, g->bytes);
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

/* ---- The program ------------------------------------------------------------------------------------------------- */

void case_register(const char *name, int processes, const char *rule, void (*body)(void), struct case_extra extra)
{
    if (cases_count == CASES_MAX || processes < 1 || processes > RANKS_MAX) abort();
    cases[cases_count++] = (struct fi_case){name, rule, body, processes, extra};
}

static void list_cases(void)
{
    for (int i = 0; i < cases_count; i++)
        printf("%s\t%d\t%s\t%s\t%s\n", cases[i].name, cases[i].processes, cases[i].extra.ours ? "ours" : "any",
               cases[i].extra.stock != NULL ? cases[i].extra.stock : "", cases[i].rule);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    char line[512];
    int bytes = snprintf(line, sizeof line, "rank %d, %s: the case did not end within %d s\n", my_rank, subject,
                         CASE_S);
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
    harness_close_all();
    check_buffers();
}

void child_run(void (*body)(void))
{
    harness_forget_all(); /* they are the parent's */
    signal(SIGALRM, on_alarm);
    alarm(CASE_S);
    body();
    harness_close_all();
    _exit(0);
}

/* The program again, as one of the job's processes. */
static void run_anew(const struct fi_case *c, int new_rank, int new_life)
{
    char who[64];
    snprintf(who, sizeof who, "%d %d %d", new_rank, new_life, common_fd);
    setenv("FI_TEST_RANK", who, 1);
    execl("/proc/self/exe", c->name, c->name, (char *)NULL);
    FAIL("exec: %s", strerror(errno));
}

static int run_started(const struct fi_case *c, const char *who)
{
    if (sscanf(who, "%d %d %d", &my_rank, &my_life, &common_fd) != 3) FAIL("FI_TEST_RANK=%s", who);
    unsetenv("FI_TEST_RANK");
    ranks_count = c->processes;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED, common_fd, 0);
    if (common == MAP_FAILED) FAIL("mmap: %s", strerror(errno));
    close(common_fd);
    atomic_store(&common->pid[my_rank], getpid());
    run_body(c->body);
    return 0;
}

static void start(const struct fi_case *c, int new_rank, int new_life)
{
    pid_t pid = fork();
    if (pid < 0) FAIL("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (common_fd >= 0) run_anew(c, new_rank, new_life);
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
    if (how == 2) start(c, dead, 1);
    else atomic_fetch_sub(&common->parties, 1);
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
        if (WIFSIGNALED(status) && worst == 0)
            fprintf(stderr, "rank %d: killed by signal %d\n", ended, WTERMSIG(status));
        if (ended >= 0) atomic_store(&common->pid[ended], 0);
        if (code == 0 || worst != 0) continue;
        worst = code;
        for (int r = 0; r < ranks_count; r++)
            if (atomic_load(&common->pid[r]) != 0) kill(atomic_load(&common->pid[r]), SIGKILL);
    }
    return worst;
}

/* One rank of a job that was started with as many as the case has processes. */
static int run_rank(const struct fi_case *c, const char *file)
{
    const char *number = getenv("SELVEDGE_RANK"), *size = getenv("SELVEDGE_SIZE");
    my_rank = number != NULL ? atoi(number) : 0;
    ranks_count = c->processes;
    if (size == NULL || atoi(size) != ranks_count) FAIL("%s wants %d ranks", c->name, ranks_count);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof *common) != 0) FAIL("%s: %s", file, strerror(errno));
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (common == MAP_FAILED) FAIL("%s: %s", file, strerror(errno));
    close(fd);
    atomic_store(&common->parties, ranks_count);
    atomic_store(&common->pid[my_rank], getpid());
    run_body(c->body);
    return 0;
}

static int run_case(const struct fi_case *c)
{
    if (c->extra.ours && !is_ours()) skip("only with our provider");
    const char *file = getenv("FI_TEST_COMMON");
    if (file != NULL) return run_rank(c, file);
    const char *who = getenv("FI_TEST_RANK");
    if (who != NULL) return run_started(c, who);
    if (getenv("FI_TEST_EXEC") != NULL) {
        common_fd = memfd_create("common", 0);
        if (common_fd < 0 || ftruncate(common_fd, sizeof *common) != 0) FAIL("memfd: %s", strerror(errno));
    }
    int flags = MAP_SHARED | (common_fd < 0 ? MAP_ANONYMOUS : 0);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, flags, common_fd, 0);
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
