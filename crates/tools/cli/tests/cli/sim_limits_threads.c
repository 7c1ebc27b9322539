/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Waits with a limit in a rank with several threads: a wake-up by another thread before the limit wins, at the virtual
 * time at which it comes; without one the limit passes, whatever the other threads wait for. Prints each case that is
 * wrong; the exit status is their number. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <shmem.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "sim_limits.h"

/* Within 100 us: other threads read the clock meanwhile. */
static void check(const char *name, double wanted_s, int is_right)
{
    check_within(name, wanted_s, 1e-4, is_right);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static mtx_t c11;
static cnd_t condition11;
static sem_t semaphore, forever;
static int ends[2], word, flag;
static pthread_t main_thread;
static volatile sig_atomic_t handled;

/* What the other thread does after 0.5 s. */
static void *signals(void *unused)
{
    usleep(500000);
    pthread_mutex_lock(&mutex);
    flag = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *broadcasts(void *unused)
{
    usleep(500000);
    pthread_mutex_lock(&mutex);
    flag = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *signals_c11(void *unused)
{
    usleep(500000);
    mtx_lock(&c11);
    flag = 1;
    cnd_signal(&condition11);
    mtx_unlock(&c11);
    return unused;
}
static void *posts(void *unused) { return usleep(500000), sem_post(&semaphore), unused; }
static void *writes(void *unused)
{
    usleep(500000);
    if (write(ends[1], "x", 1) != 1)
        exit(99);
    return unused;
}
static void *wakes(void *unused)
{
    usleep(500000);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return unused;
}
static void *wakes_only(void *unused)
{
    usleep(500000);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return unused;
}
static void *holds_mutex(void *unused)
{
    pthread_mutex_lock(&mutex);
    sem_post(&semaphore);
    usleep(500000);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *holds_lock(void *unused)
{
    pthread_rwlock_wrlock(&lock);
    sem_post(&semaphore);
    usleep(500000);
    pthread_rwlock_unlock(&lock);
    return unused;
}
static void *holds_c11(void *unused)
{
    mtx_lock(&c11);
    sem_post(&semaphore);
    usleep(500000);
    mtx_unlock(&c11);
    return unused;
}
static void *kills(void *unused) { return usleep(500000), pthread_kill(main_thread, SIGUSR1), unused; }
static void *sleeps(void *unused) { return usleep(500000), unused; }
static void *waits_for_ever(void *unused) { return sem_wait(&forever), unused; }
static void *polls_for_ever(void *unused)
{
    int never[2];
    if (pipe(never) != 0)
        exit(99);
    poll(&(struct pollfd){.fd = never[0], .events = POLLIN}, 1, -1);
    return unused;
}

static pthread_t start(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0)
        exit(99);
    return thread;
}

static void on_signal(int signal) { (void)signal, handled++; }

static const struct timespec two = {2, 0};

static void wake_ups(void)
{
    struct timespec t;
    pthread_t other;
    int result = 0;
    flag = 0, other = start(signals), began = now();
    pthread_mutex_lock(&mutex), t = in(CLOCK_REALTIME, 2);
    while (!flag && result == 0)
        result = pthread_cond_timedwait(&condition, &mutex, &t);
    pthread_mutex_unlock(&mutex);
    check("pthread_cond_timedwait, signalled", .5, result == 0), pthread_join(other, NULL);

    flag = 0, result = 0, other = start(broadcasts), began = now();
    pthread_mutex_lock(&mutex), t = in(CLOCK_MONOTONIC, 2);
    while (!flag && result == 0)
        result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &t);
    pthread_mutex_unlock(&mutex);
    check("pthread_cond_clockwait, broadcast", .5, result == 0), pthread_join(other, NULL);

    mtx_init(&c11, mtx_timed), cnd_init(&condition11);
    flag = 0, result = thrd_success, other = start(signals_c11), began = now();
    mtx_lock(&c11), t = in(CLOCK_REALTIME, 2);
    while (!flag && result == thrd_success)
        result = cnd_timedwait(&condition11, &c11, &t);
    mtx_unlock(&c11);
    check("cnd_timedwait, signalled", .5, result == thrd_success), pthread_join(other, NULL);

    sem_init(&semaphore, 0, 0), other = start(posts), began = now(), t = in(CLOCK_REALTIME, 2);
    check("sem_timedwait, posted", .5, sem_timedwait(&semaphore, &t) == 0), pthread_join(other, NULL);
    other = start(posts), began = now(), t = in(CLOCK_MONOTONIC, 2);
    check("sem_clockwait, posted", .5, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t) == 0), pthread_join(other, NULL);

    struct pollfd polled = {.events = POLLIN};
    char byte;
    if (pipe(ends) != 0)
        exit(99);
    polled.fd = ends[0];
    other = start(writes), began = now();
    check("poll, written", .5, poll(&polled, 1, 2000) == 1), pthread_join(other, NULL);
    result = (int)read(ends[0], &byte, 1), other = start(writes), began = now();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    check("select, written", .5, select(ends[0] + 1, &set, NULL, NULL, &(struct timeval){2, 0}) == 1 && FD_ISSET(ends[0], &set));
    pthread_join(other, NULL), result = (int)read(ends[0], &byte, 1);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, got;
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    other = start(writes), began = now();
    check("epoll_wait, written", .5, epoll_wait(epoll, &got, 1, 2000) == 1), pthread_join(other, NULL);
    result = (int)read(ends[0], &byte, 1), other = start(writes), began = now();
    check("epoll_wait without limit, written", .5, epoll_wait(epoll, &got, 1, -1) == 1), pthread_join(other, NULL);
    close(epoll), close(ends[0]), close(ends[1]);

    word = 0, other = start(wakes), began = now();
    check("futex, woken", .5, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &two, NULL, 0) == 0 || errno == EAGAIN), pthread_join(other, NULL);
    word = 0, other = start(wakes_only), began = now();
    check("futex, woken with the same value", .5, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &two, NULL, 0) == 0), pthread_join(other, NULL);

    other = start(holds_mutex), sem_wait(&semaphore), began = now(), t = in(CLOCK_REALTIME, 2);
    check("pthread_mutex_timedlock, unlocked", .5, pthread_mutex_timedlock(&mutex, &t) == 0), pthread_mutex_unlock(&mutex), pthread_join(other, NULL);
    other = start(holds_lock), sem_wait(&semaphore), began = now(), t = in(CLOCK_REALTIME, 2);
    check("pthread_rwlock_timedrdlock, unlocked", .5, pthread_rwlock_timedrdlock(&lock, &t) == 0), pthread_rwlock_unlock(&lock), pthread_join(other, NULL);
    other = start(holds_lock), sem_wait(&semaphore), began = now(), t = in(CLOCK_MONOTONIC, .2);
    check("pthread_rwlock_clockrdlock", .2, pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &t) == ETIMEDOUT), pthread_join(other, NULL);
    other = start(holds_c11), sem_wait(&semaphore), began = now(), t = in(CLOCK_REALTIME, 2);
    check("mtx_timedlock, unlocked", .5, mtx_timedlock(&c11, &t) == thrd_success), mtx_unlock(&c11), pthread_join(other, NULL);

    other = start(sleeps), began = now(), t = in(CLOCK_REALTIME, .2);
    check("pthread_timedjoin_np", .2, pthread_timedjoin_np(other, NULL, &t) == ETIMEDOUT);
    t = in(CLOCK_REALTIME, 2);
    check("pthread_timedjoin_np, ended", .3, pthread_timedjoin_np(other, NULL, &t) == 0);

    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    main_thread = pthread_self(), other = start(kills), began = now();
    check("nanosleep, interrupted by a thread", .5, nanosleep(&two, NULL) == -1 && errno == EINTR && handled == 1), pthread_join(other, NULL);
    other = start(kills), began = now();
    check("poll, interrupted by a thread", .5, poll(NULL, 0, 2000) == -1 && errno == EINTR && handled == 2), pthread_join(other, NULL);
    sigset_t usr;
    sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr, NULL);
    other = start(kills), began = now();
    check("sigtimedwait, sent by a thread", .5, sigtimedwait(&usr, NULL, &two) == SIGUSR1), pthread_join(other, NULL);
    pthread_sigmask(SIG_UNBLOCK, &usr, NULL);
}

