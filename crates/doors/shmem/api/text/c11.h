
/* The N-th argument. */
#define SELVEDGE_1ST(...)           SELVEDGE_1ST_(__VA_ARGS__, 0)
#define SELVEDGE_2ND(...)           SELVEDGE_2ND_(__VA_ARGS__, 0, 0)
#define SELVEDGE_3RD(...)           SELVEDGE_3RD_(__VA_ARGS__, 0, 0, 0)
#define SELVEDGE_1ST_(A, ...)       A
#define SELVEDGE_2ND_(A, B, ...)    B
#define SELVEDGE_3RD_(A, B, C, ...) C

/* Maps a type, with any qualifier, to its function. The function's prototype checks the qualifiers. */
#define SELVEDGE_CASE(TYPE, T, OP)       SELVEDGE_QUALIFIED(TYPE, shmem_##T##OP)
#define SELVEDGE_CTX_CASE(TYPE, T, OP)   SELVEDGE_QUALIFIED(TYPE, shmem_ctx_##T##OP)
#define SELVEDGE_QUALIFIED(TYPE, CHOICE) , TYPE *: CHOICE, const TYPE *: CHOICE, volatile TYPE *: CHOICE
/* A selection that compiles for every type: the compiler also checks the branch that is not taken. */
#define SELVEDGE_OR_NONE(ARGUMENT, ...) _Generic((ARGUMENT) __VA_ARGS__, default: SELVEDGE_NONE)
#define SELVEDGE_NONE                   "OpenSHMEM has no such function for this element type"

/* Selects by the type of an argument. CTX: by that of the next argument, if the first is a context. */
#define SELVEDGE_BY_1ST(EACH, OP, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)) SELVEDGE_##EACH(SELVEDGE_CASE, OP))(__VA_ARGS__)
#define SELVEDGE_BY_2ND(EACH, OP, ...) \
    _Generic((SELVEDGE_2ND(__VA_ARGS__)) SELVEDGE_##EACH(SELVEDGE_CASE, OP))(__VA_ARGS__)
#define SELVEDGE_CTX_BY_1ST(EACH, OP, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)) SELVEDGE_##EACH(SELVEDGE_CASE, OP), \
        shmem_ctx_t: SELVEDGE_OR_NONE(SELVEDGE_2ND(__VA_ARGS__), SELVEDGE_##EACH(SELVEDGE_CTX_CASE, OP)) \
    )(__VA_ARGS__)
#define SELVEDGE_CTX_BY_2ND(EACH, OP, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)), \
        default: SELVEDGE_OR_NONE(SELVEDGE_2ND(__VA_ARGS__), SELVEDGE_##EACH(SELVEDGE_CASE, OP)), \
        shmem_ctx_t: SELVEDGE_OR_NONE(SELVEDGE_3RD(__VA_ARGS__), SELVEDGE_##EACH(SELVEDGE_CTX_CASE, OP)) \
    )(__VA_ARGS__)
/* Selects by the first argument, which may be volatile, because other PEs write the object. */
#define SELVEDGE_BY_VOLATILE(EACH, OP, OBJECT, ...) \
    _Generic((OBJECT) SELVEDGE_##EACH(SELVEDGE_CASE, OP))((void *)(OBJECT), __VA_ARGS__)
/* Selects THEN if the first argument is a TYPE, otherwise ELSE. */
#define SELVEDGE_IF_1ST(TYPE, THEN, ELSE, ...) \
    _Generic((SELVEDGE_1ST(__VA_ARGS__)), TYPE: THEN, default: ELSE)(__VA_ARGS__)
