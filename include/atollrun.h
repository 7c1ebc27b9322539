/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * atollrun.h: the start of a program that velorun, in the role of atollrun, or `selvedge run` has started (seed 002, section 2.3.2): a
 * port, rank and size, and a connection to every rank. Everything is in libatoll.so. velorun.h has a barrier and an exchange beside it.
 *
 * The class Atollrun is for C++, the functions for C. A program has one of either. The settings come before the start. The text does
 * not print the names of the settings, nor those of the C functions.
 */
#ifndef ATOLLRUN_H
#define ATOLLRUN_H

#include "atoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the start connects to every rank; it does unless this is 0. */
void atollrun_set_auto_connect(int enabled);
/* Whether the start tests every connection in both directions. It does not unless this is set. */
void atollrun_set_communication_test(int enabled);
/* Whether the start prints on standard error what it has done. */
void atollrun_set_verbose(int enabled);

/* Joins the job, opens a Hostport, and does what the settings say. Collective. Takes the command line, and leaves it as it is. */
int atollrun_init(int *argc, char ***argv);
/* Ends the connections, closes the port, and leaves the job. Collective. */
int atollrun_finalize(void);

int atollrun_rank(void);
int atollrun_size(void);
/* NULL before the start. */
Atoll_Port atollrun_port(void);
/* The connection to a rank, the own one too; 0 if there is none. */
Atoll_Handle atollrun_handle(int rank);
/* The id of a rank's port; ATOLL_NO_ID if there is no such rank. */
Atoll_Id atollrun_id(int rank);

#ifdef __cplusplus
}

class Atollrun {
public:
    Atollrun() {}
    ~Atollrun() { atollrun_finalize(); }

    void setAutoConnect(bool enabled) { atollrun_set_auto_connect(enabled); }
    void setCommunicationTest(bool enabled) { atollrun_set_communication_test(enabled); }
    void setVerbose(bool enabled) { atollrun_set_verbose(enabled); }

    int init(int &argc, char **&argv) { return atollrun_init(&argc, &argv); }
    int getCommRank() const { return atollrun_rank(); }
    int getCommSize() const { return atollrun_size(); }
    Atoll_Port getPort() const { return atollrun_port(); }
    Atoll_Handle getHandle(int rank) const { return atollrun_handle(rank); }
    Atoll_Id getId(int rank) const { return atollrun_id(rank); }

private:
    Atollrun(const Atollrun &);
    Atollrun &operator=(const Atollrun &);
};
#endif
#endif
