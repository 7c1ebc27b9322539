/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A network for NCCL's plugin for SHARP on a machine without InfiniBand: the point-to-point functions that the plugin calls to make a
 * communicator, over sockets of one host. The program defines the plugin's tables ncclNetPlugin_v6 to _v11, which take precedence over the
 * plugin's own. Compiled with the headers of the plugin's source.
 *
 * Sends and receives are whole: each waits until all bytes have moved. Messages are short, so a send never waits for a receive.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nccl.h"

#include "net_device.h"
#include "net.h"

/* Also the plugin's: its own network sets it. */
ncclDebugLogger_t pluginLogFunction;

static ncclResult_t init11(void **context, uint64_t comm, ncclNetCommConfig_v11_t *config, ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
    (void)context, (void)comm, (void)config, (void)profiler;
    pluginLogFunction = logger;
    return ncclSuccess;
}
static ncclResult_t devices(int *count) {
    *count = 1;
    return ncclSuccess;
}
#define PROPERTIES(v)                                                                       \
    static ncclResult_t properties##v(int device, ncclNetProperties_v##v##_t *properties) { \
        (void)device;                                                                       \
        memset(properties, 0, sizeof *properties);                                          \
        properties->name = "stub";                                                          \
        properties->ptrSupport = NCCL_PTR_HOST;                                             \
        properties->maxComms = 64;                                                          \
        properties->maxRecvs = 1;                                                           \
        return ncclSuccess;                                                                 \
    }
PROPERTIES(6)
PROPERTIES(7)
PROPERTIES(8)
PROPERTIES(9)
PROPERTIES(10)
PROPERTIES(11)

static void *keep(int socket) {
    int *kept = malloc(sizeof *kept);
    *kept = socket;
    return kept;
}
static ncclResult_t end(void *kept) {
    close(*(int *)kept);
    free(kept);
    return ncclSuccess;
}
/* The handle is the socket's abstract name, which the kernel chooses. */
static ncclResult_t listen10(int device, void *handle, void **listening) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)device;
    if (own < 0 || bind(own, (void *)&address, sizeof(sa_family_t)) != 0 || listen(own, 64) != 0) return ncclSystemError;
    if (getsockname(own, (void *)&address, &length) != 0 || length > 120) return ncclSystemError;
    memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
    memcpy(handle, &length, sizeof length);
    memcpy((char *)handle + sizeof length, &address, length);
    *listening = keep(own);
    return ncclSuccess;
}
static ncclResult_t connect6(int device, void *handle, void **comm) {
    struct sockaddr_un address;
    socklen_t length;
    int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)device;
    memcpy(&length, handle, sizeof length);
    memcpy(&address, (char *)handle + sizeof length, length);
    if (own < 0 || connect(own, (void *)&address, length) != 0) return ncclSystemError;
    *comm = keep(own);
    return ncclSuccess;
}
static ncclResult_t accept6(void *listening, void **comm) {
    struct pollfd of = {.fd = *(int *)listening, .events = POLLIN};
    if (poll(&of, 1, 1) > 0) {
        int own = accept4(of.fd, NULL, NULL, SOCK_CLOEXEC);
        if (own < 0) return ncclSystemError;
        *comm = keep(own);
    }
    return ncclSuccess;
}
static ncclResult_t reg(void *comm, void *data, size_t bytes, int kind, void **handle) {
    (void)comm, (void)bytes;
    *handle = data;
    return kind == NCCL_PTR_HOST ? ncclSuccess : ncclInvalidUsage;
}
static ncclResult_t dereg(void *comm, void *handle) {
    (void)comm, (void)handle;
    return ncclSuccess;
}
static ncclResult_t send8(void *comm, void *data, int bytes, int tag, void *handle, void **request) {
    (void)tag, (void)handle;
    for (int at = 0; at < bytes;) {
        ssize_t moved = send(*(int *)comm, (char *)data + at, (size_t)(bytes - at), MSG_NOSIGNAL);
        if (moved <= 0 && errno != EINTR) return ncclRemoteError;
        if (moved > 0) at += (int)moved;
    }
    *request = data;
    return ncclSuccess;
}
static ncclResult_t receive8(void *comm, int count, void **data, int *bytes, int *tags, void **handles, void **request) {
    (void)count, (void)tags, (void)handles;
    for (int at = 0; at < *bytes;) {
        ssize_t moved = recv(*(int *)comm, (char *)*data + at, (size_t)(*bytes - at), 0);
        if (moved == 0 || (moved < 0 && errno != EINTR)) return ncclRemoteError;
        if (moved > 0) at += (int)moved;
    }
    *request = *data;
    return ncclSuccess;
}
static ncclResult_t flush(void *comm, int count, void **data, int *bytes, void **handles, void **request) {
    (void)comm, (void)count, (void)data, (void)bytes, (void)handles;
    *request = NULL;
    return ncclSuccess;
}
static ncclResult_t test(void *request, int *done, int *bytes) {
    (void)request, (void)bytes;
    *done = 1;
    return ncclSuccess;
}

ncclNet_v11_t ncclNetPlugin_v11 = {.name = "stub", .init = init11, .devices = devices, .getProperties = properties11};
ncclNet_v10_t ncclNetPlugin_v10 = {.name = "stub", .devices = devices, .getProperties = properties10, .listen = listen10, .regMr = reg, .deregMr = dereg, .iflush = flush, .test = test, .closeSend = end, .closeRecv = end, .closeListen = end};
ncclNet_v9_t ncclNetPlugin_v9 = {.name = "stub", .devices = devices, .getProperties = properties9};
ncclNet_v8_t ncclNetPlugin_v8 = {.name = "stub", .devices = devices, .getProperties = properties8, .regMr = reg, .deregMr = dereg, .isend = send8, .irecv = receive8, .test = test};
ncclNet_v7_t ncclNetPlugin_v7 = {.name = "stub", .devices = devices, .getProperties = properties7};
ncclNet_v6_t ncclNetPlugin_v6 = {.name = "stub", .devices = devices, .getProperties = properties6, .connect = connect6, .accept = accept6};
