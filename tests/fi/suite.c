/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared part of the libfabric suite: processes, memory. suite_fabric.c has the objects that cases open. See suite.h for
 * the contract.
 *
 * Invariants
 * 1. The processes of a case are forked before the first call of libfabric. They end with the process that forked them, and
 *    all of them end when one fails. In virtual time they are the ranks of the simulated job instead, because a forked
 *    process would have a real clock; then a file holds their shared state. With FI_TEST_EXEC each process executes the
 *    program again, because others cannot map the memory of a process that was only forked.
 * 2. A process that fails prints its message before it ends. A process that hangs prints its place, and ends, after CASE_S.
 */
#define _GNU_SOURCE /* memfd_create, RTLD_NEXT */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIVEN_MAX = 32768, EXCHANGE_BYTES = 4096, POLLS_BEFORE_NAP = 64 };

struct given {
    void *block; /* with its guards */
    size_t bytes;
};

struct common {
    atomic_int parties, arrived, generation, resetting;
    atomic_int dying[RANKS_MAX]; /* 1: the process will die; 2: and another replaces it */
    atomic_int pid[RANKS_MAX];
    unsigned char exchanged[RANKS_MAX][EXCHANGE_BYTES];
    _Alignas(64) unsigned char shared[SHARED_BYTES];
};

static struct given given[GIVEN_MAX];
static int given_count;
static struct common *common;
static int common_fd = -1; /* the file of that memory, where processes execute the program again */
static int my_rank, ranks_count = 1, my_life;

/* ---- Start ------------------------------------------------------------------------------------------------------- */

/*
 * The C library's fopen, but with the list of kernel symbols missing. The verbs provider of libfabric reads that list when
 * a program starts, to look for dmabuf support. This takes longer than most cases, and none concerns verbs.
 */
FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);
    if (strcmp(path, "/proc/kallsyms") == 0) {
        errno = ENOENT;
        return NULL;
    }
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return next(path, mode);
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

const char *provider(void)
{
    const char *name = getenv("FI_TEST_PROVIDER");
    return name != NULL && name[0] != '\0' ? name : "selvedge";
}

bool plainly(void) { return getenv("FI_TEST_PLAINLY") != NULL; }

bool is_ours(void) { return strcmp(provider(), "selvedge") == 0; }

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
    if (getenv("FI_TEST_COMMON") != NULL && !replaced) {
        /* A simulated job ends with the first rank whose status is not 0. This one also leaves everything open. */
        atomic_fetch_sub(&common->parties, 1);
        _exit(0);
    }
    kill_rank(my_rank, replaced);
    for (;;) pause();
}

void kill_rank(int victim, bool replaced)
{
    atomic_store(&common->dying[victim], replaced ? 2 : 1);
    if (kill(atomic_load(&common->pid[victim]), SIGKILL) != 0) FAIL("kill: %s", strerror(errno));
}

void await_end_of(int victim)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)atomic_load(&common->pid[victim]));
    for (;;) {
        FILE *file = fopen(path, "r");
        bool is_there = file != NULL && fgets(line, sizeof line, file) != NULL;
        if (file != NULL) fclose(file);
        /* The state follows the name, which is in parentheses. */
        const char *state = is_there ? strrchr(line, ')') : NULL;
        if (state == NULL || state[2] == 'Z' || state[2] == 'X') return;
        nap_us(1000);
    }
}

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

void *buffer(size_t bytes)
{
    if (given_count == GIVEN_MAX) FAIL("too many buffers for the suite");
    void *block = aligned_alloc(BLOCK_ALIGN_BYTES, guarded_bytes(bytes));
    if (block == NULL) FAIL("no %zu bytes of memory", bytes);
    given[given_count++] = (struct given){block, bytes};
    return guard_block(block, bytes);
}

static void check_buffers(void)
{
    about("%s", "");
    while (given_count > 0) {
        const struct given *g = &given[--given_count];
        check_block(g->block, g->bytes);
        free(g->block);
    }
}

void sleep_ms(int ms) { nap_us(ms * 1000L); }

/* ---- The program ------------------------------------------------------------------------------------------------- */

static void on_alarm(int signal_number)
{
    (void)signal_number;
    char line[512];
    int bytes = snprintf(line, sizeof line, "rank %d, %s: the case did not end within %d s\n", my_rank, what_is_tried(),
                         CASE_S);
    if (bytes > 0 && write(STDERR_FILENO, line, (size_t)bytes) < 0) _exit(1);
    _exit(1);
}

