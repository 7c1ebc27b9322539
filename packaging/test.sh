#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tries the packages on bare systems: installs them, runs programs of OpenSHMEM, Portals and MPI and a simulation, removes them, and looks for
# what is left. Makes the packages first where they are missing. Root is needed; the systems stay in FOLDER for the next time.
#
# usage: packaging/test.sh FOLDER [deb] [tarball] [wheel] [rpm] [install] [tutorials]        without names: the first four
#
# `install` needs no bare system: `make install` and `make uninstall` on this one, in FOLDER. `tutorials` does each page of
# docs/tutorials to the letter, with the tarball, on a system that has what the pages ask for: at most ten minutes each.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
[ $# -ge 1 ] || { sed -n '4,10s/^# //p' "$0" >&2 && exit 2; }
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- deb tarball wheel rpm
packages=${SELVEDGE_PACKAGES:-$here/build/packages}
version=$(packaging/version.sh)
in_root() { packaging/root.sh in "$root" "$@"; }
step() { echo "packages: $*"; }
fail() { echo "packages: failed: $*" >&2 && exit 1; }

# system NAME [PACKAGE]...: a system with a compiler, as a user has it.
system() {
    root=$folder/$1
    shift
    [ -e "$root.made" ] || { step "making a bare system" && rm -rf "$root" &&
        packaging/root.sh make "$root" "" gcc libc6-dev pkg-config procps cmake make "$@" && touch "$root.made"; }
    # An earlier run may have ended in between.
    rm -rf "$root/opt/first" "$root/opt/second"
    [ ! -d "$root/var/lib/rpm" ] || { rpm --root "$root" --nodeps --noscripts -e selvedge selvedge-libs selvedge-devel >/dev/null 2>&1 || true; }
    in_root sh -c 'dpkg --purge selvedge libselvedge-dev libselvedge1' >/dev/null 2>&1 || fail "dpkg --purge of an earlier run's packages"
    rm -rf "$root/root/try" && mkdir -p "$root/root/try"
    cp examples/shmem/hello.c "$root/root/try/shmem.c"
    cp examples/first_put.c "$root/root/try/portals.c"
    cp examples/mpi/pingpong.c "$root/root/try/mpi.c"
    packaging/root.sh files "$root" >"$folder/before"
}

# programs PREFIX PATH LIBRARIES: compiles and runs the programs as a user does, with the tree below PREFIX.
programs() {
    cat >"$root/root/try/run.sh" <<'END'
set -eux
cd /root/try
oshcc shmem.c -o shmem
oshrun -n 4 ./shmem
cc portals.c $(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --cflags --libs portals4) -o portals
LD_LIBRARY_PATH=$1 selvedge run -n 2 ./portals
if command -v mpicc.openmpi; then
mpicc.openmpi mpi.c -o mpi -lm
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
FI_LOG_LEVEL=info selvedge mpirun -n 2 ./mpi >mpi.out 2>&1 || { tail -30 mpi.out && exit 1; }
grep -v ^libfabric mpi.out
grep -q 'registering provider: selvedge' mpi.out
fi
selvedge sim -n 4 --machine extoll-asic800 -- ./shmem
selvedge --version
selvedge info >/dev/null
mkdir -p cmake && cat >cmake/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(try C)
find_package(Selvedge 0.1 REQUIRED COMPONENTS OpenSHMEM Portals Velo Rma)
add_executable(shmem ../shmem.c)
target_link_libraries(shmem PRIVATE Selvedge::OpenSHMEM)
CMAKE
cmake -S cmake -B cmake/build -DSelvedge_DIR="$1/cmake/Selvedge" >/dev/null
cmake --build cmake/build >/dev/null
selvedge run -n 2 cmake/build/shmem
END
    in_root env PATH="$1/usr/lib/selvedge/bin:$2:/usr/local/bin:/usr/bin:/bin" sh /root/try/run.sh "$3" >"$folder/$4.out" 2>&1 ||
        { tail -15 "$folder/$4.out" >&2 && fail "$4: programs; the whole output is in $folder/$4.out"; }
}

nothing_left() {
    packaging/root.sh files "$root" >"$folder/after"
    diff "$folder/before" "$folder/after" >"$folder/left" || { head -20 "$folder/left" >&2 && fail "$1: files are left"; }
}

for kind; do
    # rpm's files would lie over those of Debian's Open MPI, which has an oshcc of its own.
    case $kind in
    install) ;;
    rpm) system plain ;;
    tutorials) system reader openmpi-bin libopenmpi-dev python3 ;;
    *) system system openmpi-bin libopenmpi-dev openssh-client ;;
    esac
    case $kind in
    deb)
        [ -e "$packages/selvedge_${version}_"*.deb ] || packaging/deb.sh "$packages" >/dev/null
        if command -v lintian >/dev/null; then
            lintian --fail-on error --allow-root "$packages"/libselvedge1_*.deb "$packages"/libselvedge-dev_*.deb "$packages"/selvedge_*.deb >"$folder/lintian" 2>&1 || { grep ^E "$folder/lintian" >&2 && fail "lintian"; }
        else
            step "deb: lintian is not installed, and is left out"
        fi
        cp "$packages/libselvedge1_${version}_"*.deb "$packages/libselvedge-dev_${version}_"*.deb "$packages/selvedge_${version}_"*.deb "$root/root/try/"
        in_root sh -c 'dpkg -i /root/try/*.deb' >"$folder/deb.install" 2>&1 || { tail -5 "$folder/deb.install" >&2 && fail "deb: dpkg -i"; }
        size=$(in_root sh -c 'dpkg-query -W -f "\${Installed-Size}\n" libselvedge1 libselvedge-dev selvedge' | awk '{ sum += $1 } END { print int(sum / 1024) }')
        [ "$size" -le 40 ] || fail "deb: $size MB installed, more than 40"
        programs "" /usr/bin "/usr/lib/$(uname -m)-linux-gnu" deb
        in_root sh -c 'test -s /usr/share/doc/selvedge/third-party-licences* && test -s "$(ls /usr/share/man/man3/shmem_int_put.3*)"' || fail "deb: licences or pages"
        # An upgrade while a job runs, which it must not disturb.
        in_root sh -c 'cd /root/try && selvedge run -n 2 sh -c "sleep 4; echo ended right" >upgrade.out & job=$!
            sleep 1; dpkg -i /root/try/*.deb >/dev/null 2>&1 && wait $job && [ "$(grep -c "ended right" /root/try/upgrade.out)" = 2 ]' || fail "deb: a job during an upgrade"
        in_root dpkg --purge selvedge libselvedge-dev libselvedge1 >"$folder/deb.purge" 2>&1 || { tail -5 "$folder/deb.purge" >&2 && fail "deb: dpkg --purge"; }
        nothing_left deb
        step "deb: right, $size MB installed"
        ;;
    tarball)
        name=selvedge-$version-linux-$(uname -m)
        [ -e "$packages/$name.tar.xz" ] || packaging/tarball.sh "$packages" >/dev/null
        # Unpacked, used, moved and used again.
        in_root mkdir -p /opt/first /opt/second
        tar -C "$root/opt/first" -xf "$packages/$name.tar.xz"
        programs "" "/opt/first/$name/bin" "/opt/first/$name/lib" tarball
        mv "$root/opt/first/$name" "$root/opt/second/moved"
        programs "" /opt/second/moved/bin /opt/second/moved/lib tarball
        size=$(du -sm "$root/opt/second/moved" | cut -f 1)
        [ "$size" -le 40 ] || fail "tarball: $size MB, more than 40"
        rm -rf "$root/opt/first" "$root/opt/second"
        nothing_left tarball
        step "tarball: right, also when moved, $size MB"
        ;;
    wheel)
        wheel=$(find "$packages" -name "selvedge_nic-$version-*.whl" 2>/dev/null | head -1)
        [ -n "$wheel" ] || { packaging/wheel.sh "$packages" >/dev/null && wheel=$(find "$packages" -name "selvedge_nic-$version-*.whl" | head -1); }
        # The oldest system of the mirror.
        old=$folder/oldest
        [ -e "$old.made" ] || { step "making a bare system, Debian 11" && rm -rf "$old" &&
            packaging/root.sh make "$old" bullseye gcc libc6-dev python3 python3-venv && touch "$old.made"; }
        rm -rf "$old/root/try" && mkdir -p "$old/root/try/wheels"
        cp examples/shmem/hello.c "$old/root/try/shmem.c"
        cp examples/mpi/pingpong.c "$old/root/try/mpi.c"
        cp "$wheel" "$old/root/try/wheels/"
        # That system's pip reaches no index; this one's fetches for it.
        python3 -m pip -q download --no-deps --only-binary :all: --python-version 3.9 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
            --platform manylinux_2_28_x86_64 -d "$old/root/try/wheels" mpich
        cat >"$old/root/try/run.sh" <<'END'
set -eux
cd /root/try
python3 -m venv venv
. venv/bin/activate
ls -1 venv/lib/python3*/site-packages >before
pip -q install --no-index --find-links wheels selvedge-nic mpich
selvedge --version
oshcc shmem.c -o shmem
oshrun -n 4 ./shmem
mpicc mpi.c -o mpi -lm
FI_LOG_LEVEL=info selvedge mpirun -n 2 ./mpi >mpi.out 2>&1 || { tail -30 mpi.out && exit 1; }
grep -v ^libfabric mpi.out
grep -q 'registering provider: selvedge' mpi.out
selvedge sim -n 4 --machine extoll-asic800 -- ./shmem
python3 -c 'import selvedge; assert (selvedge.prefix() / "include/shmem.h").is_file(), selvedge.prefix()
result = selvedge.simulate("extoll-asic800", "ping-pong", ranks=2, sizes=[0, 64])
assert result.columns["bytes"] == [0, 64] and "+" not in selvedge.__version__, result.columns'
pip -q uninstall -y selvedge-nic mpich
ls -1 venv/lib/python3*/site-packages >after
diff before after
ls venv/bin | grep -E 'selvedge|osh|velorun' && exit 1 || true
END
        packaging/root.sh in "$old" sh /root/try/run.sh >"$folder/wheel.out" 2>&1 ||
            { tail -15 "$folder/wheel.out" >&2 && fail "wheel: programs; the whole output is in $folder/wheel.out"; }
        step "wheel: right, on Debian 11 with MPICH of PyPI"
        ;;
    rpm)
        [ -n "$(find "$packages" -name "selvedge-$version-*.rpm" 2>/dev/null)" ] || packaging/rpm.sh "$packages" >/dev/null
        if command -v rpmlint >/dev/null; then
            rpmlint -f packaging/rpm/rpmlintrc "$packages"/selvedge*.rpm >"$folder/rpmlint" 2>&1 || true
            ! grep " E: " "$folder/rpmlint" >&2 || fail "rpmlint"
        else
            step "rpm: rpmlint is not installed, and is left out"
        fi
        rpm --root "$root" --initdb
        rpm --root "$root" --nodeps --noscripts --ignorearch -i "$packages"/selvedge*.rpm || fail "rpm: installation"
        echo /usr/lib64 >"$root/etc/ld.so.conf.d/lib64.conf"
        in_root ldconfig
        programs "" /usr/bin /usr/lib64 rpm
        rpm --root "$root" --nodeps --noscripts -e selvedge selvedge-libs selvedge-devel || fail "rpm: removal"
        rm "$root/etc/ld.so.conf.d/lib64.conf"
        rm -rf "$root/var/lib/rpm" "$root/usr/lib/sysimage/rpm" "$root/root/.rpmdb"
        nothing_left rpm
        step "rpm: right, by rpm --root --nodeps on Debian; no distribution of rpm's was tried"
        ;;
    install)
        for libdir in lib "lib/$(uname -m)-linux-gnu"; do
            place=$folder/installed
            rm -rf "$place"
            make --no-print-directory install PREFIX="$place/usr" LIBDIR="$libdir" >"$folder/install.out" 2>&1 || { tail -5 "$folder/install.out" >&2 && fail "make install"; }
            # From here on as a user, without the variables of a build.
            rm -f "$folder/shmem"
            # shellcheck disable=SC2016  # for the inner shell
            env -u SELVEDGE_PREFIX -u LD_LIBRARY_PATH PATH="$place/usr/bin:$PATH" PKG_CONFIG_PATH="$place/usr/$libdir/pkgconfig" sh -euc '
                oshcc examples/shmem/hello.c -o "$1/shmem"
                [ "$(oshrun -n 4 "$1/shmem" | wc -l)" -ge 4 ]
                if command -v pkg-config >/dev/null; then [ -f "$(pkg-config --variable=libdir portals4)/libportals.so.1" ]; fi
                selvedge env ofi | grep -q "$2/libselvedge"
                selvedge sim -n 4 --machine extoll-asic800 -- "$1/shmem" >/dev/null' sh "$folder" "$place/usr/$libdir" ||
                fail "install: programs, with libraries in $libdir"
            make --no-print-directory uninstall PREFIX="$place/usr" >/dev/null
            left=$(find "$place" -mindepth 2)
            [ -z "$left" ] || { echo "$left" | head -20 >&2 && fail "install: files are left"; }
        done
        rm -rf "$place" "$folder/shmem"
        step "install: right, nothing is left"
        ;;
    tutorials)
        name=selvedge-$version-linux-$(uname -m)
        [ -e "$packages/$name.tar.xz" ] || packaging/tarball.sh "$packages" >/dev/null
        in_root mkdir -p /opt/first /root/try/clone
        tar -C "$root/opt/first" -xf "$packages/$name.tar.xz"
        cp -R docs tests examples machines python "$root/root/try/clone/"
        for page in docs/tutorials/*.md; do
            began=$(date +%s)
            in_root env SELVEDGE_PREFIX="/opt/first/$name" /root/try/clone/tests/pages.py "$page" >"$folder/tutorials.out" 2>&1 ||
                { tail -15 "$folder/tutorials.out" >&2 && fail "tutorials: $page; the whole output is in $folder/tutorials.out"; }
            took=$(($(date +%s) - began))
            [ "$took" -le 600 ] || fail "tutorials: $page took $took s, more than ten minutes"
            step "tutorials: $page: right, $took s"
        done
        rm -rf "$root/opt/first" "$root/root/try"
        nothing_left tutorials
        ;;
    *) fail "unknown kind $kind: deb, tarball, wheel, rpm, install, tutorials" ;;
    esac
done
