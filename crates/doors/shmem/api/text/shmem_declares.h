
/* ---- Macros that declare functions ----------------------------------------------------------------------- */

/* Declares a function, and its second name for profilers. */
#define SELVEDGE_FN(RETURNS, NAME, ...) \
    RETURNS NAME(__VA_ARGS__) SHMEM_FUNCTION_ATTRIBUTES; \
    RETURNS p##NAME(__VA_ARGS__) SHMEM_FUNCTION_ATTRIBUTES;

/* Declares a function without and with a context. P is the prefix of the names. */
#define SELVEDGE_CTX_FN(RETURNS, P, NAME, ...) \
    SELVEDGE_FN(RETURNS, P##NAME, __VA_ARGS__) \
    SELVEDGE_FN(RETURNS, P##ctx_##NAME, shmem_ctx_t ctx, __VA_ARGS__)

/* Marks a function that does not return. */
#if defined(__cplusplus)
#define SELVEDGE_NEVER [[noreturn]]
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define SELVEDGE_NEVER _Noreturn
#else
#define SELVEDGE_NEVER
#endif
