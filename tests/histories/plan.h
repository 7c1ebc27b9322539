/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The plan of a random history, and the model of its outcome. plan.c describes both. */
#ifndef HISTORIES_PLAN_H
#define HISTORIES_PLAN_H

#include "transfers.h"

enum { MESSAGES_MAX = 512, RECEIVES_MAX = 2 * MESSAGES_MAX + 64, BYTES_MAX = 102400, INJECTED_MAX = 2049, PIECES_MAX = 4 };

/* A stream of random numbers. Messages have one, which is the same on all ranks; the receives of each rank have another. */
struct draw {
    uint64_t state;
};

struct draw draw_for(uint64_t seed, uint64_t phase, uint64_t stream);
int below(struct draw *d, int bound);
bool percent(struct draw *d, int chance);

struct history {
    uint64_t seed;
    int parties, phases; /* ranks from `parties` on only wait in the barriers */
    bool tells_source, one_thread;
    uint64_t default_completion; /* of sends */
};

enum call { PLAIN, VECTOR, FLAGGED, INJECTED, WITH_DATA, INJECTED_WITH_DATA, CALLS };

struct message {
    int number; /* in the history */
    int from, to;
    enum kind kind;
    uint64_t tag;
    size_t bytes;
    enum call call;
    uint64_t flags;
    bool has_data;
    int pieces;
};

enum role { RECEIVE, MANY, PEEK, DISCARD, PEEK_AND_CLAIM, CLAIM, CANCELLED_BEFORE };
extern const char *const ROLE_NAMES[];
enum section { EARLY, AMONG, LATE };

/* Outcome of a receive, computed by the model and filled from completions alike. */
struct outcome {
    int error;
    int source;     /* -1: not reported */
    bool has_bytes; /* a peek has none */
    size_t bytes, missing;
    uint64_t tag, data, flags;
    uint64_t number; /* of the message, as far as data or bytes identify it; its low `number_bytes` bytes */
    int number_bytes;
    uint64_t sum;
};

struct outcomes {
    struct outcome *list;
    int count;
};

struct receive {
    struct fi_context context; /* first member: a completion leads to the receive */
    enum role role;
    enum section section;
    enum kind kind;
    int source; /* -1: any */
    uint64_t tag, ignore;
    size_t room;
    bool flagged; /* the call that takes flags */
    int pieces;
    bool cancel_soon; /* if nothing matches it: right after it is posted, not at the end */
    int claimed;      /* of a peek: the index of the message that it claims */
    int claims;       /* of a claim: the index of its peek */
    struct outcomes wanted, found;
    bool used_up, cancelled; /* used_up: of a FI_MULTI_RECV buffer */
    int given_back;
    const unsigned char **places; /* of the outcomes found, for FI_MULTI_RECV */
    struct receive *completes_as;
    unsigned char *block;
};

struct send {
    struct fi_context context;
    int completions, completions_wanted;
    unsigned char *bytes;
};

struct phase {
    int number;
    bool first_barrier, second_barrier, own_tags;
    int early_percent, longest; /* an index into LENGTHS, exclusive */
    struct message messages[MESSAGES_MAX];
    int messages_count;
    bool taken[MESSAGES_MAX]; /* by receives of this rank */
    struct receive receives[RECEIVES_MAX];
    int receives_count;
    struct send sends[MESSAGES_MAX];
};

extern struct history history;
extern struct phase phase; /* the current one: its messages, and this rank's receives */

void plan_history(uint64_t seed);
/* Plan the next phase, whose messages are numbered from `first_message`, then its receives on this rank. */
void plan_messages(struct draw *d, int number, int first_message);
void plan_receives(struct draw *d);

/* Every part of a message's data identifies the message; the first four bytes are its number. */
void fill_message(unsigned char *bytes, const struct message *m);
uint64_t data_of(const struct message *m);
uint64_t sum_of(const unsigned char *bytes, size_t count);
/* Finds the message's number from the data that the receiver sees. */
void tell_number(struct outcome *o, const unsigned char *bytes);
struct outcome *outcome_add(struct outcomes *o, struct outcome one);

#endif
