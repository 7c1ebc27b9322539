#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# All figures of the RTL, stored in docs/results/rtl (make rtl-report): area and frequency of units and processors, the FPGA, netlists and their
# equivalence, power, coverage, tables and plots. Each design's JSON is written anew; a failed step ends the script. Power needs recorded
# traffic (traffic.sh: make build and make rtl), plots the program of make rtl; a missing input is reported and left out.
#
#   rtl/flow/report.sh [NAME...]   without names: all units and processors
#
# LIBERTY names the cells (liberty.py). It takes about two hours on two cores.
set -eu

cd "$(dirname "$0")/../.."
tools() { rtl/flow/tools.sh --needs sta osu018 verilator -- python "$@"; }

# The names of $1 (units or cores) among the arguments, or all.
names() {
    kind=$1
    shift
    tools -c "import sys; sys.path.insert(0, 'rtl/flow'); import designs
print(*(d.name for d in designs.$kind() if d.name in sys.argv[1:] or not sys.argv[1:]))" "$@"
}

units=$(names units "$@")
cores=$(names cores "$@")
traffic=${TRAFFIC:-${RTL_OUT:-target/rtl-flow}/traffic}
[ -e "$traffic/lists.ports" ] || rtl/flow/traffic.sh || echo "rtl: there is no recorded traffic, so there are no figures of power" >&2
for unit in $units; do
    tools rtl/flow/synthesize.py "$unit"
    tools rtl/flow/timing.py "$unit"
    tools rtl/flow/place.py "$unit" || echo "rtl: $unit has no figures of the FPGA" >&2
    tools rtl/flow/gates.py "$unit"
    [ ! -e "$traffic/${unit%%_unroll_*}.ports" ] || tools rtl/flow/power.py "$unit"
done
[ $# -gt 0 ] || tools rtl/flow/coverage.py
for core in $cores; do tools rtl/flow/cores.py "$core"; done
tools rtl/flow/report.py keep
report=${REPLAY:-build/libexec/selvedge/selvedge-rtl}
if [ -x "$report" ]; then
    "$report" report --folder docs/results/rtl --svg docs/results/rtl
else
    echo "rtl: $report is missing, so the plots are as they were; make rtl builds it" >&2
fi
