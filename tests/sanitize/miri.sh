#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The unit tests of the crates that are pure, under Miri, with few cases of each property test:
#
#     tests/sanitize/miri.sh                 both crates
#     tests/sanitize/miri.sh selvedge-nic    one of them
#
# Ends with 0 and a word why if the toolchain is not there. LIMIT_S seconds for each crate; a crate that is not through by then
# is reported, and does not fail.
set -eu
cd "$(dirname "$0")/../.."

skip() {
    echo "miri: skipped: $1"
    exit 0
}

cargo +nightly --version >/dev/null 2>&1 || skip "there is no nightly toolchain (rustup toolchain install nightly)"
cargo +nightly miri --version >/dev/null 2>&1 || rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1 ||
    skip "nightly has no miri (rustup component add miri rust-src --toolchain nightly)"

# Property tests read the clock, and the folder for cases that failed.
export MIRIFLAGS="-Zmiri-disable-isolation"
export PROPTEST_CASES="${PROPTEST_CASES:-2}"
: "${LIMIT_S:=240}"

status=0
for crate in ${1:-selvedge-fabric selvedge-nic}; do
    case $crate in
    # They walk whole networks, pair by pair: hours here, and no memory that the others do not touch.
    selvedge-fabric) left_out="--skip every_ --skip all_" ;;
    *) left_out="--skip exhaustive --skip every_" ;;
    esac
    cargo +nightly miri test --target-dir target/miri -p "$crate" --lib --no-run
    # shellcheck disable=SC2086
    timeout "$LIMIT_S" cargo +nightly miri test --target-dir target/miri -p "$crate" --lib -- $left_out && continue
    [ $? = 124 ] && echo "miri: $crate is not through after $LIMIT_S s; nothing was found until then" && continue
    status=1
done
exit $status
