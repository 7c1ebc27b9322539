/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Waits with a limit, timers and alarms of a rank with one thread: each takes the virtual time that it asks for, and a
 * signal or an event before the limit ends it. Prints each case that does not; the exit status is their number. */
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
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "sim_limits.h"

static volatile sig_atomic_t handled;
static volatile int handled_code, handled_value;

/* Within 20 us. */
static void check(const char *name, double wanted_s, int is_right)
{
    check_within(name, wanted_s, 2e-5, is_right);
}

static void on_signal(int signal, siginfo_t *information, void *context)
{
    (void)signal, (void)context;
    handled++;
    handled_code = information->si_code;
    handled_value = information->si_value.sival_int;
}

static void install(int flags)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    handled = 0;
}

static void alarm_in(double seconds)
{
    struct itimerval value = {{0, 0}, {(long)seconds, (long)((seconds - (double)(long)seconds) * 1e6 + .5)}};
    setitimer(ITIMER_REAL, &value, NULL);
}

static const struct timespec fifth = {0, 200000000}, two = {2, 0};

static void locks(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER, monotonic;
    pthread_condattr_t attributes;
    struct timespec t;
    pthread_mutex_lock(&mutex);
    t = in(CLOCK_REALTIME, .2), check("set up", 0, 1);
    check("pthread_cond_timedwait", .2, pthread_cond_timedwait(&condition, &mutex, &t) == ETIMEDOUT);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic, &attributes);
    t = in(CLOCK_MONOTONIC, .2);
    check("pthread_cond_timedwait, monotonic", .2, pthread_cond_timedwait(&monotonic, &mutex, &t) == ETIMEDOUT);
    t = in(CLOCK_MONOTONIC, .3);
    check("pthread_cond_clockwait", .3, pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &t) == ETIMEDOUT);
    t = in(CLOCK_REALTIME, .3);
    check("pthread_cond_clockwait, real time", .3, pthread_cond_clockwait(&monotonic, &mutex, CLOCK_REALTIME, &t) == ETIMEDOUT);
    t.tv_sec = 1;
    check("pthread_cond_timedwait in the past", 0, pthread_cond_timedwait(&condition, &mutex, &t) == ETIMEDOUT);
    t.tv_nsec = 1000000000;
    check("pthread_cond_timedwait, malformed", 0, pthread_cond_timedwait(&condition, &mutex, &t) == EINVAL);
    t = in(CLOCK_REALTIME, .2);
    check("pthread_mutex_timedlock", .2, pthread_mutex_timedlock(&mutex, &t) == ETIMEDOUT);
    t = in(CLOCK_MONOTONIC, .2);
    check("pthread_mutex_clocklock", .2, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &t) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    t = in(CLOCK_REALTIME, .2);
    check("pthread_mutex_timedlock, free", 0, pthread_mutex_timedlock(&mutex, &t) == 0 && pthread_mutex_unlock(&mutex) == 0);

    pthread_mutexattr_t checking;
    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_t checked;
    pthread_mutex_init(&checked, &checking);
    pthread_mutex_lock(&checked);
    check("pthread_mutex_timedlock, checked", 0, pthread_mutex_timedlock(&checked, &t) == EDEADLK);
    pthread_mutex_unlock(&checked);
    check("pthread_cond_timedwait, not locked", 0, pthread_cond_timedwait(&condition, &checked, &t) == EPERM);

    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_rdlock(&lock);
    t = in(CLOCK_REALTIME, .2);
    check("pthread_rwlock_timedrdlock, free", 0, pthread_rwlock_timedrdlock(&lock, &t) == 0);
    check("pthread_rwlock_timedwrlock", .2, pthread_rwlock_timedwrlock(&lock, &t) == ETIMEDOUT);
    t = in(CLOCK_MONOTONIC, .2);
    check("pthread_rwlock_clockwrlock", .2, pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &t) == ETIMEDOUT);

    mtx_t c11;
    cnd_t condition11;
    mtx_init(&c11, mtx_timed);
    cnd_init(&condition11);
    mtx_lock(&c11);
    t = in(CLOCK_REALTIME, .2);
    check("mtx_timedlock", .2, mtx_timedlock(&c11, &t) == thrd_timedout);
    t = in(CLOCK_REALTIME, .2);
    check("cnd_timedwait", .2, cnd_timedwait(&condition11, &c11, &t) == thrd_timedout);

    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    t = in(CLOCK_REALTIME, .2);
    check("sem_timedwait", .2, sem_timedwait(&semaphore, &t) == -1 && errno == ETIMEDOUT);
    t = in(CLOCK_MONOTONIC, .2);
    check("sem_clockwait", .2, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t) == -1 && errno == ETIMEDOUT);
    sem_post(&semaphore);
    check("sem_timedwait, posted", 0, sem_timedwait(&semaphore, &t) == 0);
    sem_t shared;
    sem_init(&shared, 1, 0);
    t = in(CLOCK_REALTIME, .2);
    check("sem_timedwait, shared", .2, sem_timedwait(&shared, &t) == -1 && errno == ETIMEDOUT);
    t.tv_nsec = -1;
    check("sem_timedwait, malformed", 0, sem_timedwait(&semaphore, &t) == -1 && errno == EINVAL);

    int word = 7;
    struct timespec relative = fifth;
    check("futex", .2, syscall(SYS_futex, &word, FUTEX_WAIT, 7, &relative, NULL, 0) == -1 && errno == ETIMEDOUT);
    check("futex, private", .2, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &relative, NULL, 0) == -1 && errno == ETIMEDOUT);
    t = in(CLOCK_MONOTONIC, .2);
    check("futex, absolute", .2,
          syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 7, &t, NULL, FUTEX_BITSET_MATCH_ANY) == -1 && errno == ETIMEDOUT);
    t = in(CLOCK_REALTIME, .2);
    check("futex, real time", .2,
          syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 7, &t, NULL, FUTEX_BITSET_MATCH_ANY) == -1
              && errno == ETIMEDOUT);
    check("futex, another value", 0, syscall(SYS_futex, &word, FUTEX_WAIT, 8, &relative, NULL, 0) == -1 && errno == EAGAIN);
}

