/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * cable: what runs on the cables of test hosts, beside a job.
 *
 *   cable relay PID NAME PID NAME KIND N
 *                                a cable between the hosts of two processes: a TAP interface at each, and this process between them, which
 *                                prints `ready`. Of every N IPv6 frames to UDP port 7392 from the first to the second one is lost, damaged,
 *                                late or doubled (KIND: lose, damage, delay, double; none: no fault)
 *   cable mirror                 sends datagrams to UDP port 7400 back
 *   cable traffic ADDRESS SECONDS
 *                                a datagram to a mirror each 10 ms; prints those sent, those that came back, the longest gap in seconds
 *   cable sink                   takes a TCP connection at port 7401, reads until its end, and prints bytes and seconds
 *   cable stream ADDRESS SECONDS
 *                                sends to a sink for this time
 *   cable flood NAME KIND COUNT RATE [FILE]
 *                                datagrams to the daemons on the cable at this interface, RATE a second. KIND: random bytes; header: random
 *                                bytes behind a frame's begin; version: frames of another release; huge: the longest ones; replay FILE: those
 *                                that FILE holds, each with its length before it; forged FILE: the same, with one bit changed
 *   cable record NAME FILE COUNT writes datagrams of the daemons at this interface to a file for `flood`
 *   cable ask SOCKET LINE        sends a line to a daemon's socket, and prints what comes back first
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const uint16_t FRAMES = 7391, TESTS = 7392, MIRROR = 7400, SINK = 7401;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_until(double at_s)
{
    double left_s = at_s - now_s();
    if (left_s > 0)
        usleep((useconds_t)(left_s * 1e6));
}

static uint32_t random_word(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* A TAP interface in the network namespace of a process. */
static int tap(const char *pid, const char *name)
{
    char path[64];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int space = open(path, O_RDONLY);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        fail(path);
    close(space);
    /* An interface belongs to the namespace in which its file was opened. */
    int made = open("/dev/net/tun", O_RDWR);
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (made < 0 || ioctl(made, TUNSETIFF, &request) != 0)
        fail("/dev/net/tun");
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    request.ifr_flags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST;
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0)
        fail(name);
    close(any);
    return made;
}

static int is_test(const unsigned char *frame, ssize_t bytes)
{
    return bytes > 62 && frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == 17 && (frame[56] << 8 | frame[57]) == TESTS;
}

static _Noreturn void relay(char **argv)
{
    static unsigned char frame[65536], held[65536];
    const char *kind = argv[4];
    long each = atol(argv[5]), count = 0;
    ssize_t held_bytes = 0;
    struct pollfd ends[2] = {{.fd = tap(argv[0], argv[1]), .events = POLLIN}, {.fd = tap(argv[2], argv[3]), .events = POLLIN}};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(ends, 2, -1) < 0)
            fail("poll");
        for (int from = 0; from < 2; from++) {
            if (!(ends[from].revents & (POLLIN | POLLERR)))
                continue;
            int to = ends[1 - from].fd;
            ssize_t bytes = read(ends[from].fd, frame, sizeof frame);
            /* The end of a host is that of the cable; an interface that is down gives nothing. */
            if (bytes < 0 && errno != EIO && errno != EAGAIN)
                exit(0);
            if (bytes < 0) {
                usleep(1000);
                continue;
            }
            int has_fault = from == 0 && is_test(frame, bytes) && each > 0 && ++count % each == 0;
            if (has_fault && strcmp(kind, "lose") == 0)
                continue;
            if (has_fault && strcmp(kind, "delay") == 0) {
                memcpy(held, frame, (size_t)bytes);
                held_bytes = bytes;
                continue;
            }
            if (has_fault && strcmp(kind, "damage") == 0)
                frame[bytes - 1] ^= 0x40;
            /* An interface that is down takes nothing. */
            for (int copies = has_fault && strcmp(kind, "double") == 0 ? 2 : 1; copies > 0; copies--)
                if (write(to, frame, (size_t)bytes) < 0 && errno != EIO)
                    fail("write");
            if (from == 0 && held_bytes > 0 && is_test(frame, bytes)) {
                if (write(to, held, (size_t)held_bytes) < 0 && errno != EIO)
                    fail("write");
                held_bytes = 0;
            }
        }
    }
}

static int bound(int type, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
    int made = socket(AF_INET, type, 0), on = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (made < 0 || bind(made, (struct sockaddr *)&own, sizeof own) != 0)
        fail("bind");
    return made;
}

static int connected(int type, const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int made = socket(AF_INET, type, 0);
    if (made < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(made, (struct sockaddr *)&to, sizeof to) != 0)
        fail(address);
    return made;
}

static _Noreturn void mirror(void)
{
    char datagram[2048];
    int at = bound(SOCK_DGRAM, MIRROR);
    for (;;) {
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        ssize_t bytes = recvfrom(at, datagram, sizeof datagram, 0, (struct sockaddr *)&from, &length);
        if (bytes > 0)
            sendto(at, datagram, (size_t)bytes, 0, (struct sockaddr *)&from, length);
    }
}

static int traffic(const char *address, double seconds)
{
    int at = connected(SOCK_DGRAM, address, MIRROR);
    long sent = 0, back = 0;
    double began_s = now_s(), last_s = began_s, gap_s = 0;
    while (now_s() - began_s < seconds) {
        char datagram[64] = {0};
        /* Without a route the datagram is lost. */
        send(at, datagram, sizeof datagram, MSG_DONTWAIT);
        sent++;
        sleep_until(began_s + (double)sent * 0.01);
        while (recv(at, datagram, sizeof datagram, MSG_DONTWAIT) > 0) {
            back++;
            if (now_s() - last_s > gap_s)
                gap_s = now_s() - last_s;
            last_s = now_s();
        }
    }
    if (now_s() - last_s > gap_s)
        gap_s = now_s() - last_s;
    printf("%ld %ld %.2f\n", sent, back, gap_s);
    return 0;
}

