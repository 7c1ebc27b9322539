/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * connect: processes that connect by the name of a port. Every received byte is compared.
 *
 *   connect                the odd ranks of the job connect to the even ones: by the port's name, then by a published name, if the launcher
 *                          has names
 *   connect accept FILE    the job accepts two connections, one after the other, and writes the port's name to FILE
 *   connect connect FILE   another job connects twice
 *
 * A failed check ends the job with an error.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 300000, TAG = 7, ROUNDS = 2, PATIENCE_S = 60 };

static unsigned char out[LONGEST], in[LONGEST];
static char port[MPI_MAX_PORT_NAME];

static void wrong(const char *what, long at)
{
    fprintf(stderr, "connect: %s: wrong at %ld\n", what, at);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(int side, int sender, int receiver, int i)
{
    return (unsigned char)(i * 31 + i / 251 + side * 17 + sender * 101 + receiver * 7);
}

/* Every process exchanges messages with every process of the other side; then both sides become one communicator. */
static void talk(MPI_Comm other, int side)
{
    static const int lengths[] = {0, 8, 5000, LONGEST};
    int rank, size, others;
    MPI_Comm_rank(other, &rank);
    MPI_Comm_size(other, &size);
    MPI_Comm_remote_size(other, &others);
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int turn = 0; turn < (size > others ? size : others); turn++) {
            /* In one turn each rank has one partner, whose partner it is. So no rank waits for a rank that waits for a third. */
            int rows = size > others ? size : others, peer = (turn + rows - rank) % rows, bytes = lengths[l], count;
            if (peer >= others)
                continue;
            MPI_Status status;
            for (int i = 0; i < bytes; i++)
                out[i] = pattern(side, rank, peer, i);
            memset(in, 0, sizeof in);
            MPI_Sendrecv(out, bytes, MPI_BYTE, peer, TAG, in, LONGEST, MPI_BYTE, peer, TAG, other, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            if (count != bytes)
                wrong("a length", count);
            for (int i = 0; i < bytes; i++)
                if (in[i] != pattern(!side, peer, rank, i))
                    wrong("a message", i);
        }
    MPI_Comm all;
    int one = 1, sum = 0;
    MPI_Intercomm_merge(other, side, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    if (sum != size + others)
        wrong("a sum", sum);
    MPI_Comm_free(&all);
}

static void serve(MPI_Comm mine)
{
    MPI_Comm other;
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, mine, &other);
    talk(other, 0);
    MPI_Comm_disconnect(&other);
}

static void call(MPI_Comm mine)
{
    MPI_Comm other;
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, mine, &other);
    talk(other, 1);
    MPI_Comm_disconnect(&other);
}

static void halves(void)
{
    static const char service[] = "selvedge-connect";
    MPI_Comm mine;
    int rank, published = 0, found = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &mine);
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++)
        rank % 2 ? call(mine) : serve(mine);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0)
        published = MPI_Publish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS;
    MPI_Bcast(&published, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!published) {
        if (rank == 0)
            printf("connect: this launcher has no published names: left out\n");
    } else if (rank % 2) {
        memset(port, 0, sizeof port);
        found = MPI_Lookup_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS;
        if (!found)
            wrong("the published name", rank);
        call(mine);
    } else {
        serve(mine);
    }
    if (rank == 0) {
        if (published)
            MPI_Unpublish_name(service, MPI_INFO_NULL, port);
        MPI_Close_port(port);
        printf("connect: right\n");
    }
    MPI_Comm_free(&mine);
}

static void write_port(const char *path)
{
    char under_way[4096];
    snprintf(under_way, sizeof under_way, "%s.new", path);
    FILE *file = fopen(under_way, "w");
    if (!file || fputs(port, file) < 0 || fclose(file) || rename(under_way, path))
        wrong("the file for the port's name", 0);
}

static void read_port(const char *path)
{
    FILE *file;
    for (int tries = 0; !(file = fopen(path, "r")); tries++) {
        if (tries == PATIENCE_S * 10)
            wrong("no port's name within the limit, in seconds", PATIENCE_S);
        usleep(100000);
    }
    if (!fgets(port, sizeof port, file))
        wrong("the port's name", 0);
    fclose(file);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) {
        halves();
    } else {
        int accepts = strcmp(argv[1], "accept") == 0;
        if (rank == 0 && accepts) {
            MPI_Open_port(MPI_INFO_NULL, port);
            write_port(argv[2]);
        } else if (rank == 0) {
            read_port(argv[2]);
        }
        for (int round = 0; round < ROUNDS; round++)
            accepts ? serve(MPI_COMM_WORLD) : call(MPI_COMM_WORLD);
        if (rank == 0 && accepts)
            MPI_Close_port(port);
        if (rank == 0)
            printf("connect: %s: right\n", argv[1]);
    }
    MPI_Finalize();
    return 0;
}