static void descriptors(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        exit(99);
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    struct timespec relative = fifth;
    fd_set set;
    struct timeval limit = {0, 200000};
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, got;
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    check("set up", 0, 1);
    check("poll", .2, poll(&polled, 1, 200) == 0);
    check("poll without descriptors", .2, poll(NULL, 0, 200) == 0);
    check("ppoll", .2, ppoll(&polled, 1, &relative, NULL) == 0);
    check("ppoll without descriptors", .2, ppoll(NULL, 0, &relative, NULL) == 0);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    int result = select(ends[0] + 1, &set, NULL, NULL, &limit);
    check("select", .2, result == 0 && !FD_ISSET(ends[0], &set) && limit.tv_sec == 0 && limit.tv_usec == 0);
    limit = (struct timeval){1, 0};
    check("select without descriptors", 1, select(0, NULL, NULL, NULL, &limit) == 0);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    check("pselect", .2, pselect(ends[0] + 1, NULL, NULL, &set, &relative, NULL) == 0);
    check("epoll_wait", .2, epoll_wait(epoll, &got, 1, 200) == 0);
    check("epoll_pwait", .2, epoll_pwait(epoll, &got, 1, 200, NULL) == 0);
    check("epoll_pwait2", .2, syscall(SYS_epoll_pwait2, epoll, &got, 1, &relative, NULL, 8) == 0);
    check("epoll_wait, wrong room", 0, epoll_wait(epoll, &got, 0, 200) == -1 && errno == EINVAL);
    int empty = epoll_create1(0);
    check("epoll_wait of nothing", .2, epoll_wait(empty, &got, 1, 200) == 0);
    close(empty);
    if (write(ends[1], "x", 1) != 1)
        exit(99);
    check("poll, readable", 0, poll(&polled, 1, 200) == 1 && polled.revents == POLLIN);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    limit = (struct timeval){3, 0};
    check("select, readable", 0,
          select(ends[0] + 1, &set, NULL, NULL, &limit) == 1 && FD_ISSET(ends[0], &set) && (limit.tv_sec == 3 || limit.tv_usec > 999900));
    check("epoll_wait, readable", 0, epoll_wait(epoll, &got, 1, 200) == 1);
    close(ends[0]), close(ends[1]), close(epoll);
}

