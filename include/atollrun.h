/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * atollrun.h: start of a program that velorun, in the role of atollrun, or `selvedge run` launched (seed 002, section 2.3.2): a port, rank
 * and size, and a connection to every rank. Everything is in libatoll.so. velorun.h adds a barrier and an exchange.
 *
 * The class Atollrun is for C++, the functions for C. A program uses one of them, once. The settings come before the start. The seed does
 * not print the names of the settings, nor those of the C functions.
 */
#ifndef ATOLLRUN_H
#define ATOLLRUN_H

#include "atoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets whether the start connects to every rank. Default: yes. */
void atollrun_set_auto_connect(int enabled);
/* Sets whether the start tests every connection in both directions. Default: no. */
void atollrun_set_communication_test(int enabled);
/* Sets whether the start prints its steps on standard error. */
void atollrun_set_verbose(int enabled);

/* Joins the job, opens a Hostport, and applies the settings. Collective. Leaves the command line unchanged. */
int atollrun_init(int *argc, char ***argv);
/* Ends the connections, closes the port, and leaves the job. Collective. */
int atollrun_finalize(void);

int atollrun_rank(void);
int atollrun_size(void);
/* Port of this process. NULL before the start. */
Atoll_Port atollrun_port(void);
/* Connection to a rank, also to the own one; 0 if not connected. */
Atoll_Handle atollrun_handle(int rank);
/* Id of a rank's port; ATOLL_NO_ID if there is no such rank. */
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
