// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The header in C++: the names that choose by type in C11 are overloads here, for every type, with a context and without.
// Templates can use them, and std::complex takes the place of C's complex types. The interface of OpenSHMEM 1.6 by its C11
// synopses; overloads for C++ are an extension ("Extensions to the type-generic interfaces").
//
#include "suite.h"
#include "types.h"

#include <complex>
#include <type_traits>
#include <vector>

template <typename T> static T value_of(uint64_t number) { return static_cast<T>(mix(number)); }

// Symmetric memory, zero, for `count` of a type.
template <typename T> static T *symmetric_of(size_t count) { return static_cast<T *>(symmetric(count * sizeof(T))); }

template <typename T> static void check_same(const char *what, T found, T wanted)
{
    if (found != wanted) FAIL("%s is %.21Lg, wanted %.21Lg", what, (long double)found, (long double)wanted);
}

#define CALL_FOR(NAME, TYPE)  \
    about("%s", #NAME);       \
    IN_TURN<TYPE>();

// ---- Remote memory access --------------------------------------------------------------------------------------------

template <typename T> static void put_get()
{
    T *words = symmetric_of<T>(16), here[4], back[4] = {};
    int to = next_pe();
    for (int i = 0; i < 4; i++) here[i] = value_of<T>(i);
    shmem_put(words + 1, here, 2, to);
    shmem_put(SHMEM_CTX_DEFAULT, words + 3, here + 2, 2, to);
    shmem_p(words + 6, here[0], to);
    shmem_p(SHMEM_CTX_DEFAULT, words + 7, here[1], to);
    shmem_iput(words + 8, here, 2, 3, 2, to);
    shmem_iput(SHMEM_CTX_DEFAULT, words + 12, here, 3, 1, 2, to);
    shmem_quiet();
    static_assert(std::is_same<decltype(shmem_g(words, to)), T>::value, "g returns the type");
    static_assert(std::is_same<decltype(shmem_g(SHMEM_CTX_DEFAULT, words, to)), T>::value, "g returns the type");
    for (int i = 0; i < 4; i++) check_same("put", shmem_g(words + 1 + i, to), here[i]);
    check_same("p", shmem_g(SHMEM_CTX_DEFAULT, words + 6, to), here[0]);
    check_same("p", shmem_g(static_cast<const T *>(words) + 7, to), here[1]);
    shmem_get(back, words + 1, 2, to);
    shmem_get(SHMEM_CTX_DEFAULT, back + 2, static_cast<const T *>(words) + 3, 2, to);
    for (int i = 0; i < 4; i++) check_same("get", back[i], here[i]);
    shmem_iget(back, words + 8, 1, 2, 2, to);
    shmem_iget(SHMEM_CTX_DEFAULT, back + 2, words + 12, 1, 3, 2, to);
    check_same("iput", back[0], here[0]);
    check_same("iput", back[1], here[3]);
    check_same("iput", back[2], here[0]);
    check_same("iput", back[3], here[1]);
}

CASE(put_get_overloads, 2, "shmem_put, _get, _p, _g, _iput, _iget are overloaded for every type")
{
#define IN_TURN put_get
    RMA_TYPES(CALL_FOR)
#undef IN_TURN
}

template <typename T> static void nonblocking()
{
    T *words = symmetric_of<T>(16), here[4], back[4] = {};
    uint64_t *sig = symmetric_of<uint64_t>(1);
    int to = next_pe();
    for (int i = 0; i < 4; i++) here[i] = value_of<T>(i + 8);
    shmem_put_nbi(words, here, 2, to);
    shmem_put_nbi(SHMEM_CTX_DEFAULT, words + 2, here + 2, 2, to);
    shmem_ibput(words + 8, here, 3, 2, 2, 2, to);
    shmem_ibput(SHMEM_CTX_DEFAULT, words + 13, here, 1, 3, 1, 2, to);
    shmem_quiet();
    shmem_get_nbi(back, words, 2, to);
    shmem_get_nbi(SHMEM_CTX_DEFAULT, back + 2, words + 2, 2, to);
    shmem_quiet();
    for (int i = 0; i < 4; i++) check_same("put_nbi", back[i], here[i]);
    shmem_ibget(back, words + 8, 2, 3, 2, 2, to);
    for (int i = 0; i < 4; i++) check_same("ibput", back[i], here[i]);
    shmem_ibget(SHMEM_CTX_DEFAULT, back, words + 13, 1, 1, 1, 2, to);
    check_same("ibput", back[1], here[3]);
    shmem_put_signal(words + 4, here, 1, sig, 1, SHMEM_SIGNAL_ADD, to);
    shmem_put_signal(SHMEM_CTX_DEFAULT, words + 5, here + 1, 1, sig, 1, SHMEM_SIGNAL_ADD, to);
    shmem_put_signal_nbi(words + 6, here + 2, 1, sig, 1, SHMEM_SIGNAL_ADD, to);
    shmem_put_signal_nbi(SHMEM_CTX_DEFAULT, words + 7, here + 3, 1, sig, 1, SHMEM_SIGNAL_ADD, to);
    shmem_quiet();
    shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 4);
    for (int i = 0; i < 4; i++) check_same("put_signal", words[4 + i], here[i]);
}

