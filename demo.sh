#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Shows examples of Selvedge and the cost of communication on this machine. Part of `make demo`, which builds first. Takes about a minute.
# Fails if an example finds a wrong byte or a measurement fails.
set -euo pipefail
cd "$(dirname "$0")"

tree=build
selvedge=$tree/bin/selvedge
if [[ ! -x $selvedge ]]; then
    echo "demo: $selvedge is missing; run: make demo" >&2
    exit 1
fi
table=$(mktemp)
trap 'rm -f "$table"' EXIT

bold= plain=
if [[ -t 1 ]]; then
    bold=$'\e[1m' plain=$'\e[0m'
fi
heading() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
indented() { sed -e 's/ *$//' -e 's/^ */  &/'; }

# example PROCESSES NAME
example() { "$selvedge" run -n "$1" --timeout 60 "$tree/examples/$2" </dev/null | indented; }

# rows SIZE: the head of the table, and its rows of that size.
rows() { awk -v size="$1" 'NR == 2 || NR == 3 || index($0, "  " size " ")' "$table" | indented; }

cpu=$(awk -F': *' '/^model name/ { print $2; exit }' /proc/cpuinfo 2>/dev/null || true)
echo "$("$selvedge" --version) on ${cpu:-$(uname -m)}, $(nproc) processors, $(uname -sr)"

heading "A put that its receiver detects by a counter (examples/hello_put.c, 2 processes)"
example 2 hello_put

heading "Barriers and sums that finish by themselves while the ranks compute (examples/triggered_barrier.c, 4 processes)"
example 4 triggered_barrier

heading "Protocols for a two-sided message (examples/protocols.c, 2 processes)"
example 2 protocols

heading "OpenSHMEM: two ways to detect that a put has arrived, ping-pong (examples/shmem/pingpong.c, 2 PEs)"
example 2 shmem/pingpong

heading "OpenSHMEM: a pipelined stencil with flags, with counting puts, with puts with signals (examples/shmem/stencil.c, 4 PEs)"
example 4 shmem/stencil

heading "Heat flow in tiles, halos exchanged by counting puts (examples/halo2d.c, 4 processes)"
example 4 halo2d

heading "The same program, unmodified, on a simulated machine: heat flow on 16 nodes of a Cray XT3, with virtual clocks"
"$selvedge" sim -n 16 --machine seastar-nic --quiet -- "$tree/examples/halo2d" 256 20 </dev/null | grep -v '^ *wall' | indented

heading "Published figures of machines, and the predictions of their models from component figures (quick)"
"$selvedge" validate --quick | indented

"$selvedge" bench --quick --peers auto raw_flag counting_put put_flag matched_put_event get fetch_atomic message_rate \
    bandwidth_shared bandwidth_cma </dev/null >"$table"
heading "What 8 bytes cost (half a round trip; get and fetch_atomic: a whole operation; message_rate: one of 64 in flight)"
rows '8 B'
heading "What 1 MiB costs"
rows '1 MiB'
cat <<'END'

ratio: a case's figure divided by that of the case in the column `against`. raw_flag is one cache line between two cores without
a library, memcpy_* a copy alone. `make bench` measures everything; `make peers` installs UCX, Open MPI and MPICH for comparison.
END
