#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# All figures of the RTL, kept in docs/rtl (make rtl-report): area and frequency of units and processors, the FPGA, netlists and
# their equivalence, the tables. Each design's JSON is made anew; a step that fails ends it.
#
#   rtl/flow/report.sh [NAME...]   without names: all units and processors
#
# LIBERTY names the cells (liberty.py). It takes about an hour on two cores.
set -eu

cd "$(dirname "$0")/../.."
tools() { rtl/flow/tools.sh --needs sta osu018 -- python "$@"; }

# The names of $1 (units or cores) among the arguments, or all.
names() {
    kind=$1
    shift
    tools -c "import sys; sys.path.insert(0, 'rtl/flow'); import designs
print(*(d.name for d in designs.$kind() if d.name in sys.argv[1:] or not sys.argv[1:]))" "$@"
}

units=$(names units "$@")
cores=$(names cores "$@")
for unit in $units; do
    tools rtl/flow/synthesize.py "$unit"
    tools rtl/flow/timing.py "$unit"
    tools rtl/flow/place.py "$unit" || echo "rtl: $unit has no figures of the FPGA" >&2
    tools rtl/flow/gates.py "$unit"
done
for core in $cores; do tools rtl/flow/cores.py "$core"; done
tools rtl/flow/report.py keep
