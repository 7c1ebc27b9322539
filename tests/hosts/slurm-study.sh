#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A study as a job array of Slurm over two test hosts: 100 cells, stopped in the middle (the command killed, the array
# cancelled) and started again. No cell runs twice, and the table is that of a run on cores, to the byte. Half a minute.
#
# usage: tests/hosts/slurm-study.sh
# The command is build/bin/selvedge, or SELVEDGE. Exit status: 77 when test hosts cannot be made, or Slurm is not installed.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh
. tests/hosts/slurm-cluster.sh

make_cluster
say "$(on 1 'srun --version')"
mkdir "$work/studies"
cat >"$work/studies/torus.toml" <<END
[run]
machine = "$PWD/machines/torus16.toml"
skip = "5us"
measured = "25us"
[sweep]
traffic = ["uniform", "tornado"]
load = { from = 0.02, to = 0.2, step = 0.02 }
seed = { from = 1, to = 5 }
END
study="exec '$selvedge' study '$work/studies/torus.toml'"
kept() { find "$work/studies/torus.study/cells" -name '*.json' -printf '%f %i %T@\n' 2>/dev/null | sort; }
jobs() { on 1 "squeue --noheader --format=%i"; }

say "stopped in the middle"
# The process number is that of the host.
on 1 "echo \$\$ >'$work/command'; $study --slurm --quiet" &
command=$!
until [ "$(kept | wc -l)" -ge 20 ]; do
    kill -0 $command 2>/dev/null || fail "the study ended after $(kept | wc -l) cells"
    sleep 0.05
done
on 1 "kill -KILL \$(cat '$work/command')"
wait $command && fail "the study ended before it was killed"
on 1 "$study --quiet" 2>"$work/beside" && fail "cells ran beside the array"
grep -q "add --slurm to wait for it" "$work/beside" || fail "beside the array: $(cat "$work/beside")"
on 1 "scancel --name=selvedge-study"
until [ -z "$(jobs)" ]; do sleep 0.2; done
kept >"$work/before"
before=$(wc -l <"$work/before")
say "$before cells were kept"
[ "$before" -lt 100 ] || fail "the array was faster than its end; give it more to do"

say "started again"
on 1 "$study --slurm" >"$work/printed" || fail "the study failed: $(cat "$work/printed" "$work"/studies/torus.study/slurm/*.out)"
kept >"$work/after"
[ "$(wc -l <"$work/after")" = 100 ] || fail "$(wc -l <"$work/after") cells, not 100"
[ -z "$(comm -23 "$work/before" "$work/after")" ] || fail "cells ran twice: $(comm -23 "$work/before" "$work/after")"
grep -q "wall cells run *$((100 - before))\$" "$work/printed" || fail "not $((100 - before)) cells ran: $(cat "$work/printed")"
on 1 "$study --slurm" | grep -q "wall cells run *0\$" || fail "a finished study runs cells"

say "on cores"
"$selvedge" study "$work/studies/torus.toml" --folder "$work/cores" --quiet || fail "the study failed on cores"
for table in table.csv table.json page.html; do
    cmp "$work/cores/$table" "$work/studies/torus.study/$table" || fail "$table differs"
done

say "a cell that fails"
sed 's/"tornado"/"hotspot:9999:0.5"/' "$work/studies/torus.toml" >"$work/studies/fails.toml"
on 1 "exec '$selvedge' study '$work/studies/fails.toml' --slurm --quiet" && fail "a failed cell has no exit code"
[ "$(wc -l <"$work/studies/fails.study/table.csv")" = 51 ] || fail "the other cells did not run on"
say "right"
