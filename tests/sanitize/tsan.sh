#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Eight threads at once on each front door, under ThreadSanitizer:
#
#     tests/sanitize/tsan.sh                 builds what it needs (`make build` first: the launcher comes from build/)
#     tests/sanitize/tsan.sh fi              one front door: fi, shmem or portals
#
# Prints a message and ends with 0 if the toolchain is missing, with 1 if there is a race or a program fails. Reports
# stay in target/tsan/reports/.
#
# The libraries and the standard library are instrumented. ThreadSanitizer sees atomics in mapped files within one
# process. It sees neither other processes nor the inside of libfabric and the C library.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
doors=${1:-fi shmem portals}
target=x86_64-unknown-linux-gnu
out=$root/target/tsan

skip() {
    echo "tsan: skipped: $1"
    exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "it needs x86_64"
cargo +nightly --version >/dev/null 2>&1 || skip "no nightly toolchain (rustup toolchain install nightly)"
sysroot=$(rustc +nightly --print sysroot)
[ -d "$sysroot/lib/rustlib/src/rust/library" ] || rustup component add rust-src --toolchain nightly >/dev/null 2>&1 ||
    skip "nightly has no rust-src (rustup component add rust-src --toolchain nightly)"
runtime=$sysroot/lib/rustlib/$target/lib/librustc-nightly_rt.tsan.a
[ -f "$runtime" ] || skip "nightly has no runtime of ThreadSanitizer ($runtime)"
[ -x build/bin/selvedge ] || skip "build/bin/selvedge is missing: run make build"

mkdir -p "$out/reports" "$out/provider"
rm -f "$out"/reports/*
RUSTFLAGS=-Zsanitizer=thread cargo +nightly build -Zbuild-std --target $target --target-dir "$out" \
    -p selvedge-portals -p selvedge-fi -p selvedge-shmem
made=$out/$target/debug
cp "$made/libselvedge_fi.so" "$out/provider/libselvedge-fi.so"

program() {
    name=$1
    shift
    cc -std=gnu11 -O1 -g -fsanitize=thread -c "tests/sanitize/$name.c" -o "$out/$name.o" -Iinclude -Ibuild/include
    # The runtime is linked into the program, where the libraries find it.
    cc -o "$out/$name" "$out/$name.o" "$@" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive -Wl,--export-dynamic \
        -lpthread -ldl -lm -lrt -lgcc_s -lgcc
}

failed=
run() {
    name=$1
    shift
    echo "tsan: $name"
    TSAN_OPTIONS="halt_on_error=0 exitcode=66 second_deadlock_stack=1 history_size=4 log_path=$out/reports/$name suppressions=$root/tests/sanitize/tsan.supp" \
        timeout 300 "$@" || failed="$failed $name"
}

for door in $doors; do
    case $door in
    fi)
        program fi_threads -lfabric
        export FI_PROVIDER_PATH="$out/provider"
        run fi_self "$out/fi_threads"
        run fi_peer "$out/fi_threads" peer
        ;;
    shmem)
        program shmem_threads "$made/libsma.a"
        run shmem build/bin/selvedge run -n 2 "$out/shmem_threads"
        ;;
    portals)
        program portals_threads -L"$made" -lportals -Wl,-rpath,"$made"
        run portals build/bin/selvedge run -n 2 "$out/portals_threads"
        ;;
    esac
done

races=$(cat "$out"/reports/* 2>/dev/null | grep -c "^WARNING: ThreadSanitizer" || true)
[ "$races" = 0 ] || cat "$out"/reports/* | grep "^SUMMARY: ThreadSanitizer" | sort | uniq -c
[ "$races" = 0 ] || failed="$failed ($races reports in $out/reports)"
[ -z "$failed" ] || {
    echo "tsan: failed:$failed"
    exit 1
}
echo "tsan: no race"
