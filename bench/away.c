/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Work, messages and result of the overlap programs; see away.h for the method. */
#define _GNU_SOURCE
#include "away.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define WORK_WORDS 256
#define WORK_ROUNDS 8
#define SECOND_NS 1e9
#define TRIAL_PIECES 5000
#define TRIALS 5

/* ---- work ---- */

void work_many(uint64_t pieces)
{
    static uint64_t words[WORK_WORDS];
    static volatile uint64_t sink;
    for (uint64_t i = 0; i < pieces; i++)
        sink += work_on(words, WORK_WORDS, WORK_ROUNDS);
}

static uint64_t work_alone(uint64_t pieces)
{
    uint64_t start = now_ns();
    work_many(pieces);
    return now_ns() - start;
}

static uint64_t work_of_a_second(void)
{
    struct samples s = samples_new(TRIALS);
    for (unsigned i = 0; i < TRIALS; i++)
        samples_add(&s, (double)work_alone(TRIAL_PIECES) / TRIAL_PIECES);
    double piece_ns = samples_quantile(&s, 0.5);
    samples_free(&s);
    return (uint64_t)(SECOND_NS / piece_ns) + 1;
}

void sleep_until(uint64_t when_ns)
{
    struct timespec t = { .tv_sec = (time_t)(when_ns / 1000000000u), .tv_nsec = (long)(when_ns % 1000000000u) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

/* ---- messages ---- */

unsigned char *message(unsigned char *all, unsigned i) { return all + (size_t)i * MESSAGE_BYTES; }

/* Never zero, the initial value of the memory. */
static uint64_t word_of(size_t at) { return (uint64_t)at * UINT64_C(0x9E3779B97F4A7C15) | 1; }

void messages_fill(unsigned char *all)
{
    uint64_t *words = (uint64_t *)(void *)all;
    for (size_t i = 0; i < MESSAGES * MESSAGE_BYTES / sizeof *words; i++)
        words[i] = word_of(i);
}

static bool is_right(const unsigned char *all, unsigned i, size_t step_words)
{
    const volatile uint64_t *words = (const volatile uint64_t *)(const void *)all;
    size_t from = i * (MESSAGE_BYTES / sizeof *words), end = from + MESSAGE_BYTES / sizeof *words;
    for (size_t at = from; at < end; at += step_words)
        if (words[at] != word_of(at))
            return false;
    return words[end - 1] == word_of(end - 1);
}

/* Counts the messages of which every page has arrived, by one word of each page. */
static unsigned messages_arrived(const unsigned char *all)
{
    unsigned arrived = 0;
    for (unsigned i = 0; i < MESSAGES; i++)
        arrived += is_right(all, i, PAGE_BYTES / sizeof(uint64_t));
    return arrived;
}

static void messages_verify(const unsigned char *all)
{
    for (unsigned i = 0; i < MESSAGES; i++)
        if (!is_right(all, i, 1))
            die("message %u of %d arrived wrong", i, MESSAGES);
}

void messages_send(uint64_t start_ns, void *self, void (*send)(void *self, unsigned i), void (*progress)(void *self))
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t when_ns = start_ns + i * MESSAGE_PERIOD_NS;
        if (progress == NULL)
            sleep_until(when_ns);
        while (now_ns() < when_ns)
            progress(self);
        send(self, i);
    }
}

/* ---- the whole ---- */

static double processor_of(int whom)
{
    struct rusage used;
    getrusage(whom, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

double processor_s(void) { return processor_of(RUSAGE_SELF); }

static void report(const struct options *o, const char *name, const char *kind, double value, const char *unit)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", name, kind);
    struct result r = result_new(whole, (long long)MESSAGE_BYTES, MESSAGES);
    r.value = value;
    r.unit = unit;
    r.samples = 1;
    result_print(o, &r);
}

void away_measure(const struct options *o, const char *name, unsigned char *all, void *self, uint64_t (*start)(void *self),
                  void (*finish)(void *self))
{
    uint64_t pieces = work_of_a_second(), before_ns = work_alone(pieces);
    sleep_until(start(self));
    double threads_s = processor_s() - processor_of(RUSAGE_THREAD);
    uint64_t with_ns = work_alone(pieces);
    unsigned arrived = messages_arrived(all);
    threads_s = processor_s() - processor_of(RUSAGE_THREAD) - threads_s;
    finish(self);
    messages_verify(all);
    double alone_ns = ((double)before_ns + (double)work_alone(pieces)) / 2.0;
    report(o, name, "", alone_ns / (double)with_ns, "of its speed");
    report(o, name, ":arrived", arrived, "messages");
    report(o, name, ":threads", threads_s < 0.0 ? 0.0 : threads_s, "s");
}
