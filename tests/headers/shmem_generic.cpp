// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The names of shmem_generic.c as overloads in C++, and std::complex, which only C++ has.
#include <complex>
#include <type_traits>

#include "shmem_generic.c"

void use_complex();

void use_complex()
{
    USE_NUMBER(std::complex<double>)
    USE_NUMBER(std::complex<float>)

    static const float real = 0;
    static_assert(std::is_same<decltype(shmem_g(&real, 0)), float>::value, "a float");
    static_assert(std::is_same<decltype(shmem_sync(team)), int>::value, "an int");
    static_assert(std::is_same<decltype(shmem_sync(0, 0, 0, static_cast<long *>(nullptr))), void>::value, "nothing");
}
