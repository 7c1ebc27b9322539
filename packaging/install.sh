#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Copies the built tree to an install prefix (make install): all of bin, lib, include, libexec and share. Symbolic links stay relative,
# executable files get mode 755 and others 644, whatever the umask of the build was. No file contains the prefix, so the tree can be moved.
#
# usage: packaging/install.sh TREE PREFIX [DESTDIR [LIBDIR]]
#        packaging/install.sh --uninstall PREFIX [DESTDIR]
# With DESTDIR, the folder in which a package is built, files go to DESTDIR/PREFIX. LIBDIR is the folder below the prefix for libraries: lib
# (the default), lib64, or lib/ARCH-linux-gnu; these are where the command looks for them. PREFIX/share/selvedge/installed lists the files,
# and the folders that were made for them (with a slash at the end). By it --uninstall removes them, and another install those that it no
# longer has.
set -eu

# Ends if a list on standard input has a name that leads out of the prefix.
check() {
    while read -r name; do
        case $name in /* | *..*) echo "install: share/selvedge/installed: wrong name $name" >&2 && exit 1 ;; esac
    done
}

if [ "$1" = --uninstall ]; then
    root=${3:-}$2
    [ -f "$root/share/selvedge/installed" ] || { echo "install: $root/share/selvedge/installed: no such file; nothing is installed there" >&2 && exit 1; }
    cd "$root"
    check <share/selvedge/installed
    removed=$(grep -vc '/$' share/selvedge/installed)
    grep -v '/$' share/selvedge/installed | while read -r file; do rm -f "$file"; done
    # The deepest first; a folder that others use by now stays.
    folders=$(grep '/$' share/selvedge/installed | LC_ALL=C sort -r)
    rm share/selvedge/installed
    echo "$folders" | while read -r folder; do [ -z "$folder" ] || rmdir "$folder" 2>/dev/null || true; done
    echo "removed from $root: $removed files and links"
    exit
fi

cd "$1"
prefix=$2
root=${3:-}$prefix
libdir=${4:-lib}
case $libdir in
lib | lib64) above=.. ;;
lib/*-linux-gnu) above=../.. ;;
*) echo "install: LIBDIR is lib, lib64 or lib/ARCH-linux-gnu, not $libdir: the command looks for its libraries there" >&2 && exit 2 ;;
esac
list=$(mktemp)
made=$(mktemp)
new=$(mktemp)
trap 'rm -f "$list" "$made" "$new"' EXIT

# The name of a file of the tree below the prefix.
placed() {
    case $1 in
    lib/*) echo "$libdir/${1#lib/}" ;;
    *) echo "$1" ;;
    esac
}

find bin lib include libexec share -type f -o -type l | while read -r file; do placed "$file"; done | LC_ALL=C sort >"$new"
installed=$root/share/selvedge/installed
if [ -f "$installed" ]; then
    check <"$installed"
    # Folders of an earlier install remain its own.
    grep '/$' "$installed" >"$made" || true
    grep -v '/$' "$installed" | LC_ALL=C sort | LC_ALL=C comm -23 - "$new" | while read -r file; do rm -f "$root/$file"; done
else
    : >"$made"
fi
awk '{ while (sub(/\/[^\/]*$/, "")) print }' "$new" | LC_ALL=C sort -u | while read -r folder; do
    [ -d "$root/$folder" ] || echo "$folder/"
done >>"$made"
cat "$made" >>"$new"

find bin lib include libexec share -type f | LC_ALL=C sort >"$list"
while read -r file; do
    mode=644
    [ ! -x "$file" ] || mode=755
    to=$root/$(placed "$file")
    case $file in
    lib/pkgconfig/*.pc | lib/cmake/*)
        sed -e "s|^prefix=.*|prefix=\${pcfiledir}/../$above|" -e "s|^libdir=.*|libdir=\${exec_prefix}/$libdir|" \
            -e "/_selvedge_prefix \"/s|/\.\./\.\./\.\.\"|/../../$above\"|" "$file" >"$made"
        install -D -m "$mode" "$made" "$to"
        ;;
    *) install -D -m "$mode" "$file" "$to" ;;
    esac
done <"$list"
files=$(wc -l <"$list")

# Two processes for all links, because each function has one to its manual page.
mkdir -p "$root"
find bin include libexec share -type l | LC_ALL=C sort >"$made"
tar -cf - -T "$made" | tar --no-same-owner -xf - -C "$root"
(cd lib && find . -type l | LC_ALL=C sort | tar -cf - -T -) | tar --no-same-owner -xf - -C "$root/$libdir"
find bin lib include libexec share -type l | LC_ALL=C sort >"$made"
install -m 644 "$new" "$installed"
echo "installed in $root: $((files)) files, $(($(wc -l <"$made"))) links"
