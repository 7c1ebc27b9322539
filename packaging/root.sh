#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Bare systems for the tests of packages. Root is needed.
#
# usage: packaging/root.sh make FOLDER [SUITE [PACKAGE]...]    a Debian system with these packages, by debootstrap, from this host's mirror
#        packaging/root.sh in FOLDER COMMAND...                runs a command there, as root, with /proc, /dev and an own /dev/shm
#        packaging/root.sh files FOLDER                        prints its files, but for those that every installation changes
set -eu

# Mounts end with the command: they are in a mount namespace of its own.
inside() {
    root=$1
    shift
    exec unshare --mount --propagation private --fork --pid --kill-child sh -c '
        root=$1 && shift
        mount --bind "$root" "$root" && mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" &&
            mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || exit 125
        exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive "$@"' sh "$root" "$@"
}

case ${1:-} in
make)
    root=$2
    suite=${3:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
    [ $# -lt 3 ] && shift 2 || shift 3
    command -v debootstrap >/dev/null || { echo "root.sh: debootstrap is missing; apt-get install debootstrap" >&2 && exit 1; }
    # shellcheck disable=SC2016  # apt's own names
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)
    [ -n "$mirror" ] || { echo "root.sh: apt has no mirror; run apt-get update" >&2 && exit 1; }
    mkdir -p "$root"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || { tail -5 "$root.log" >&2 && exit 1; }
    # How this host's apt reaches the mirror.
    cp -R /etc/apt/apt.conf.d "$root/etc/apt/"
    rm -f "$root"/etc/apt/apt.conf.d/*docker-clean "$root"/etc/apt/apt.conf.d/*packagekit "$root"/etc/apt/apt.conf.d/*appstream
    [ ! -d /etc/apt/auth.conf.d ] || cp -R /etc/apt/auth.conf.d "$root/etc/apt/"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    [ $# -eq 0 ] || inside "$root" apt-get install -y --no-install-recommends "$@" >>"$root.log" 2>&1 || { tail -5 "$root.log" >&2 && exit 1; }
    ;;
in)
    root=$2
    shift 2
    inside "$root" "$@"
    ;;
files)
    cd "$2" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./run -o -path ./root -o -path ./var/lib/dpkg \
        -o -path ./var/lib/apt -o -path ./var/log -o -path ./var/cache -o -path ./etc/ld.so.cache -o -path ./var/lib/systemd \) -prune -o -print | LC_ALL=C sort
    ;;
*) sed -n '4,8s/^# //p' "$0" >&2 && exit 2 ;;
esac