static void signals_before_limits(void)
{
    sigset_t usr, alrm, none;
    sigemptyset(&usr), sigemptyset(&alrm), sigemptyset(&none);
    sigaddset(&usr, SIGUSR1), sigaddset(&alrm, SIGALRM);
    siginfo_t information;
    struct timespec t, left;
    int signal, ends[2];
    if (pipe(ends) != 0)
        exit(99);
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    sigprocmask(SIG_BLOCK, &usr, NULL);
    check("set up", 0, 1);
    check("sigtimedwait", .2, sigtimedwait(&usr, NULL, &fifth) == -1 && errno == EAGAIN);
    raise(SIGUSR1);
    check("sigtimedwait, pending", 0, sigtimedwait(&usr, &information, &two) == SIGUSR1 && information.si_signo == SIGUSR1);

    install(0);
    alarm_in(.5);
    check("pause", .5, pause() == -1 && errno == EINTR && handled == 1 && handled_code > 0);
    alarm(1);
    check("alarm and pause", 1, pause() == -1 && handled == 2);
    alarm_in(.5);
    check("nanosleep, interrupted", .5, nanosleep(&two, &left) == -1 && errno == EINTR && left.tv_sec == 1 && left.tv_nsec > 499990000 && left.tv_nsec <= 500000000);
    alarm_in(.5);
    check("clock_nanosleep, interrupted", .5, clock_nanosleep(CLOCK_MONOTONIC, 0, &two, &left) == EINTR && left.tv_sec == 1);
    t = in(CLOCK_REALTIME, 2), alarm_in(.5);
    check("clock_nanosleep to a time, interrupted", .5, clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == EINTR);
    alarm_in(1.5);
    check("sleep, interrupted", 1.5, sleep(5) == 3);
    alarm_in(.5);
    check("usleep, interrupted", .5, usleep(900000) == -1 && errno == EINTR);
    alarm_in(.5);
    check("poll, interrupted", .5, poll(&polled, 1, 2000) == -1 && errno == EINTR);
    alarm_in(.5);
    check("poll without limit, interrupted", .5, poll(&polled, 1, -1) == -1 && errno == EINTR);
    alarm_in(.5);
    check("select, interrupted", .5, select(0, NULL, NULL, NULL, &(struct timeval){2, 0}) == -1 && errno == EINTR);
    int epoll = epoll_create1(0);
    struct epoll_event got;
    alarm_in(.5);
    check("epoll_wait, interrupted", .5, epoll_wait(epoll, &got, 1, -1) == -1 && errno == EINTR);
    char byte;
    alarm_in(.5);
    check("read, interrupted", .5, read(ends[0], &byte, 1) == -1 && errno == EINTR);
    alarm_in(.5);
    check("sigtimedwait, interrupted", .5, sigtimedwait(&usr, NULL, &two) == -1 && errno == EINTR);
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    t = in(CLOCK_REALTIME, 2), alarm_in(.5);
    check("sem_timedwait, interrupted", .5, sem_timedwait(&semaphore, &t) == -1 && errno == EINTR);
    alarm_in(.5);
    check("sem_wait, interrupted", .5, sem_wait(&semaphore) == -1 && errno == EINTR);
    int word = 0;
    alarm_in(.5);
    check("futex, interrupted", .5, syscall(SYS_futex, &word, FUTEX_WAIT, 0, &two, NULL, 0) == -1 && errno == EINTR);
    int before = handled;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    t = in(CLOCK_REALTIME, 2), alarm_in(.5);
    check("a condition is not interrupted", 2, pthread_cond_timedwait(&condition, &mutex, &t) == ETIMEDOUT && handled == before + 1);

    /* Blocked signals do not interrupt, except where the call lets them through. */
    sigprocmask(SIG_BLOCK, &alrm, NULL);
    alarm_in(.5), before = handled;
    check("nanosleep, blocked signal", 2, nanosleep(&two, NULL) == 0 && handled == before);
    check("sigtimedwait, timer's signal", 0, sigtimedwait(&alrm, &information, &two) == SIGALRM);
    alarm_in(.5);
    check("sigwait", .5, sigwait(&alrm, &signal) == 0 && signal == SIGALRM);
    alarm_in(.5);
    check("sigwaitinfo", .5, sigwaitinfo(&alrm, &information) == SIGALRM);
    alarm_in(.5), before = handled;
    check("sigsuspend", .5, sigsuspend(&none) == -1 && errno == EINTR && handled == before + 1);
    alarm_in(.5), before = handled;
    check("ppoll with a mask", .5, ppoll(&polled, 1, &two, &none) == -1 && errno == EINTR && handled == before + 1);
    alarm_in(.5), before = handled;
    check("pselect with a mask", .5, pselect(0, NULL, NULL, NULL, &two, &none) == -1 && errno == EINTR && handled == before + 1);
    alarm_in(.5), before = handled;
    check("epoll_pwait with a mask", .5, epoll_pwait(epoll, &got, 1, 2000, &none) == -1 && errno == EINTR && handled == before + 1);
    int signals = signalfd(-1, &alrm, 0);
    struct signalfd_siginfo told;
    alarm_in(.5);
    check("read of a signal's descriptor", .5, read(signals, &told, sizeof told) == sizeof told && told.ssi_signo == SIGALRM);
    close(signals);
    sigset_t now_blocked;
    sigprocmask(SIG_BLOCK, NULL, &now_blocked);
    check("the mask is as before", 0, sigismember(&now_blocked, SIGALRM) == 1 && sigismember(&now_blocked, SIGUSR1) == 1);
    sigprocmask(SIG_UNBLOCK, &alrm, NULL);
    close(epoll), close(ends[0]), close(ends[1]);

    /* An ignored signal interrupts nothing. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGALRM, &ignore, NULL);
    alarm_in(.5);
    check("nanosleep, ignored signal", 2, nanosleep(&two, NULL) == 0);
    install(0);
}

static sem_t posted;
static void on_post(int signal)
{
    (void)signal;
    sem_post(&posted);
}

static void alarms(void)
{
    struct itimerval value, was;
    check("set up", 0, 1);
    alarm(10);
    check("alarm, replaced", 0, alarm(20) == 10);
    sleep(4);
    check("alarm, what is left", 4, alarm(0) == 16 && alarm(0) == 0);
    alarm_in(3.5);
    sleep(1);
    getitimer(ITIMER_REAL, &value);
    check("getitimer", 1, value.it_value.tv_sec == 2 && value.it_value.tv_usec > 499900 && value.it_value.tv_usec <= 500000);
    value = (struct itimerval){{0, 100000}, {0, 250000}};
    setitimer(ITIMER_REAL, &value, &was);
    check("setitimer, replaced", 0, was.it_value.tv_sec == 2 && was.it_value.tv_usec > 499800);
    handled = 0;
    pause();
    check("an interval, first", .25, handled == 1);
    for (int times = 0; times < 5; times++)
        pause();
    check("an interval, five times", .5, handled == 6);
    while (handled < 16)
        ;   /* It counts without a call. */
    value = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &value, NULL);
    check("an interval is seen by a program that computes", now() - began, handled >= 16);
    ualarm(300000, 0);
    check("ualarm", .3, pause() == -1);
    value = (struct itimerval){{0, 0}, {0, 2000000}};
    check("setitimer, long microseconds", 0, setitimer(ITIMER_REAL, &value, NULL) == 0 || errno == EINVAL);
    alarm(0);

    /* A handler posts; the wait goes on after it. */
    struct sigaction action = {.sa_handler = on_post, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sem_init(&posted, 0, 0);
    alarm_in(.5);
    check("sem_wait for a handler", .5, sem_wait(&posted) == 0);
    install(0);
    /* Polling the clock, too. */
    alarm_in(.001), handled = 0;
    while (!handled)
        now();
    check("an alarm while the clock is read", .001, 1);
}

