/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The functions that take or return a long double by value. C passes it on the stack and in x87 registers, which Rust cannot
 * express. Each function passes its name and a pointer on to Rust (exports.rs).
 *
 * Invariant: these are the functions of the table that api/exports.rs leaves out; tests/generated.rs checks it.
 */
#include "shmem.h"

void selvedge_longdouble_p(const char *call, size_t bytes, shmem_ctx_t ctx, long double *dest, const long double *value,
                           int pe);
void selvedge_longdouble_g(const char *call, size_t bytes, shmem_ctx_t ctx, const long double *source, long double *value,
                           int pe);
void selvedge_longdouble_p_ct(const char *call, size_t bytes, shmem_ctx_t ctx, shmem_ct_t ct, long double *dest,
                              const long double *value, int pe);

/* A name and its length. */
#define CALL(NAME) NAME, sizeof(NAME) - 1

void shmem_longdouble_p(long double *dest, long double value, int pe)
{
    selvedge_longdouble_p(CALL("shmem_longdouble_p"), SHMEM_CTX_DEFAULT, dest, &value, pe);
}

void shmem_ctx_longdouble_p(shmem_ctx_t ctx, long double *dest, long double value, int pe)
{
    selvedge_longdouble_p(CALL("shmem_ctx_longdouble_p"), ctx, dest, &value, pe);
}

long double shmem_longdouble_g(const long double *source, int pe)
{
    long double value;
    selvedge_longdouble_g(CALL("shmem_longdouble_g"), SHMEM_CTX_DEFAULT, source, &value, pe);
    return value;
}

long double shmem_ctx_longdouble_g(shmem_ctx_t ctx, const long double *source, int pe)
{
    long double value;
    selvedge_longdouble_g(CALL("shmem_ctx_longdouble_g"), ctx, source, &value, pe);
    return value;
}

void shmem_longdouble_p_ct(shmem_ct_t ct, long double *dest, long double value, int pe)
{
    selvedge_longdouble_p_ct(CALL("shmem_longdouble_p_ct"), SHMEM_CTX_DEFAULT, ct, dest, &value, pe);
}

void shmem_ctx_longdouble_p_ct(shmem_ctx_t ctx, shmem_ct_t ct, long double *dest, long double value, int pe)
{
    selvedge_longdouble_p_ct(CALL("shmem_ctx_longdouble_p_ct"), ctx, ct, dest, &value, pe);
}