static void *waits_for_broadcast(void *unused)
{
    int result = 0;
    struct timespec t = in(CLOCK_MONOTONIC, 5);
    pthread_mutex_lock(&mutex);
    while (!flag && result == 0)
        result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &t);
    pthread_mutex_unlock(&mutex);
    return result == 0 ? unused : &flag;
}

/* Many threads: the simulator looks at each of them before time passes. */
static void crowd(void)
{
    enum { THREADS = 150 };
    pthread_t threads[THREADS];
    int late = 0;
    flag = 0, began = now();
    for (int at = 0; at < THREADS; at++)
        threads[at] = start(waits_for_broadcast);
    broadcasts(NULL);
    for (int at = 0; at < THREADS; at++) {
        void *result = NULL;
        pthread_join(threads[at], &result);
        late += result != NULL;
    }
    check("a crowd, woken", .5, late == 0);
}

static volatile int functions;
static void on_timer(union sigval value) { functions += value.sival_int; }
static volatile sig_atomic_t alarms;
static void on_alarm(int signal) { (void)signal, alarms++; }

/* All others wait without limits. */
static void limits(void)
{
    struct timespec t;
    sem_init(&forever, 0, 0);
    start(waits_for_ever), start(polls_for_ever);
    usleep(1000);
    began = now(), t = in(CLOCK_REALTIME, .2);
    pthread_mutex_lock(&mutex);
    check("pthread_cond_timedwait", .2, pthread_cond_timedwait(&condition, &mutex, &t) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    t = in(CLOCK_MONOTONIC, .2);
    check("sem_clockwait", .2, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t) == -1 && errno == ETIMEDOUT);
    check("poll", .2, poll(NULL, 0, 200) == 0);
    check("epoll_wait", .2, epoll_wait(epoll_create1(0), &(struct epoll_event){0}, 1, 200) == 0);
    word = 0;
    check("futex", .2, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){0, 200000000}, NULL, 0) == -1 && errno == ETIMEDOUT);

    /* Timers of a rank with several threads. */
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 100000}, {0, 100000}}, NULL);
    began = now();
    while (alarms < 5)
        poll(NULL, 0, 10000);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    check("setitimer", .5, alarms == 5);
    int file = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t count = 0;
    timerfd_settime(file, 0, &(struct itimerspec){{0, 0}, {0, 300000000}}, NULL);
    check("timerfd, read", .3, read(file, &count, 8) == 8 && count == 1);
    timerfd_settime(file, 0, &(struct itimerspec){{0, 0}, {0, 300000000}}, NULL);
    check("timerfd, poll without limit", .3, poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, -1) == 1);
    close(file);

    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 1, .sigev_notify_function = on_timer};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &(struct itimerspec){{0, 100000000}, {0, 100000000}}, NULL);
    began = now();
    usleep(550000);
    timer_delete(timer);
    check("a timer with a function", .55, functions == 5);
    event = (struct sigevent){.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    event._sigev_un._tid = gettid();
    alarms = 0;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 100000000}}, NULL);
    check("a timer of this thread", .1, nanosleep(&two, NULL) == -1 && errno == EINTR && alarms == 1);
    timer_delete(timer);
}