CASE(nonblocking_and_signal_overloads, 2,
     "shmem_put_nbi, _get_nbi, _ibput, _ibget, _put_signal are overloaded for every type")
{
#define IN_TURN nonblocking
    RMA_TYPES(CALL_FOR)
#undef IN_TURN
}

CASE(signal_overloads, 2, "shmem_signal_set and shmem_signal_add take a context first, or none")
{
    uint64_t *sig = symmetric_of<uint64_t>(1);
    shmem_signal_set(sig, 5, next_pe());
    shmem_quiet();
    shmem_signal_add(SHMEM_CTX_DEFAULT, sig, 6, next_pe());
    barrier();
    CHECK_EQ(shmem_signal_fetch(sig), 11);
}

// ---- Atomics ---------------------------------------------------------------------------------------------------------

template <typename T> static void standard_atomics()
{
    T *word = symmetric_of<T>(3) + 1, fetched[3] = {};
    const T zero = 0, big = value_of<T>(4), ten = 10, five = 5;
    int to = next_pe();
    check_same("compare_swap", shmem_atomic_compare_swap(word, zero, big, to), zero);
    check_same("compare_swap", shmem_atomic_compare_swap(SHMEM_CTX_DEFAULT, word, big, ten, to), big);
    check_same("fetch_inc", shmem_atomic_fetch_inc(word, to), ten);
    check_same("fetch_inc", shmem_atomic_fetch_inc(SHMEM_CTX_DEFAULT, word, to), static_cast<T>(11));
    shmem_atomic_inc(word, to);
    shmem_atomic_inc(SHMEM_CTX_DEFAULT, word, to);
    shmem_atomic_add(word, five, to);
    shmem_atomic_add(SHMEM_CTX_DEFAULT, word, five, to);
    shmem_quiet();
    check_same("fetch_add", shmem_atomic_fetch_add(word, ten, to), static_cast<T>(24));
    check_same("fetch_add", shmem_atomic_fetch_add(SHMEM_CTX_DEFAULT, word, ten, to), static_cast<T>(34));
    shmem_atomic_fetch_inc_nbi(fetched, word, to);
    shmem_quiet();
    shmem_atomic_fetch_add_nbi(SHMEM_CTX_DEFAULT, fetched + 1, word, five, to);
    shmem_quiet();
    shmem_atomic_compare_swap_nbi(fetched + 2, word, static_cast<T>(50), ten, to);
    shmem_quiet();
    check_same("fetch_inc_nbi", fetched[0], static_cast<T>(44));
    check_same("fetch_add_nbi", fetched[1], static_cast<T>(45));
    check_same("compare_swap_nbi", fetched[2], static_cast<T>(50));
    check_same("g", shmem_g(word, to), ten);
}

template <typename T> static void extended_atomics()
{
    T *word = symmetric_of<T>(3) + 1, fetched[2] = {};
    const T big = value_of<T>(5), seven = 7, eight = 8;
    int to = next_pe();
    shmem_atomic_set(word, big, to);
    shmem_quiet();
    check_same("fetch", shmem_atomic_fetch(static_cast<const T *>(word), to), big);
    check_same("swap", shmem_atomic_swap(word, seven, to), big);
    shmem_atomic_set(SHMEM_CTX_DEFAULT, word, eight, to);
    shmem_quiet();
    check_same("swap", shmem_atomic_swap(SHMEM_CTX_DEFAULT, word, seven, to), eight);
    check_same("fetch", shmem_atomic_fetch(SHMEM_CTX_DEFAULT, word, to), seven);
    shmem_atomic_fetch_nbi(fetched, word, to);
    shmem_quiet();
    shmem_atomic_swap_nbi(SHMEM_CTX_DEFAULT, fetched + 1, word, eight, to);
    shmem_quiet();
    check_same("fetch_nbi", fetched[0], seven);
    check_same("swap_nbi", fetched[1], seven);
    check_same("g", shmem_g(word, to), eight);
}

