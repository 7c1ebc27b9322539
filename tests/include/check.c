/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* main(), the table of cases, and the checks of every C test suite. See check.h for the contract. */
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

/* STATUS_SKIPPED: the exit status of a case that skips itself. The runner has the same number. */
enum { CASES_MAX = 256, GUARD_BYTE = 0xee, STATUS_SKIPPED = 77 };

static struct test_case cases[CASES_MAX];
static int cases_count;
static _Thread_local char subject[256];

/* ---- Checks --------------------------------------------------------------------------------------------- */

void about(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(subject, sizeof subject, format, arguments);
    va_end(arguments);
}

const char *what_is_tried(void) { return subject; }

void fail_at(const char *file, int line, const char *format, ...)
{
    const struct suite *suite = the_suite();
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: rank %d%s%s%s: %s\n", file, line, rank(), suite->context != NULL ? suite->context() : "",
            subject[0] ? ", " : "", subject, message);
    fflush(stderr);
    if (suite->end_job != NULL) suite->end_job();
    _exit(1);
}

void skip(const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (!the_suite()->may_skip) FAIL("the case skips itself, and must not: %s", message);
    printf("skipped: %s\n", message);
    fflush(stdout);
    _exit(STATUS_SKIPPED);
}

static const char *name_of(const char *found_text, const char *wanted_text, unsigned long long value)
{
    const struct suite *suite = the_suite();
    return suite->value_name != NULL ? suite->value_name(found_text, wanted_text, value) : "";
}

/* Formats "7 (0x7)", and the value's name if it has one. */
static const char *print_integer(char *text, size_t room, const char *found_text, const char *wanted_text,
                                 unsigned long long value)
{
    const char *name = name_of(found_text, wanted_text, value);
    snprintf(text, room, "%lld (0x%llx)%s%s", (long long)value, value, name[0] ? " " : "", name);
    return text;
}

void check_eq_at(const char *file, int line, const char *found_text, unsigned long long found, const char *wanted_text,
                 unsigned long long wanted)
{
    if (found == wanted) return;
    char found_value[128], wanted_value[128];
    fail_at(file, line, "%s is %s, wanted %s = %s", found_text,
            print_integer(found_value, sizeof found_value, found_text, wanted_text, found), wanted_text,
            print_integer(wanted_value, sizeof wanted_value, found_text, wanted_text, wanted));
}

void check_either_at(const char *file, int line, const char *found_text, unsigned long long found, const char *one_text,
                     unsigned long long one, const char *other_text, unsigned long long other)
{
    if (found == one || found == other) return;
    char found_value[128], one_value[128], other_value[128];
    fail_at(file, line, "%s is %s, wanted %s = %s or %s = %s", found_text,
            print_integer(found_value, sizeof found_value, found_text, one_text, found), one_text,
            print_integer(one_value, sizeof one_value, found_text, one_text, one), other_text,
            print_integer(other_value, sizeof other_value, found_text, other_text, other));
}

void check_number_at(const char *file, int line, const char *found_text, long double found, const char *wanted_text,
                     long double wanted)
{
    if (found == wanted) return;
    fail_at(file, line, "%s is %.21Lg, wanted %s = %.21Lg", found_text, found, wanted_text, wanted);
}

void check_text_at(const char *file, int line, const char *found_text, const char *found, const char *wanted_text,
                   const char *wanted)
{
    if (strcmp(found, wanted) == 0) return;
    fail_at(file, line, "%s is \"%s\", wanted %s = \"%s\"", found_text, found, wanted_text, wanted);
}

void check_same_at(const char *file, int line, const char *found_text, const void *found, const char *wanted_text,
                   const void *wanted, size_t bytes)
{
    const unsigned char *at = found, *wanted_at = wanted;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != wanted_at[i])
            fail_at(file, line, "%s: byte %zu of %zu is 0x%02x, wanted 0x%02x of %s", found_text, i, bytes, at[i],
                    wanted_at[i], wanted_text);
}

void check_bytes_at(const char *file, int line, const char *text, const void *start, size_t bytes, int value)
{
    const unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)value)
            fail_at(file, line, "%s: byte %zu of %zu is 0x%02x, wanted 0x%02x", text, i, bytes, at[i],
                    (unsigned char)value);
}

static unsigned char pattern_byte(size_t at, unsigned seed)
{
    uint64_t mixed = (at + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(mixed >> 56);
}

void pattern_fill(void *start, size_t bytes, unsigned seed)
{
    unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++) at[i] = pattern_byte(i, seed);
}

void check_pattern_at(const char *file, int line, const char *text, const void *start, size_t bytes, unsigned seed)
{
    const unsigned char *at = start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_byte(i, seed))
            fail_at(file, line, "%s: byte %zu of %zu is 0x%02x, wanted 0x%02x of pattern %u", text, i, bytes, at[i],
                    pattern_byte(i, seed), seed);
}