/* A cancelled thread ends at once, wherever it waits, and runs its handlers; with the mutex behind a condition. */
static int cleaned;
static void clean_up(void *unused) { (void)unused, cleaned++; }
static void unlock(void *unused)
{
    (void)unused;
    cleaned += pthread_mutex_unlock(&mutex) == 0;
}
#define CANCELLED(name, ...) \
    static void *name(void *unused) { pthread_cleanup_push(clean_up, NULL); for (;;) { __VA_ARGS__; } pthread_cleanup_pop(0); return unused; }
static int never[2];
CANCELLED(in_sleep, sleep(1000))
CANCELLED(in_nanosleep, nanosleep(&(struct timespec){1000, 0}, NULL))
CANCELLED(in_poll, poll(&(struct pollfd){.fd = never[0], .events = POLLIN}, 1, 1000000))
CANCELLED(in_poll_for_ever, poll(&(struct pollfd){.fd = never[0], .events = POLLIN}, 1, -1))
CANCELLED(in_read, char byte; if (read(never[0], &byte, 1) < 0) break)
CANCELLED(in_select, select(0, NULL, NULL, NULL, &(struct timeval){1000, 0}))
CANCELLED(in_epoll, epoll_wait(epoll_create1(0), &(struct epoll_event){0}, 1, 1000000))
CANCELLED(in_semaphore, struct timespec t = in(CLOCK_REALTIME, 1000); sem_timedwait(&forever, &t))
CANCELLED(in_semaphore_for_ever, sem_wait(&forever))
CANCELLED(in_pause, pause())
CANCELLED(in_sigwait, sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR2); sigtimedwait(&set, NULL, &(struct timespec){1000, 0}))
static void *in_condition(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    struct timespec t = in(CLOCK_REALTIME, 1000);
    while (pthread_cond_timedwait(&condition, &mutex, &t) == 0)
        ;
    pthread_cleanup_pop(1);
    return unused;
}

static void cancellations(void)
{
    struct { const char *name; void *(*body)(void *); } all[] = {
        {"sleep", in_sleep}, {"nanosleep", in_nanosleep}, {"poll", in_poll}, {"poll without limit", in_poll_for_ever},
        {"read", in_read}, {"select", in_select}, {"epoll_wait", in_epoll}, {"sem_timedwait", in_semaphore},
        {"sem_wait", in_semaphore_for_ever}, {"pause", in_pause}, {"sigtimedwait", in_sigwait},
        {"pthread_cond_timedwait", in_condition},
    };
    sem_init(&forever, 0, 0);
    if (pipe(never) != 0)
        exit(99);
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        void *result = NULL;
        began = now(), cleaned = 0;
        pthread_t thread = start(all[at].body);
        usleep(100000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        check(all[at].name, .1, result == PTHREAD_CANCELED && cleaned == 1);
    }
    /* A thread that does not let itself be cancelled waits to the end. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    began = now();
    pthread_cancel(pthread_self());
    check("cancelled later", .2, usleep(200000) == 0);
}

int main(int count, char **words)
{
    int provided;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    if (count < 2 || !strcmp(words[1], "wake_ups"))
        wake_ups();
    if (count < 2 || !strcmp(words[1], "limits"))
        limits();
    if (count < 2 || !strcmp(words[1], "crowd"))
        crowd();
    if (count < 2 || !strcmp(words[1], "cancellations"))
        cancellations();
    fflush(stdout);
    _exit(failures);
}