template <typename T> static void bitwise_atomics()
{
    T *word = symmetric_of<T>(3) + 1, fetched[3] = {};
    const T a = 0xf0, b = 0x3c;
    int to = next_pe();
    check_same("fetch_or", shmem_atomic_fetch_or(word, a, to), static_cast<T>(0));
    check_same("fetch_and", shmem_atomic_fetch_and(SHMEM_CTX_DEFAULT, word, b, to), a);
    check_same("fetch_xor", shmem_atomic_fetch_xor(word, a, to), static_cast<T>(0x30));
    shmem_atomic_or(word, b, to);
    shmem_quiet();
    shmem_atomic_and(SHMEM_CTX_DEFAULT, word, a, to);
    shmem_quiet();
    shmem_atomic_xor(word, b, to);
    shmem_quiet();
    shmem_atomic_fetch_or_nbi(fetched, word, a, to);
    shmem_quiet();
    shmem_atomic_fetch_and_nbi(fetched + 1, word, b, to);
    shmem_quiet();
    shmem_atomic_fetch_xor_nbi(SHMEM_CTX_DEFAULT, fetched + 2, word, b, to);
    shmem_quiet();
    check_same("fetch_or_nbi", fetched[0], static_cast<T>(0xcc));
    check_same("fetch_and_nbi", fetched[1], static_cast<T>(0xfc));
    check_same("fetch_xor_nbi", fetched[2], static_cast<T>(0x3c));
    check_same("g", shmem_g(word, to), static_cast<T>(0));
}

CASE(atomic_overloads, 2, "the atomics are overloaded for every type of their tables")
{
#define IN_TURN standard_atomics
    AMO_STANDARD_TYPES(CALL_FOR)
#undef IN_TURN
#define IN_TURN extended_atomics
    AMO_EXTENDED_TYPES(CALL_FOR)
#undef IN_TURN
#define IN_TURN bitwise_atomics
    AMO_BITWISE_TYPES(CALL_FOR)
#undef IN_TURN
}

// ---- Waiting ---------------------------------------------------------------------------------------------------------

template <typename T> static void wait_and_test()
{
    T *words = symmetric_of<T>(3);
    const T values[3] = {1, 2, 3}, two = 2;
    size_t indices[3];
    for (int i = 0; i < 3; i++) shmem_atomic_set(words + i, values[i], next_pe());
    shmem_wait_until(words, SHMEM_CMP_EQ, values[0]);
    CHECK_EQ(shmem_test(words, SHMEM_CMP_NE, values[0]), 0);
    shmem_wait_until_all(words, 3, nullptr, SHMEM_CMP_GE, values[0]);
    shmem_wait_until_all_vector(words, 3, nullptr, SHMEM_CMP_EQ, values);
    CHECK_EQ(shmem_wait_until_any(words, 3, nullptr, SHMEM_CMP_EQ, two), 1);
    CHECK(shmem_wait_until_any_vector(words, 3, nullptr, SHMEM_CMP_EQ, values) < 3);
    CHECK_EQ(shmem_wait_until_some(words, 3, indices, nullptr, SHMEM_CMP_GE, two), 2);
    CHECK_EQ(shmem_wait_until_some_vector(words, 3, indices, nullptr, SHMEM_CMP_GE, values), 3);
    CHECK_EQ(shmem_test_all(words, 3, nullptr, SHMEM_CMP_LT, two), 0);
    CHECK_EQ(shmem_test_all_vector(words, 3, nullptr, SHMEM_CMP_LE, values), 1);
    CHECK_EQ(shmem_test_any(words, 3, nullptr, SHMEM_CMP_LT, values[0]), SIZE_MAX);
    CHECK_EQ(shmem_test_any_vector(words, 3, nullptr, SHMEM_CMP_LT, values), SIZE_MAX);
    CHECK_EQ(shmem_test_some(words, 3, indices, nullptr, SHMEM_CMP_LE, two), 2);
    CHECK_EQ(shmem_test_some_vector(words, 3, indices, nullptr, SHMEM_CMP_NE, values), 0);
}

CASE(waiting_overloads, 2, "the routines that wait and test are overloaded for every type")
{
#define IN_TURN wait_and_test
    AMO_STANDARD_TYPES(CALL_FOR)
#undef IN_TURN
}

// ---- Collectives -----------------------------------------------------------------------------------------------------

template <typename T> static void moving_collectives()
{
    T *from = symmetric_of<T>(4), *into = symmetric_of<T>(4);
    for (int i = 0; i < 4; i++) from[i] = value_of<T>(10 * me() + i);
    CHECK_EQ(shmem_broadcast(SHMEM_TEAM_WORLD, into, from, 2, 1), 0);
    check_same("broadcast", into[1], value_of<T>(11));
    barrier();
    CHECK_EQ(shmem_fcollect(SHMEM_TEAM_WORLD, into, from, 2), 0);
    check_same("fcollect", into[3], value_of<T>(11));
    barrier();
    CHECK_EQ(shmem_collect(SHMEM_TEAM_WORLD, into, from, static_cast<size_t>(1 + me())), 0);
    check_same("collect", into[2], value_of<T>(11));
    barrier();
    CHECK_EQ(shmem_alltoall(SHMEM_TEAM_WORLD, into, from, 2), 0);
    check_same("alltoall", into[2], value_of<T>(10 + 2 * me()));
    barrier();
    CHECK_EQ(shmem_alltoalls(SHMEM_TEAM_WORLD, into, from, 2, 2, 1), 0);
    check_same("alltoalls", into[2], value_of<T>(10 + 2 * me()));
    barrier();
}

