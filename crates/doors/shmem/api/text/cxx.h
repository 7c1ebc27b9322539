
/* Overloads P##NAME by the function P##T##_##NAME. ARGUMENTS are in parentheses. */
#define SELVEDGE_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, ...) \
    inline RETURNS P##NAME(__VA_ARGS__) { return P##T##_##NAME ARGUMENTS; }
/* Overloads it without and with a context. */
#define SELVEDGE_CTX_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, ...) \
    SELVEDGE_OVERLOAD(RETURNS, P, T, NAME, ARGUMENTS, __VA_ARGS__) \
    inline RETURNS P##NAME(shmem_ctx_t ctx, __VA_ARGS__) { return P##ctx_##T##_##NAME(ctx, SELVEDGE_LIST ARGUMENTS); }
#define SELVEDGE_LIST(...) __VA_ARGS__

/* Converts the address of a std::complex<float> to that of a float _Complex. */
template <typename To, typename From> inline To *shmem_impl_as(From *from)
{
    static_assert(sizeof(To) == sizeof(From), "the argument must point to a std::complex");
    return reinterpret_cast<To *>(from);
}
