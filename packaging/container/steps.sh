#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Carries out the steps of the Containerfile in a bare Debian system, without a container engine: FROM by debootstrap, COPY, RUN, ENV and WORKDIR.
# Any other step but CMD is an error, because it would be left out. Root is needed.
#
# usage: packaging/container/steps.sh ROOT CONTEXT      ROOT: a folder for the system, made anew; CONTEXT: the folder that COPY reads
set -eu
[ $# = 2 ] || { sed -n '7s/^# //p' "$0" >&2 && exit 2; }
command -v debootstrap >/dev/null || { echo "debootstrap is not installed" && exit 77; }
tools=$(cd "$(dirname "$0")/.." && pwd)
root=$1
context=$2
fail() { echo "steps.sh: $*" >&2 && exit 1; }
steps=$(mktemp)
trap 'rm -f "$steps"' EXIT
# One step a line: without comments, continued lines joined.
sed -e '/^#/d' "$tools/container/Containerfile" | sed -e ':next' -e '/\\$/N; s/\\\n *//; t next' | sed '/^$/d' >"$steps"
variables=
folder=/
done=0
while read -r word rest; do
    case $word in
    FROM)
        suite=$(echo "$rest" | sed -n 's/^debian:\([a-z]*\)-slim$/\1/p')
        [ -n "$suite" ] || fail "FROM $rest: only debian:SUITE-slim is known"
        rm -rf "$root"
        "$tools/root.sh" make "$root" "$suite" </dev/null
        ;;
    ENV) variables="$variables $rest" ;;
    COPY)
        to=${rest##* }
        mkdir -p "$root$to"
        # shellcheck disable=SC2086  # patterns and words
        (cd "$context" && cp ${rest% *} "$root$to")
        ;;
    RUN)
        # shellcheck disable=SC2086  # words
        "$tools/root.sh" in "$root" env $variables sh -c "cd $folder && $rest" </dev/null >"$root.step" 2>&1 || { tail -5 "$root.step" >&2 && fail "RUN $rest"; }
        ;;
    WORKDIR) mkdir -p "$root$rest" && folder=$rest ;;
    CMD)
        words=$(echo "$rest" | sed -e 's/^\[//' -e 's/\]$//' -e 's/",* *"*/ /g' -e 's/"//g')
        # shellcheck disable=SC2086  # words
        "$tools/root.sh" in "$root" env $variables sh -c "cd $folder && $words" </dev/null >"$root.step" 2>&1 || { tail -5 "$root.step" >&2 && fail "CMD $rest"; }
        ;;
    *) fail "$word: not known here" ;;
    esac
    done=$((done + 1))
done <"$steps"
echo "container: $done steps were carried out in $root"