static void timers(void)
{
    timer_t timer, other;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
    struct itimerspec value = {{0, 0}, {0, 500000000}}, is;
    sigset_t usr;
    siginfo_t information;
    sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &usr, NULL);
    install(0);
    check("set up", 0, 1);
    check("timer_create", 0, timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_create(CLOCK_REALTIME, NULL, &other) == 0);
    timer_settime(timer, 0, &value, NULL);
    check("timer and pause", .5, pause() == -1 && handled == 1 && handled_code == SI_TIMER && handled_value == 42);
    value.it_value = in(CLOCK_REALTIME, .5);
    timer_settime(other, TIMER_ABSTIME, &value, NULL);
    check("a timer to a time", .5, pause() == -1 && handled == 2);
    value = (struct itimerspec){{0, 100000000}, {0, 100000000}};
    timer_settime(timer, 0, &value, NULL);
    while (handled < 12)
        pause();
    check("a timer with an interval", 1, timer_getoverrun(timer) == 0);
    timer_gettime(timer, &is);
    check("timer_gettime", 0, is.it_interval.tv_nsec == 100000000 && is.it_value.tv_sec == 0 && is.it_value.tv_nsec > 99900000);
    sigprocmask(SIG_BLOCK, &usr, NULL);
    timer_settime(timer, 0, &value, NULL);
    check("sleep beside a blocked timer", 1, usleep(999999) == 0 && usleep(1) == 0);
    check("overruns", 0, sigwaitinfo(&usr, &information) == SIGUSR1 && information.si_overrun == 9 && timer_getoverrun(timer) == 9);
    check("the next one", .1, sigwaitinfo(&usr, &information) == SIGUSR1 && information.si_overrun == 0 && information.si_value.sival_int == 42);
    check("timer_delete", 0, timer_delete(timer) == 0 && timer_delete(other) == 0 && timer_delete(timer) == -1 && errno == EINVAL);
    check("a deleted timer", .5, sigtimedwait(&usr, NULL, &(struct timespec){0, 500000000}) == -1);
    event.sigev_notify = SIGEV_NONE;
    timer_create(CLOCK_BOOTTIME, &event, &timer);
    value = (struct itimerspec){{0, 0}, {1, 0}};
    timer_settime(timer, 0, &value, NULL);
    usleep(400000), timer_gettime(timer, &is);
    check("a timer that tells nobody", .4, is.it_value.tv_sec == 0 && is.it_value.tv_nsec > 599900000 && is.it_value.tv_nsec < 600000001);
    timer_delete(timer);
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    check("many timers", 0, timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &value, NULL) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(sigtimedwait(&usr, NULL, &(struct timespec){0, 1000000}) == -1 ? 7 : 8);
    int status;
    waitpid(child, &status, 0);
    check("a child has no timers", 0, WIFEXITED(status) && WEXITSTATUS(status) == 7);
    timer_delete(timer);
}