static unsigned long long word_from(const void *value, size_t bytes)
{
    if (bytes == sizeof(unsigned)) return *(const unsigned *)value;
    unsigned long long word = 0;
    memcpy(&word, value, bytes < sizeof word ? bytes : sizeof word);
    return word;
}

static void print_value(char *text, size_t room, const void *value, enum value_kind kind, size_t bytes)
{
    switch (kind) {
    case VALUE_SIGNED: {
        unsigned long long word = word_from(value, bytes);
        snprintf(text, room, "%lld", bytes == sizeof(int) ? (long long)(int)word : (long long)word);
        break;
    }
    case VALUE_UNSIGNED:
        snprintf(text, room, "%llu (0x%llx)", word_from(value, bytes), word_from(value, bytes));
        break;
    case VALUE_FLOAT:
        snprintf(text, room, "%.9g", *(const float *)value);
        break;
    case VALUE_DOUBLE:
        snprintf(text, room, "%.17g", *(const double *)value);
        break;
    case VALUE_LONG_DOUBLE:
        snprintf(text, room, "%.21Lg", *(const long double *)value);
        break;
    case VALUE_POINTER:
        snprintf(text, room, "0x%llx", word_from(value, bytes));
        break;
    }
}

void fail_op_at(const char *file, int line, const char *found_text, const void *found, const char *op,
                const char *wanted_text, const void *wanted, enum value_kind kind, size_t bytes)
{
    char found_value[64], wanted_value[64];
    print_value(found_value, sizeof found_value, found, kind, bytes);
    print_value(wanted_value, sizeof wanted_value, wanted, kind, bytes);
    fail_at(file, line, "%s is %s, wanted %s %s = %s", found_text, found_value, op, wanted_text, wanted_value);
}

/* ---- Memory with guards --------------------------------------------------------------------------------- */

static size_t rounded_bytes(size_t bytes)
{
    return (bytes + BLOCK_ALIGN_BYTES - 1) / BLOCK_ALIGN_BYTES * BLOCK_ALIGN_BYTES;
}

size_t guarded_bytes(size_t bytes) { return rounded_bytes(bytes) + 2 * GUARD_BYTES; }

void *guard_block(void *block, size_t bytes)
{
    memset(block, GUARD_BYTE, guarded_bytes(bytes));
    return memset((unsigned char *)block + GUARD_BYTES, 0, bytes);
}

void check_block(const void *block, size_t bytes)
{
    const unsigned char *at = block;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (at[i] != GUARD_BYTE)
            FAIL("0x%02x was written %zu bytes before memory of %zu bytes", at[i], GUARD_BYTES - i, bytes);
    for (size_t i = GUARD_BYTES + bytes; i < guarded_bytes(bytes); i++)
        if (at[i] != GUARD_BYTE)
            FAIL("0x%02x was written %zu bytes behind memory of %zu bytes", at[i], i - GUARD_BYTES - bytes, bytes);
}

/* ---- The rest ------------------------------------------------------------------------------------------- */

uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du;
}

long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void nap_us(long us)
{
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/* ---- The program ---------------------------------------------------------------------------------------- */

void case_register(const char *name, int ranks, const char *rule, void (*body)(void), struct case_extra extra)
{
    int most = the_suite()->ranks_max;
    if (cases_count == CASES_MAX || ranks < 1 || ranks > most || extra.crowded > most) abort();
    cases[cases_count++] = (struct test_case){name, ranks, rule, body, extra};
}

static void list_text(const char *key, const char *value)
{
    if (value != NULL) printf("\t%s=%s", key, value);
}

/* Prints name, ranks, rule, then KEY=VALUE for the other members of a case; tabs between. */
static void list_cases(void)
{
    for (int i = 0; i < cases_count; i++) {
        const struct case_extra *extra = &cases[i].extra;
        printf("%s\t%d\t%s", cases[i].name, cases[i].ranks, cases[i].rule);
        if (extra->crowded != 0) printf("\tcrowded=%d", extra->crowded);
        if (extra->status != 0) printf("\tstatus=%d", extra->status);
        list_text("needs", extra->needs);
        list_text("environment", extra->environment);
        list_text("prints", extra->prints);
        list_text("prints_not", extra->prints_not);
        list_text("stock", extra->stock);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_cases();
        return 0;
    }
    for (int i = 0; argc == 2 && i < cases_count; i++)
        if (strcmp(argv[1], cases[i].name) == 0) return the_suite()->run(&cases[i]);
    fprintf(stderr, "usage: %s --list | CASE (one of %d)\n", argv[0], cases_count);
    return 2;
}
