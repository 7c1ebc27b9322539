# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# For scripts that run stock UCC over libsharp_coll, in the root of the source: finds run.sh's installation in $place,
# and makes UCC use its transport for SHARP for all supported operations, also among few processes of one host. UCC's
# registration cache was built for another version of UCX than the packages have, and crashes with theirs (1.18 and 1.22
# were tried).
site=$(echo "$place"/lib/python3*/site-packages)
ucc=$site/nvidia/libcal/cu12
export LD_LIBRARY_PATH="$site/libucx/lib:$tree/lib/sharp:$ucc/lib"
export UCC_CLS=basic UCC_CL_BASIC_TLS=ucp,sharp,self
export UCC_TL_SHARP_MIN_TEAM_SIZE=2 UCC_TL_SHARP_TEAM_MAX_PPN=64 UCC_TL_SHARP_TUNE=inf UCC_TL_SHARP_USE_RCACHE=n