static int sink(void)
{
    static char data[1 << 16];
    int listening = bound(SOCK_STREAM, SINK);
    if (listen(listening, 1) != 0)
        fail("listen");
    puts("ready");
    fflush(stdout);
    int from = accept(listening, NULL, NULL);
    double began_s = now_s();
    long long all = 0;
    for (ssize_t bytes; (bytes = read(from, data, sizeof data)) > 0;)
        all += bytes;
    printf("%lld %.3f\n", all, now_s() - began_s);
    return 0;
}

static int stream(const char *address, double seconds)
{
    static char data[1 << 16];
    int to = connected(SOCK_STREAM, address, SINK);
    for (double began_s = now_s(); now_s() - began_s < seconds;)
        if (write(to, data, sizeof data) < 0)
            fail("write");
    return 0;
}

static int group(const char *name, struct sockaddr_in6 *to)
{
    int made = socket(AF_INET6, SOCK_DGRAM, 0);
    *to = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(FRAMES), .sin6_scope_id = if_nametoindex(name)};
    if (made < 0 || inet_pton(AF_INET6, "ff12::5356:666d", &to->sin6_addr) != 1 || to->sin6_scope_id == 0)
        fail(name);
    return made;
}

static int record(const char *name, const char *path, long count)
{
    struct sockaddr_in6 at;
    unsigned char datagram[65536];
    int from = group(name, &at), on = 1, done;
    FILE *file = fopen(path, "w");
    struct ipv6_mreq member = {.ipv6mr_multiaddr = at.sin6_addr, .ipv6mr_interface = at.sin6_scope_id};
    done = setsockopt(from, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) | bind(from, (struct sockaddr *)&at, sizeof at) |
           setsockopt(from, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof member);
    if (!file || done != 0)
        fail(path);
    while (count-- > 0) {
        uint16_t bytes = (uint16_t)recv(from, datagram, sizeof datagram, 0);
        fwrite(&bytes, sizeof bytes, 1, file);
        fwrite(datagram, 1, bytes, file);
    }
    return fclose(file);
}

static int flood(int argc, char **argv)
{
    static unsigned char datagram[65536], kept[1 << 20];
    const char *kind = argv[1];
    long count = atol(argv[2]);
    double rate = atof(argv[3]), began_s = now_s();
    size_t kept_bytes = 0, at = 0;
    struct sockaddr_in6 to;
    int socket_at = group(argv[0], &to);
    if (argc > 4) {
        FILE *file = fopen(argv[4], "r");
        kept_bytes = file ? fread(kept, 1, sizeof kept, file) : 0;
        if (kept_bytes < 2)
            fail(argv[4]);
    }
    for (long sent = 0; sent < count; sent++) {
        size_t bytes = 1 + random_word() % 1400;
        if (kept_bytes) {
            uint16_t length;
            if (at + sizeof length > kept_bytes)
                at = 0;
            memcpy(&length, kept + at, sizeof length);
            bytes = length;
            memcpy(datagram, kept + at + sizeof length, bytes);
            at += sizeof length + bytes;
            if (strcmp(kind, "forged") == 0)
                datagram[random_word() % bytes] ^= (unsigned char)(1 << random_word() % 8);
        } else {
            if (strcmp(kind, "huge") == 0)
                bytes = 65000;
            for (size_t i = 0; i < bytes && (bytes < 2000 || sent == 0); i++)
                datagram[i] = (unsigned char)random_word();
            if (strcmp(kind, "version") == 0)
                memcpy(datagram, "SVfm\2", 5);
            if (strcmp(kind, "header") == 0)
                memcpy(datagram, random_word() % 2 ? "SVs1" : "SVfm\1", 5);
        }
        sendto(socket_at, datagram, bytes, 0, (struct sockaddr *)&to, sizeof to);
        sleep_until(began_s + (double)sent / rate);
    }
    return 0;
}

static int ask(const char *path, const char *line)
{
    char answer[4096];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(to.sun_path, path, sizeof to.sun_path - 1);
    if (made < 0 || connect(made, (struct sockaddr *)&to, sizeof to) != 0 || dprintf(made, "%s\n", line) < 0)
        fail(path);
    ssize_t bytes = read(made, answer, sizeof answer);
    return bytes < 0 || fwrite(answer, 1, (size_t)bytes, stdout) == 0;
}

int main(int argc, char **argv)
{
    const char *act = argc > 1 ? argv[1] : "";
    if (strcmp(act, "relay") == 0 && argc == 8)
        relay(argv + 2);
    if (strcmp(act, "mirror") == 0)
        mirror();
    if (strcmp(act, "traffic") == 0 && argc == 4)
        return traffic(argv[2], atof(argv[3]));
    if (strcmp(act, "sink") == 0)
        return sink();
    if (strcmp(act, "stream") == 0 && argc == 4)
        return stream(argv[2], atof(argv[3]));
    if (strcmp(act, "flood") == 0 && argc >= 6)
        return flood(argc - 2, argv + 2);
    if (strcmp(act, "record") == 0 && argc == 5)
        return record(argv[2], argv[3], atol(argv[4]));
    if (strcmp(act, "ask") == 0 && argc == 4)
        return ask(argv[2], argv[3]);
    fprintf(stderr, "cable: relay, mirror, traffic, sink, stream, flood, record or ask\n");
    return 2;
}