static void timer_descriptors(void)
{
    uint64_t count = 0;
    struct itimerspec value = {{0, 0}, {0, 200000000}}, is;
    int file = timerfd_create(CLOCK_MONOTONIC, 0), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file}, got;
    struct pollfd polled = {.fd = file, .events = POLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event);
    check("set up", 0, 1);
    timerfd_settime(file, 0, &value, NULL);
    check("timerfd, read", .2, read(file, &count, 8) == 8 && count == 1);
    value.it_value.tv_nsec = 300000000, timerfd_settime(file, 0, &value, NULL);
    check("timerfd, poll without limit", .3, poll(&polled, 1, -1) == 1 && polled.revents == POLLIN);
    check("timerfd, poll again", 0, poll(&polled, 1, 1000) == 1 && read(file, &count, 8) == 8 && count == 1);
    timerfd_settime(file, 0, &value, NULL);
    check("timerfd, epoll_wait", .3, epoll_wait(epoll, &got, 1, 2000) == 1 && got.data.fd == file);
    timerfd_settime(file, 0, &value, NULL);
    check("timerfd, set again", .2, epoll_wait(epoll, &got, 1, 200) == 0);
    timerfd_gettime(file, &is);
    check("timerfd_gettime", 0, is.it_value.tv_nsec > 99900000 && is.it_value.tv_nsec < 100000001);
    value = (struct itimerspec){{0, 0}, {0, 0}};
    timerfd_settime(file, 0, &value, NULL);
    check("timerfd, not armed", 1, poll(&polled, 1, 1000) == 0);
    value = (struct itimerspec){{0, 100000000}, {0, 50000000}};
    timerfd_settime(file, 0, &value, NULL);
    usleep(500000);
    check("timerfd, expiries", .5, read(file, &count, 8) == 8 && count == 5);
    check("timerfd, the next", .05, read(file, &count, 8) == 8 && count == 1);
    value.it_value = in(CLOCK_MONOTONIC, .25), value.it_interval.tv_nsec = 0;
    timerfd_settime(file, TFD_TIMER_ABSTIME, &value, NULL);
    check("timerfd to a time", .25, read(file, &count, 8) == 8 && count == 1);
    int second = dup(file);
    close(file);
    value = (struct itimerspec){{0, 0}, {0, 200000000}};
    check("timerfd, duplicate", .2, timerfd_settime(second, 0, &value, NULL) == 0 && read(second, &count, 8) == 8);
    close(second);
    int quick = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    timerfd_settime(quick, 0, &value, NULL);
    check("timerfd, not blocking", 0, read(quick, &count, 8) == -1 && errno == EAGAIN);
    while (read(quick, &count, 8) == -1)
        if (poll(&(struct pollfd){.fd = quick, .events = POLLIN}, 1, 0) == 1)
            break;
    check("timerfd, polled in a loop", now() - began > .2 && now() - began < .5 ? now() - began : .2, 1);
    close(quick), close(epoll);
    check("timerfd_create, wrong", 0, timerfd_create(CLOCK_MONOTONIC, 1 << 20) == -1 && errno == EINVAL);
}

int main(int count, char **words)
{
    shmem_init();
    const char *only = count > 1 ? words[1] : "";
    struct { const char *name; void (*run)(void); } all[] = {
        {"locks", locks}, {"descriptors", descriptors}, {"signals", signals_before_limits},
        {"alarms", alarms}, {"timers", timers}, {"timer_descriptors", timer_descriptors},
    };
    int ran = 0;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (!*only || !strcmp(only, all[at].name)) {
            install(0);
            began = now();
            all[at].run();
            ran++;
        }
    fflush(stdout);
    shmem_finalize();
    return ran ? failures : 98;
}
