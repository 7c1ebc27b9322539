/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Every PE reaches every other, and checks the results. PE 0 prints the number of descriptors that it has at the end.
 *
 * limits: also allocates 1 MiB. limits short: does not. limits barrier: only waits for all PEs.
 * limits WHEN CALL ERROR: at this time ("start", "later") PE 1 loses a resource: from then on the kernel refuses the
 * system calls of one kind with the error. The kinds are those that the libraries make and other code does not: "open"
 * (of a file, not through a symbolic link), "map" (shared memory), "space" (in a file). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <shmem.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LARGE_BYTES (1 << 20)
#define LOW_WORD(n) (offsetof(struct seccomp_data, args[n]))

static int number_of(const char *name)
{
    static const struct { const char *name; int number; } errors[] = {
        {"EMFILE", EMFILE}, {"ENFILE", ENFILE}, {"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
        {"EACCES", EACCES},
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(name, errors[i].name)) return errors[i].number;
    fprintf(stderr, "limits: unknown error %s\n", name);
    exit(2);
}

static void refuse(const char *call, int error)
{
    const int is_open = !strcmp(call, "open"), is_map = !strcmp(call, "map");
    const unsigned number = is_open ? __NR_openat : is_map ? __NR_mmap : __NR_fallocate;
    /* Calls of "space" are refused whatever their flags are. */
    const unsigned argument = is_open ? LOW_WORD(2) : is_map ? LOW_WORD(3) : offsetof(struct seccomp_data, nr);
    const unsigned bits = is_open ? O_NOFOLLOW : is_map ? MAP_SHARED : __NR_fallocate;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("limits: seccomp");
        exit(77);
    }
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return -1;
    while (readdir(folder)) count++;
    closedir(folder);
    return count - 3; /* ".", "..", and the folder itself */
}

int main(int count, char **arguments)
{
    const char *rank = getenv("SELVEDGE_RANK");
    const int loses = count == 4 && rank && !strcmp(rank, "1");
    if (loses && !strcmp(arguments[1], "start")) refuse(arguments[2], number_of(arguments[3]));
    shmem_init();
    const int me = shmem_my_pe(), n = shmem_n_pes();
    if (loses && !strcmp(arguments[1], "later")) refuse(arguments[2], number_of(arguments[3]));
    if (count == 2 && !strcmp(arguments[1], "barrier")) {
        shmem_barrier_all();
        if (me == 0) printf("right: %d PEs, %d descriptors\n", n, descriptors());
        shmem_finalize();
        return 0;
    }
    long *from_all = shmem_calloc(n, sizeof *from_all), *sum = shmem_malloc(sizeof *sum);
    long *part = shmem_malloc(sizeof *part), *large = count == 2 ? part : shmem_malloc(LARGE_BYTES);
    if (!from_all || !sum || !part || !large) {
        fprintf(stderr, "PE %d: no memory\n", me);
        shmem_global_exit(3);
    }
    for (int step = 1; step <= n; step++) shmem_long_p(&from_all[me], me + 1, (me + step) % n);
    shmem_barrier_all();
    *part = 0;
    for (int pe = 0; pe < n; pe++) *part += shmem_long_g(&from_all[pe], (me + pe) % n);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sum, part, 1);
    if (*sum != (long)n * n * (n + 1) / 2) {
        fprintf(stderr, "PE %d: wrong sum %ld\n", me, *sum);
        shmem_global_exit(4);
    }
    shmem_barrier_all();
    if (me == 0) printf("right: %d PEs, %d descriptors\n", n, descriptors());
    shmem_finalize();
    return 0;
}
