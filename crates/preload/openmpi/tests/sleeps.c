/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Files from one source: a component that sleeps for a second when it closes (COMPONENT), a library that counts the calls
 * of sleep which reach the C library's place (COUNTER), and a program that closes components. With LIBRARY the component
 * is part of a library, whose function of this name closes it.
 *
 *     sleeps [FILE CALLS]...      closes each component: CALLS of its calls have to reach the counter */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#if defined COMPONENT

#ifdef LIBRARY
static __attribute__((noinline))
#endif
int component_close(void)
{
    int left = (int)sleep(1);
    return left + 7;
}

#ifdef LIBRARY
int mca_base_component_close(void)
{
    int code = component_close();
    return code;
}
#endif

int component_waits(void)
{
    int left = (int)sleep(2);
    return left + 7;
}

#elif defined COUNTER

int sleep_calls;

unsigned sleep(unsigned seconds)
{
    (void)seconds;
    sleep_calls++;
    return 0;
}

#else

#include <dlfcn.h>
#include <stdlib.h>

static int fails(const char *file, const char *what, int found, int wanted)
{
    if (found != wanted) fprintf(stderr, "%s, %s: %d, not %d\n", file, what, found, wanted);
    return found != wanted;
}

int main(int count, char **words)
{
    int failed = 0;
    int *calls = dlsym(RTLD_DEFAULT, "sleep_calls");
    if (!calls) return 2;
    for (int i = 1; i + 1 < count; i += 2) {
        void *component = dlopen(words[i], RTLD_NOW);
        int (*closes)(void) = component ? (int (*)(void))dlsym(component, "component_close") : NULL;
        if (component && !closes) closes = (int (*)(void))dlsym(component, "mca_base_component_close");
        int (*waits)(void) = component ? (int (*)(void))dlsym(component, "component_waits") : NULL;
        if (!closes || !waits) return 3;
        *calls = 0;
        failed |= fails(words[i], "result", closes(), 7);
        failed |= fails(words[i], "calls of sleep(1)", *calls, atoi(words[i + 1]));
        *calls = 0;
        failed |= fails(words[i], "result", waits(), 7);
        failed |= fails(words[i], "calls of sleep(2)", *calls, 1);
    }
    *calls = 0;
    failed |= fails("program", "result", (int)sleep(1), 0);
    failed |= fails("program", "calls of sleep(1)", *calls, 1);
    return failed;
}

#endif