/* Alarms of simulated ranks take virtual time, of which cases that look in vain use minutes. */
static void limit_time(void)
{
    signal(SIGALRM, on_alarm);
    alarm(getenv("SELVEDGE_SIM") ? 100 * CASE_S : CASE_S);
}

static void run_body(void (*body)(void))
{
    limit_time();
    body();
    about("at the end");
    if (ranks_count > 1) barrier(); /* other processes may still need the endpoints of this one */
    fabric_close_all();
    check_buffers();
}

void child_run(void (*body)(void))
{
    fabric_forget_all(); /* they are the parent's */
    limit_time();
    body();
    fabric_close_all();
    _exit(0);
}

/* Executes the program again, as one of the job's processes. */
static void run_anew(const struct test_case *c, int new_rank, int new_life)
{
    char who[64];
    snprintf(who, sizeof who, "%d %d %d", new_rank, new_life, common_fd);
    setenv("FI_TEST_RANK", who, 1);
    execl("/proc/self/exe", c->name, c->name, (char *)NULL);
    FAIL("exec: %s", strerror(errno));
}

static int run_started(const struct test_case *c, const char *who)
{
    if (sscanf(who, "%d %d %d", &my_rank, &my_life, &common_fd) != 3) FAIL("FI_TEST_RANK=%s", who);
    unsetenv("FI_TEST_RANK");
    ranks_count = c->ranks;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED, common_fd, 0);
    if (common == MAP_FAILED) FAIL("mmap: %s", strerror(errno));
    close(common_fd);
    atomic_store(&common->pid[my_rank], getpid());
    run_body(c->body);
    return 0;
}

/* With FI_TEST_APART each process acts as on its own host: its jobs' directories are below this one. */
static char apart[64];

static void make_apart(void)
{
    strcpy(apart, "/dev/shm/selvedge-apart-XXXXXX");
    if (mkdtemp(apart) == NULL) FAIL("%s: %s", apart, strerror(errno));
    setenv("SELVEDGE_NET", "on", 1);
    setenv("SELVEDGE_NET_INTERFACE", "lo", 1);
}

static void go_apart(int new_rank)
{
    char directory[80];
    snprintf(directory, sizeof directory, "%s/%d", apart, new_rank);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) FAIL("%s: %s", directory, strerror(errno));
    setenv("SELVEDGE_DIR", directory, 1);
}

static void remove_apart(void)
{
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", apart);
    if (system(command) != 0) fprintf(stderr, "%s stays\n", apart);
}

static void start(const struct test_case *c, int new_rank, int new_life)
{
    pid_t pid = fork();
    if (pid < 0) FAIL("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (apart[0] != '\0') go_apart(new_rank);
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

/* True for a death that the case requested. Otherwise the status of the process is that of the case. */
static bool has_died(const struct test_case *c, int dead, int status)
{
    int how = dead >= 0 ? atomic_exchange(&common->dying[dead], 0) : 0;
    if (how == 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return false;
    if (how == 2) start(c, dead, 1);
    else atomic_fetch_sub(&common->parties, 1);
    return true;
}

static int run_job(const struct test_case *c)
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

/* Runs one rank of a job that the launcher started, with one rank for each process of the case. */
static int run_rank(const struct test_case *c, const char *file)
{
    const char *number = getenv("SELVEDGE_RANK"), *size = getenv("SELVEDGE_SIZE");
    my_rank = number != NULL ? atoi(number) : 0;
    ranks_count = c->ranks;
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

static int run_case(const struct test_case *c)
{
    if (c->extra.needs != NULL && !is_ours()) skip("only with our provider");
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
    ranks_count = c->ranks;
    atomic_store(&common->parties, ranks_count);
    if (ranks_count > 1 && getenv("FI_TEST_APART") != NULL) {
        make_apart();
        int status = run_job(c);
        remove_apart();
        return status;
    }
    if (ranks_count > 1) return run_job(c);
    run_body(c->body);
    return 0;
}

/* libfabric loads only this provider: the others are slow to find that their hardware is missing. */
__attribute__((constructor)) static void load_one_provider(void)
{
    char only[64];
    snprintf(only, sizeof only, "%s", provider());
    for (char *at = only; *at != '\0'; at++)
        if (*at == ';') *at = ',';
    if (getenv("FI_TEST_APART") != NULL) strcat(only, ",tcp,ofi_rxm"); /* which carry the links */
    setenv("FI_PROVIDER", only, 0);
}

const struct suite *the_suite(void)
{
    static struct suite suite = {.ranks_max = RANKS_MAX, .run = run_case};
    suite.may_skip = !is_ours();
    return &suite;
}
