#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Programs of other authors, as Debian ships them, on Debian's Open MPI. Each runs over that MPI's own transport and
# over ours. The results have to agree, the times do not.
#
#     HPCC             seven kernels; its own checks, the residuals, and the values that they are computed from
#     NetPIPE          its integrity check, every size up to 4 MB, with and without posting receives ahead
#     Global Arrays    examples/ga/lennard_jones.c: put, get, accumulate, a shared counter; energies
#     OpenFOAM         icoFoam, the lid-driven cavity of its tutorials; pressure and velocity of every cell
#
# usage: tests/mpi/programs.sh [--transport stock] [--keep] [PROGRAM]...        hpcc netpipe ga openfoam; all of them
#        --transport stock checks only that they run at all; --keep writes the results to
#        tests/mpi/results/programs.md
# Missing packages are installed through apt-get, as root. A program whose packages are unavailable is skipped, with a
# message. Exit status: 1 when results differ or a program fails over ours.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

work=$tree/mpi/programs
limit_s=200
transports="stock ours" keep='' failed=0
while :; do
    case ${1:-} in
    --transport) transports=$2 && shift 2 ;;
    --keep) keep=tests/mpi/results/programs.md && shift ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || set -- hpcc netpipe ga openfoam
have debian || fail "Debian's Open MPI is not installed: apt-get install libopenmpi-dev openmpi-bin"
mkdir -p "$work"
report=$work/report.md
: >"$report"

# needs PROGRAM-OR-FILE PACKAGE...
needs() {
    command -v "$1" >/dev/null || [ -e "$1" ] && return
    shift
    [ "$(id -u)" = 0 ] || { say "as root: apt-get install $*" && return 1; }
    say "installing $* with apt-get"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$work/apt.log" 2>&1 ||
        { say "$* cannot be had: $(tail -1 "$work/apt.log")" && return 1; }
}

packaged() { dpkg-query -W -f='${Version}' "$1"; }

# over TRANSPORT RANKS PROGRAM...: runs it in the current directory, with its output in `printed`.
over() {
    transport=$1 ranks=$2
    shift 2
    status=0
    launch debian "$transport" "$ranks" "$limit_s" "$@" >printed 2>&1 || status=$?
    [ "$status" = 0 ] && return
    say "$1, $transport, $ranks ranks: exit status $status"
    tail -15 printed | sed 's/^/    /'
    return 1
}

# near FILE FILE ERROR: compares two lists of "name value"; relative to the largest value of the first list with that
# name.
near() {
    awk -v error="$3" '
        function size(x) { return x < 0 ? -x : x }
        NR == FNR { first[NR] = $2; name[NR] = $1; n = NR; if (size($2) > scale[$1]) scale[$1] = size($2); next }
        { m = FNR }
        $1 != name[m] || $2 != $2 + 0 || size($2 - first[m]) > error * scale[$1] {
            print "    " name[m] ": " first[m] ", " $2; bad = 1 }
        END { if (n != m || n == 0) { print "    " n " and " m " values"; bad = 1 }; exit bad }' "$1" "$2"
}

# verdict PROGRAM RANKS RESULT FILES-DIFFER: prints a line of the report.
verdict() {
    echo "$1, $2 ranks: $3"
    echo "| $1 | $2 | $3 |" >>"$report"
}

# compare PROGRAM RANKS ERROR: compares values.TRANSPORT in the current directory.
compare() {
    count=$(wc -l <values.stock)
    if [ "$transports" != "stock ours" ]; then
        verdict "$1" "$2" "$count values over $transports"
    elif cmp -s values.stock values.ours; then
        verdict "$1" "$2" "equal, every digit of $count values"
    elif near values.stock values.ours "$3" >differ; then
        verdict "$1" "$2" "equal to $3, $count values"
    else
        verdict "$1" "$2" "DIFFERENT"
        head -10 differ
        failed=1
    fi
}

broken() {
    verdict "$1" "$2" "FAILED over $3"
    [ "$3" = stock ] || failed=1
}

enter() { rm -rf "${work:?}/$1" && mkdir -p "$work/$1" && cd "$work/$1"; }

run_hpcc() {
    needs hpcc hpcc || return
    echo "| | | *HPCC $(packaged hpcc)* |" >>"$report"
    for ranks in 2 4; do
        for transport in $transports; do
            enter "hpcc-$transport-$ranks" || return
            # A problem of 1000 unknowns on a grid of 1 x 2 or 2 x 2.
            sed -e "s/^2 *Ps\$/$((ranks / 2)) Ps/" -e 's/^2 *Qs$/2 Qs/' \
                /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt
            over "$transport" "$ranks" hpcc || { broken HPCC "$ranks" "$transport" && continue 2; }
            # HPCC itself checks the rounding, which depends on the order of additions.
            sed -n -E 's/^(HPL_N|HPL_[AXB]norm[1I]|MPIRandomAccess_(LCG_)?(N|ErrorsFraction)|MPIFFT_N|Success)=/\1 /p' \
                hpccoutf.txt >"../values.$transport"
            echo "FAILED $(grep -c FAILED hpccoutf.txt)" >>"../values.$transport"
            grep -q '^Success 1' "../values.$transport" && grep -q '^FAILED 0' "../values.$transport" ||
                broken "HPCC's own checks" "$ranks" "$transport"
            cd "$work" || return
        done
        compare HPCC "$ranks" 1e-9
        cd "$tree/.." || return
    done
}

