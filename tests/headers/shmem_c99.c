/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The functions of shmem.h in C99, some of them under names that are type-generic elsewhere. Compiled only. A profiler's
 * definitions agree with the header, and with the names that it calls.
 */
#include <mpp/shmem.h>
#include <mpp/shmemx.h>
#include <pshmem.h>

int main(void);

void shmem_putmem(void *dest, const void *source, size_t nelems, int pe)
{
    pshmem_putmem(dest, source, nelems, pe);
}

long double shmem_longdouble_g(const long double *source, int pe)
{
    return pshmem_longdouble_g(source, pe);
}

int main(void)
{
    static long flag, psync[_SHMEM_BARRIER_SYNC_SIZE] = {_SHMEM_SYNC_VALUE};
    static shmem_ctx_t contexts[] = {SHMEM_CTX_INVALID, SHMEM_CTX_DEFAULT};
    static shmem_team_t teams[] = {SHMEM_TEAM_INVALID, SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED, SHMEMX_TEAM_NODE};
    shmemx_ct_t ct = SHMEM_CT_INVALID;
    char name[SHMEM_MAX_NAME_LEN] = SHMEM_VENDOR_STRING;
    start_pes(0);
    shmem_barrier(0, 0, _num_pes(), psync);
    shmem_sync(0, 0, _num_pes(), psync);
    shmem_wait_until(&flag, _SHMEM_CMP_EQ, 0);
    shmem_wait(&flag, 1);
    shmem_long_fadd(&flag, 1, _my_pe());
    shmem_ctx_long_put(contexts[1], &flag, &flag, 1, shmem_team_my_pe(teams[1]));
    shmem_pcontrol(1, name, 2.0);
    shmemx_ct_create(&ct);
    shmem_ct_free(&ct);
    shfree(shrealloc(shmemalign(64, 64), 128));
    shmem_global_exit(0);
}
