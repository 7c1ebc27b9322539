#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# NCCL's plugin for SHARP over libsharp_coll, by collnet.c, on a machine without InfiniBand and without a GPU. The user
# provides the plugin's source: NCCL_RDMA_SHARP_PLUGINS names its directory
# (github.com/Mellanox/nccl-rdma-sharp-plugins). A copy is configured and built unchanged. network.c replaces its
# InfiniBand, and a header without functions CUDA's.
#
# usage: NCCL_RDMA_SHARP_PLUGINS=DIRECTORY tests/nccl/run.sh
#
# Exit status: 77 when the source or a build dependency is missing.
set -eu
cd "$(dirname "$0")/../.."

tree=$PWD/build
place=$tree/nccl
source=${NCCL_RDMA_SHARP_PLUGINS:-}
[ -f "$source/configure.ac" ] || { echo "nccl: NCCL_RDMA_SHARP_PLUGINS names no source of the plugin" && exit 77; }
for tool in autoreconf libtoolize make; do command -v "$tool" >/dev/null || { echo "nccl: left out: no $tool" && exit 77; }; done
echo '#include <infiniband/verbs.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 || { echo "nccl: left out: no headers of libibverbs" && exit 77; }

rm -rf "$place"
mkdir -p "$place/cuda/include" "$place/cuda/lib" "$place/sharp"
cp -R "$source" "$place/source"
ln -s "$tree/include" "$place/sharp/include"
ln -s "$tree/lib/sharp" "$place/sharp/lib"
printf '%s\n' '#include <limits.h>' '#include <stddef.h>' '#include <stdint.h>' 'typedef struct CUstream_st *cudaStream_t;' >"$place/cuda/include/cuda_runtime.h"
echo 'int cudaMalloc(void) { return 1; }' | "${CC:-cc}" -xc -shared -fPIC - -o "$place/cuda/lib/libcudart.so"
ar rc "$place/cuda/lib/libcudart_static.a"

log=$place/build.log
(
    cd "$place/source"
    autoreconf -i && ./configure --with-cuda="$place/cuda" --with-sharp="$place/sharp" --without-ucx && make
) >"$log" 2>&1 || { tail -30 "$log" && exit 1; }
plugin=$place/source/src/.libs/libnccl-net.so
nm -D "$plugin" | grep -q ' U sharp_coll_comm_init' || { echo "nccl: the plugin was built without SHARP" && exit 1; }

"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra "-I$place/cuda/include" "-I$place/source/include" tests/nccl/collnet.c tests/nccl/network.c \
    -rdynamic -o "$place/collnet" -ldl -lpthread
export LD_LIBRARY_PATH="$tree/lib/sharp"
for version in 6 8 10 11; do
    for processes in 2 3 4; do timeout 120 "$place/collnet" "$plugin" "$version" "$processes"; done
done
