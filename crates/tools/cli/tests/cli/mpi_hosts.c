/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A plain MPI program: MPICH starts it over PMI-1, and finds the ranks that share a host. */

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, length;
    long own, sum;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    own = rank + 1;
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    printf("%d of %d on %s sum %ld\n", rank, size, host, sum);
    MPI_Finalize();
    return 0;
}