run_netpipe() {
    needs NPopenmpi netpipe-openmpi || return
    echo "| | | *NetPIPE $(packaged netpipe-openmpi)* |" >>"$report"
    for options in "" "-a" "-z" "-a -2" "-a -S"; do
        for transport in $transports; do
            enter netpipe || return
            # shellcheck disable=SC2086  # options
            over "$transport" 2 NPopenmpi -i $options -u 4194304 ||
                { broken "NetPIPE -i $options" 2 "$transport" && continue 2; }
            grep -c -e 'Integrity check passed' printed | sed 's/^/sizes /' >"../values.$transport"
            ! grep -q -i -e 'fail' -e 'corrupt' printed || broken "NetPIPE -i $options" 2 "$transport"
            cd "$work" || return
        done
        compare "NetPIPE -i $options ($(sed 's/sizes //' "values.${transport}") sizes pass)" 2 0
        cd "$tree/.." || return
    done
}

run_ga() {
    needs /usr/include/ga.h libglobalarrays-dev || return
    needs /usr/include/armci.h libarmci-mpi-dev libscalapack-openmpi-dev liblapack-dev libblas-dev gfortran || return
    build debian || fail "lennard_jones does not compile"
    echo "| | | *Global Arrays $(packaged libglobalarrays-dev), ARMCI-MPI $(packaged libarmci-mpi-dev)* |" >>"$report"
    for ranks in 1 2 3 4; do
        for transport in $transports; do
            enter ga || return
            over "$transport" "$ranks" "$tree/mpi/debian/lennard_jones" 100 ||
                { broken lennard_jones "$ranks" "$transport" && continue 2; }
            cd "$work" || return
            awk '/^step/ { print "kinetic", $4; print "potential", $6; print "total", $8 }' ga/printed \
                >"values.$transport"
            [ "$ranks" != 1 ] || cp "values.$transport" "alone.$transport"
            near "alone.$transport" "values.$transport" 1e-6 ||
                broken "lennard_jones: energies are not those of one rank" "$ranks" "$transport"
        done
        compare lennard_jones "$ranks" 1e-7
        cd "$tree/.." || return
    done
}

run_openfoam() {
    case=/usr/share/doc/openfoam-examples/examples/incompressible/icoFoam/cavity/cavity
    needs icoFoam openfoam && needs "$case" openfoam-examples || return
    export WM_PROJECT_DIR=/usr/share/openfoam
    echo "| | | *OpenFOAM $(packaged openfoam)* |" >>"$report"
    for ranks in 2 4; do
        for transport in $transports; do
            enter "cavity-$transport" || return
            cp -r "$case"/* .
            gunzip -q -r . 2>/dev/null
            # 10,000 cells in place of 400, the first fifth of the time, and a matching step and number of digits.
            sed -i -e 's/(20 20 1)/(100 100 1)/' system/blockMeshDict
            sed -i -e 's/^deltaT .*/deltaT 0.001;/' -e 's/^endTime .*/endTime 0.1;/' \
                -e 's/^writeInterval .*/writeInterval 100;/' -e 's/^writePrecision .*/writePrecision 12;/' \
                system/controlDict
            cat >system/decomposeParDict <<END
FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }
numberOfSubdomains $ranks;
method simple;
simpleCoeffs { n (2 $((ranks / 2)) 1); delta 0.001; }
END
            { blockMesh && decomposePar; } >prepared 2>&1 || fail "blockMesh or decomposePar: see $PWD/prepared"
            over "$transport" "$ranks" icoFoam -parallel || { broken icoFoam "$ranks" "$transport" && continue 2; }
            # Every number of the final fields, under the name of the field.
            for field in p U; do
                cat processor*/0.1/$field | tr -c '0-9eE.+\n-' '\n' |
                    awk -v name=$field '/^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$/ { print name, $1 }'
            done >"../values.$transport"
            cd "$work" || return
        done
        compare icoFoam "$ranks" 1e-9
        cd "$tree/.." || return
    done
}

for program; do
    (
        cd "$tree/.." && "run_$program"
        exit $failed
    ) || failed=1
done
echo
{
    echo "# Programs as Debian ships them: over ours and over the MPI's own transport"
    echo
    echo "$(date +%F), $(version debian) ($(packaged libopenmpi3)), libfabric $(packaged libfabric1), $(nproc) cores."
    echo "Written by \`tests/mpi/programs.sh --keep\`."
    echo
    echo "| program | ranks | results over the two |"
    echo "|---|---|---|"
    cat "$report"
} >"$work/programs.md"
cat "$work/programs.md"
[ -z "$keep" ] || cp "$work/programs.md" "$keep"
exit $failed
