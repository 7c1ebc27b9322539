#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Lints rtl/: every unit of units.toml by Verilator with all warnings, each with and without its trace port, and by slang as in Yosys, if
# rtl/flow's tools are installed. Exit status: 1 for a finding; 77 if Verilator is missing.
set -eu

cd "$(dirname "$0")"
command -v verilator >/dev/null || {
    echo "rtl: verilator is missing; install it (Debian: apt-get install verilator)" >&2
    exit 77
}
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# One line a unit: name, top, folder, then Verilator's arguments: other folders, packages, parameters.
units=$(python3 -c '
import sys, tomllib
for unit in tomllib.load(open("units.toml", "rb"))["unit"]:
    parameters = [f"-G{name}={value}" for name, value in unit.get("parameters", {}).items()]
    folders = [f"-y {folder}" for folder in unit.get("uses", [])]
    print(unit["name"], unit["top"], unit["folder"], *folders, *unit["packages"], *parameters)')
status=0
while read -r name top folder rest; do
    case $top in
    *_layout) traces=none ;;
    *) traces="0 1" ;;
    esac
    for trace in $traces; do
        extra=
        [ "$trace" = none ] || extra=-GTrace=$trace
        # shellcheck disable=SC2086
        if ! verilator --lint-only -Wall lint.vlt -y common -y "$folder" --top-module "$top" $extra common/pac_pkg.sv $rest "$folder/$top.sv" >"$said" 2>&1; then
            echo "rtl: lint of $name${extra:+ with $extra}:" >&2
            head -n 40 "$said" >&2
            status=1
        fi
    done
done <<EOF
$units
EOF
[ "$status" != 0 ] || echo "rtl: lint of $(echo "$units" | wc -l) units: ok"
exit "$status"