template <typename T> static void ordered_reductions()
{
    T *from = symmetric_of<T>(1), *into = symmetric_of<T>(1);
    *from = static_cast<T>(3 + me());
    CHECK_EQ(shmem_max_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("max", *into, static_cast<T>(4));
    barrier();
    CHECK_EQ(shmem_min_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("min", *into, static_cast<T>(3));
    barrier();
    CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("sum", *into, static_cast<T>(7));
    barrier();
    CHECK_EQ(shmem_prod_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("prod", *into, static_cast<T>(12));
    barrier();
    CHECK_EQ(shmem_sum_inscan(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("inscan", *into, static_cast<T>(me() == 0 ? 3 : 7));
    barrier();
    CHECK_EQ(shmem_sum_exscan(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("exscan", *into, static_cast<T>(me() == 0 ? 0 : 3));
    barrier();
}

template <typename T> static void bitwise_reductions()
{
    T *from = symmetric_of<T>(1), *into = symmetric_of<T>(1);
    *from = static_cast<T>(3 + 2 * me()); // 3 and 5
    CHECK_EQ(shmem_and_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("and", *into, static_cast<T>(1));
    barrier();
    CHECK_EQ(shmem_or_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("or", *into, static_cast<T>(7));
    barrier();
    CHECK_EQ(shmem_xor_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    check_same("xor", *into, static_cast<T>(6));
    barrier();
}

template <typename Real> static void complex_reductions()
{
    using Number = std::complex<Real>;
    Number *from = symmetric_of<Number>(1), *into = symmetric_of<Number>(1);
    *from = Number(static_cast<Real>(1 + me()), 1); // 1 + i and 2 + i
    CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    CHECK(*into == Number(3, 2));
    barrier();
    CHECK_EQ(shmem_prod_reduce(SHMEM_TEAM_WORLD, into, from, 1), 0);
    CHECK(*into == Number(1, 3));
    barrier();
    CHECK_EQ(shmem_sum_inscan(SHMEM_TEAM_WORLD, into, from, 1), 0);
    CHECK(*into == (me() == 0 ? Number(1, 1) : Number(3, 2)));
    barrier();
}

CASE(collective_overloads, 2, "the collectives are overloaded for every type of their tables, std::complex included")
{
#define IN_TURN moving_collectives
    RMA_TYPES(CALL_FOR)
#undef IN_TURN
#define IN_TURN ordered_reductions
    REDUCE_ORDERED_TYPES(CALL_FOR)
#undef IN_TURN
#define IN_TURN bitwise_reductions
    REDUCE_BITWISE_TYPES(CALL_FOR)
#undef IN_TURN
    complex_reductions<double>();
    complex_reductions<float>();
    CHECK_EQ(shmem_sync(SHMEM_TEAM_WORLD), 0);
}

// ---- The rest --------------------------------------------------------------------------------------------------------

static long global_word = 7;
namespace in_a_namespace {
int word;
}
struct Holder {
    static double member;
};
double Holder::member;

CASE(static_objects, 2, "variables of namespaces and static members of classes are symmetric (Memory Model)")
{
    static short of_a_function;
    CHECK_EQ(global_word, 7);
    barrier();
    shmem_p(&global_word, 8L + me(), next_pe());
    shmem_p(&in_a_namespace::word, 20 + me(), next_pe());
    shmem_p(&Holder::member, 1.5 + me(), next_pe());
    shmem_p(&of_a_function, static_cast<short>(30 + me()), next_pe());
    barrier();
    CHECK_EQ(global_word, 8 + previous_pe());
    CHECK_EQ(in_a_namespace::word, 20 + previous_pe());
    CHECK_NUMBER(Holder::member, 1.5 + previous_pe());
    CHECK_EQ(of_a_function, 30 + previous_pe());
}

CASE(containers_are_sources, 2, "the elements of a container can be put, and got into")
{
    std::vector<int> mine(1000), back(1000);
    for (size_t i = 0; i < mine.size(); i++) mine[i] = static_cast<int>(i) + 5000 * me();
    int *there = symmetric_of<int>(mine.size());
    shmem_put(there, mine.data(), mine.size(), next_pe());
    shmem_quiet();
    shmem_get(back.data(), there, back.size(), next_pe());
    CHECK(back == mine);
}
