#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Lints and simulates the engine's register block. Exit status: 1 if a register is wrong, or for a finding in pac_registers.sv (the
# generated block has findings of its own); 77 if Verilator is missing.
set -eu

cd "$(dirname "$0")/.."
command -v verilator >/dev/null || {
    echo "rtl: verilator is missing; install it (Debian: apt-get install verilator)" >&2
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
set -- common/pac_pkg.sv lists/lists_pkg.sv counters/records_pkg.sv counters/counters_pkg.sv counters/descriptors_pkg.sv \
    pac/engine_pkg.sv ../registers/generated/selvedge_nic_pkg.sv ../registers/generated/selvedge_nic.sv
verilator --binary --timing -Wall -Wno-fatal lint.vlt -CFLAGS -O0 -y common -y pac --Mdir "$work/built" \
    --top-module pac_registers_test "$@" pac/pac_registers.sv pac/pac_registers_test.sv >"$work/said" 2>&1 || {
    cat "$work/said" >&2
    exit 1
}
if grep '^%Warning.*pac/pac_registers\.sv' "$work/said" >&2; then exit 1; fi
timeout 60 "$work/built/Vpac_registers_test" >"$work/said" 2>&1
grep -q '^passed' "$work/said" || {
    cat "$work/said" >&2
    exit 1
}
echo "rtl: registers of the engine: ok"
