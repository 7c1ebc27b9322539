#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a Python wheel with command, libraries, compiler wrappers and provider, for any Linux with the C library 2.28 or newer: compiled by
# cargo-zigbuild with PyPI's ziglang. Its name is selvedge-nic, because `selvedge` is another project of PyPI; the module is `selvedge`.
#
# usage: packaging/wheel.sh [FOLDER]      FOLDER: for the wheel, build/packages
#
# The tree for it is build/old-glibc, cargo's output target/old-glibc. Manual pages of functions, NCCL's and SHARP's interfaces and Open MPI's
# component are not in the wheel: it cannot hold the links that they need, or they are for a system's own MPI.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/packages}
glibc=2.28
version=$(packaging/version.sh)
target=$(uname -m)-unknown-linux-gnu
# Not below the working folder: zig would name its headers relative to that, and build programs run elsewhere.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/selvedge/wheel-tools
cargo_target=${CARGO_TARGET_DIR:-$PWD/target}/old-glibc
tree=$PWD/build/old-glibc

[ -x "$tools/bin/auditwheel" ] || { mkdir -p "${tools%/*}" && python3 -m venv "$tools" && "$tools/bin/pip" -q install cargo-zigbuild ziglang auditwheel wheel; }
rm -rf "$tree"
mkdir -p "$tree" "$cargo_target/headers"
# Zig looks into no folder of the system's; libfabric's headers are all that we take from there.
ln -sfn /usr/include/rdma "$cargo_target/headers/rdma"
cat >"$tools/bin/old-cc" <<END
#!/bin/sh
exec "$tools/bin/python" -m ziglang cc -target $(uname -m)-linux-gnu.$glibc "\$@"
END
chmod +x "$tools/bin/old-cc"
PATH=$tools/bin:$PATH CPATH=$cargo_target/headers CARGO_TARGET_DIR=$cargo_target CARGO_ZIGBUILD_PYTHON_PATH=$PWD/packaging/zig.py \
    make --no-print-directory build TREE="$tree" CC="$tools/bin/old-cc" CARGO_VERB="zigbuild --target $target.$glibc" COMPONENT= \
    SMA_SCRIPT="-Wl,-T,$tree/link/libsma.ld" BUILT="$cargo_target/$target/release" >"$cargo_target/log" 2>&1 ||
    { tail -20 "$cargo_target/log" >&2 && exit 1; }

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
packaging/stage.sh "$tree" "$stage/tree" /selvedge lib
"$tools/bin/python" packaging/wheel.py "$stage/tree/selvedge" "$version" "manylinux_$(echo $glibc | tr . _)_$(uname -m)" "$stage"
mkdir -p "$out"
rm -f "$out"/selvedge_nic-*.whl
"$tools/bin/python" -m wheel pack --dest-dir "$out" "$stage/selvedge_nic-$version" >/dev/null
wheel=$out/selvedge_nic-$version-py3-none-manylinux_2_28_$(uname -m).whl
"$tools/bin/auditwheel" show "$wheel" >"$stage/audit" 2>&1
tr '\n' ' ' <"$stage/audit" | grep -q "manylinux_2_2[0-8]_" || { cat "$stage/audit" >&2 && exit 1; }
ls -l "$wheel"
