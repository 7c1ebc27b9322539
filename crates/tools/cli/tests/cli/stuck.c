/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * A rank that waits in a call which virtual time does not know: argument 1 says in which. */
#define _GNU_SOURCE
#include <pthread.h>
#include <shmem.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long call(long number, long a, long b)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}

static int pipe_ends[2];

/* Lets virtual time pass for 12 s of real time, and then writes. */
static void *sleeps(void *unused)
{
    struct timespec now, first;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &first);
    do {
        usleep(1000);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < first.tv_sec + 12);
    return write(pipe_ends[1], "x", 1) == 1 ? unused : NULL;
}

int main(int count, char **words)
{
    const char *in = count > 1 ? words[1] : "";
    int ends[2];
    char byte;
    shmem_init();
    if (pipe(ends) != 0)
        return 9;
    if (!strcmp(in, "read"))
        return (int)read(ends[0], &byte, 1);
    if (!strcmp(in, "recv")) {
        struct timeval limit = {0, 200000};
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        for (;;)
            recv(ends[0], &byte, 1, 0);
    }
    if (!strcmp(in, "sleep")) {
        struct timespec tenth = {0, 100000000};
        for (;;)
            call(SYS_nanosleep, (long)&tenth, 0);
    }
    if (!strcmp(in, "thread")) {
        pthread_t thread;
        if (pipe(pipe_ends) != 0 || pthread_create(&thread, NULL, sleeps, NULL) != 0)
            return 9;
        return read(pipe_ends[0], &byte, 1) != 1;
    }
    if (!strcmp(in, "mutex")) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&mutex);
        return pthread_mutex_lock(&mutex);
    }
    return 8;
}
