#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Shows that the tests find faults: builds each mutant of the RTL (a macro MUTANT_n in the source), runs the tests of its unit, and prints
# which of them fail. Exits with 1 if no test finds a mutant. The list below has a line for each mutant, with the numbers of
# docs/design/rtl-lockstep.md.
#
#   rtl/mutants.sh          all mutants
#   rtl/mutants.sh 18 19    these
#
# The tests run in their own target folder, because each mutant builds the units anew.
set -u
cd "$(dirname "$0")/.."

# Number, folder of rtl/ whose units are built, tests of crates/tools/rtl (a part of their names), the fault.
mutants='
1 lists lists:: the bank of chains has no bypass
2 lists lists:: the bypass holds the writes of one cycle only
3 lists lists:: an append does not write the tail of its chain
4 lists lists:: a message that uses its entry up does not write the head of the chain
5 lists lists:: a search does not compare the list
6 lists lists:: one of the ignored bits is inverted
7 lists lists:: a search takes no notice of source_ignore
8 lists lists:: the highest sequence number wins
9 lists lists:: the sequencer begins while the frame makes its writes
10 lists lists:: an append does not wait for the message before it
11 lists lists:: the generation of a freed entry stays
11 counters counters a counter that is freed keeps its generation
12 common free_list:: a record that is given back goes to the end of the top of the free list
13 lists lists:: the local offset moves by the requested length
14 lists lists:: min_free is one too large
15 lists lists:: the length is compared without the offset
16 counters counters of equal thresholds the later arm fires first
17 counters counters the next operation is not compared with the count
18 allocator allocator:: buddies merge although one is allocated
19 allocator allocator:: the node of a word above is not updated when the word below changes
20 counters counters a get waits for the put port
21 arithmetic arithmetic:: a word of an operand does not wait for that of the operand before
22 arithmetic arithmetic:: a sum loses what falls off the end of the lesser number
23 arithmetic arithmetic:: a tie is always rounded up
24 arithmetic arithmetic:: -0 is less than +0 in pairs
25 arithmetic arithmetic:: the padding of a pair is written
26 pac pac:: a response that comes twice finds its command again
27 pac pac:: an event is written with the words of the queue before it
28 pac pac:: the lists go on while their answers have no room
29 pac pac:: a message does not keep room for the replies of those before it
30 pac pac:: the range of a descriptor is checked without the offset
31 pac pac:: an entry that wants no acknowledgement is acknowledged
32 pac pac:: the command of a response is not read where its portal table entry is read ahead
33 pac pac:: AUTO_FREE is no event that needs room
34 pac pac:: PT_DISABLED is posted without room
35 pac pac:: events that are overwritten count as not taken
36 pac pac:: a message that disables its portal table entry is answered with the epoch that ends
37 pac pac:: a command starts beside a message to an entry with flow control
38 atu atu:: a look-up does not see the fill of the cycle behind its read
39 atu atu:: an entry that translates for no VPID enters the TLB
40 atu atu:: of two flushes of one tag not the older one gets the answer
41 atu atu:: a read that a flush keeps out of the TLB leaves before the flush
42 atu atu:: a flush begins without a slot, and holds back what would free one
43 atu atu:: a read in flight fills the TLB behind the flush of its page
44 pac pac:: a triggered unlink is answered to the host
'

if ! command -v verilator >/dev/null; then
    echo "mutants.sh: Verilator is missing: install Debian's package verilator" >&2
    exit 77
fi

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/mutants"
# A mutant's failure is no seed to keep.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { # macro folder tests
    SELVEDGE_RTL_DEFINES=$1 SELVEDGE_RTL_FOLDERS=$2 \
        cargo test --locked --profile checked -p selvedge-rtl --test rtl -- "$3" >"$log" 2>&1
}

missed=0
checked=' '
while read -r number folder tests about; do
    [ -n "$number" ] || continue
    case " $* " in '  ' | *" $number "*) ;; *) continue ;; esac
    case "$checked" in
    *" $tests "*) ;;
    *)
        if ! run '' "$folder" "$tests" || grep -q ' 0 passed' "$log"; then
            cat "$log"
            echo "mutants.sh: the tests $tests do not pass without a mutant" >&2
            exit 1
        fi
        checked="$checked$tests "
        ;;
    esac
    if run "MUTANT_$number" "$folder" "$tests"; then
        echo "$number MISSED: $about"
        missed=1
    elif found=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log") && [ -n "$found" ]; then
        echo "$number found: $about"
        echo "$found" | sort | sed 's/^/    by /'
    elif found=$(sed -n 's/^.*Assertion failed in [^:]*: \(.*\)/\1/p' "$log") && [ -n "$found" ]; then
        echo "$number found: $about"
        echo "$found" | head -n 1 | sed 's/^/    by an assertion: /'
    else
        cat "$log"
        echo "mutants.sh: mutant $number does not build" >&2
        exit 1
    fi
done <<END
$mutants
END
exit $missed
