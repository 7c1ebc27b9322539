#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Generates the files that come from the description of the registers (registers/*.rdl):
#
#   registers/generate.sh              generates them (make registers)
#   registers/generate.sh --check      compares them with the files in the tree; changes nothing
#   registers/generate.sh --html DIR   generates the HTML site of the registers in DIR (make registers-html)
#   registers/generate.sh --sums       compares only the checksums of inputs and results; needs no Python
#
# Files are generated in a temporary folder and moved when all steps have succeeded. So an error leaves the files as they
# were. Exit status: 1 for an error in the description or stale files; 77 if Python or its packages cannot be installed.
set -eu

cd "$(dirname "$0")/.."
# The virtual environment with the packages of requirements.txt. It is made once.
environment=${SELVEDGE_REGISTERS_VENV:-target/registers-venv}
description=registers/selvedge.rdl
sums=registers/generated/sha256sums
header=include/selvedge_registers.h
page=docs/reference/registers.md
nic=crates/core/nic/src/registers/description.rs
# The register blocks: the central one, which forwards accesses to the units' tables, and one for each unit.
blocks="selvedge_nic selvedge_velo_tables selvedge_rma_tables"
blocks_without_vpids=selvedge_atu_tables
# Number of VPIDs of the prototype. Addresses do not depend on it.
vpids=32

made="Made by \`make registers\` from registers/*.rdl; not to be edited."

say() { echo "registers: $*" >&2; }

# The sums of all inputs, and of all results below the folder $1.
sum() {
    sha256sum registers/*.rdl registers/export.py registers/generate.sh registers/requirements.txt
    (cd "$1" && { printf '%s\n' "$header" "$page" "$nic"; find registers/generated -type f ! -name sha256sums; } |
        LC_ALL=C sort | xargs sha256sum)
}

check_sums() {
    if sum . 2>/dev/null | cmp -s - "$sums"; then return 0; fi
    sum . 2>/dev/null | diff "$sums" - | sed -n 's/^[<>] [0-9a-f]*  /registers: changed: /p' | sort -u >&2
    say "the generated files are stale: run \`make registers\` and commit the changes"
    return 1
}

make_environment() {
    if [ -x "$environment/bin/peakrdl" ] && cmp -s registers/requirements.txt "$environment/requirements.txt"; then return 0; fi
    python3 -c 'import venv, ensurepip' 2>/dev/null || {
        say "Python 3 with venv is missing; install it (Debian: apt-get install python3-venv)"
        exit 77
    }
    rm -rf "$environment"
    log=$(mktemp)
    if ! { python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r registers/requirements.txt; } >"$log" 2>&1; then
        tail -n 3 "$log" >&2
        rm -rf "$environment" "$log"
        say "the packages of registers/requirements.txt cannot be installed from PyPI; give pip an index that has them (PIP_INDEX_URL)"
        exit 77
    fi
    rm -f "$log"
    cp registers/requirements.txt "$environment/requirements.txt"
}

# Runs a step. Shows its output if it fails, because PeakRDL's errors name file and line.
step() {
    if "$@" >"$work/said" 2>&1; then return 0; fi
    cat "$work/said" >&2
    say "failed, see above; nothing was changed: correct registers/*.rdl and run it again"
    exit 1
}

# Puts two lines before a file: the licence and its origin, as comments that begin with $2.
mark() {
    { printf '%s SPDX-License-Identifier: Apache-2.0 OR MIT\n%s %s\n' "$2" "$2" "$made"; cat "$1"; } >"$1.marked"
    mv "$1.marked" "$1"
}

# Makes all files below $work/out.
generate() {
    out=$work/out
    mkdir -p "$out/include" "$out/docs/reference" "$out/registers/generated" "$out/$(dirname "$nic")"
    peakrdl=$environment/bin/peakrdl
    step "$environment/bin/python" registers/export.py "$description" "$out/$nic" "$out/$page"
    step "$peakrdl" c-header "$description" -o "$out/$header" --std gnu99 --type-style hier
    for block in $blocks; do
        step "$peakrdl" regblock "$description" -t "$block" -P VPIDS=$vpids -o "$out/registers/generated" --cpuif passthrough
    done
    step "$peakrdl" regblock "$description" -t "$blocks_without_vpids" -o "$out/registers/generated" --cpuif passthrough
    mark "$out/$header" //
    for file in "$out"/registers/generated/*.sv; do mark "$file" //; done
    sum "$out" >"$work/sums"
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
case ${1-} in
'')
    make_environment || exit $?
    work=$(mktemp -d)
    generate
    # Unchanged files keep their times, so that nothing is compiled again for them.
    find registers/generated -type f ! -name sha256sums | while read -r file; do
        [ -e "$work/out/$file" ] || rm "$file"
    done
    (cd "$work/out" && find . -type f) | while read -r file; do
        mkdir -p "$(dirname "$file")"
        cmp -s "$work/out/$file" "$file" || cp "$work/out/$file" "$file"
    done
    cp "$work/sums" "$sums"
    ;;
--check)
    check_sums
    make_environment || exit $?
    work=$(mktemp -d)
    generate
    cmp -s "$work/sums" "$sums" || {
        diff "$sums" "$work/sums" | sed -n 's/^[<>] [0-9a-f]*  /registers: differs: /p' | sort -u >&2
        say "PeakRDL generates different files: run \`make registers\` and commit the changes"
        exit 1
    }
    ;;
--sums) check_sums ;;
--html)
    [ -n "${2-}" ] || { say "--html: no folder given; use --html DIR"; exit 1; }
    make_environment || exit $?
    work=$(mktemp -d)
    step "$environment/bin/peakrdl" html "$description" -o "$work/html" --title "Registers of a Selvedge NIC"
    mkdir -p "$2"
    cp -R "$work/html/." "$2"
    ;;
*)
    say "unknown option $1: use --check, --html DIR, --sums or no option"
    exit 1
    ;;
esac
