#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Jobs of `selvedge run` over test hosts: the examples, which check their results, and failures: killed ranks, a host
# that is cut off, PEs that wait for lost ones, a thousand strangers, a rank that computes, ranks that are killed while
# all connect, settings that differ or are wrong (links.c, ../death/traffic.c, ../shmem/lost/program.c). Then jobs of the
# launchers of MPIs, and processes without a launcher (services.c). Afterwards no process and no file is left on any
# host. With --long more examples, modes, settings, launchers and kills. With --scale it measures jobs of many ranks instead
# (scale.sh, whose options follow).
#
# usage: tests/hosts/run.sh [--long | --scale [OPTION]...]
#
# Tree and exit status: common.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1

[ "${1:-}" != --scale ] || { shift && exec tests/hosts/scale.sh "$@"; }
long=
[ "${1:-}" != --long ] || long=1
. tests/mpi/common.sh
. tests/hosts/common.sh
keeps=

# job WHAT STATUS HOSTS RANKS [ARGUMENT]...: runs a job of `selvedge run`.
job() {
    what=$1 wanted=$2 on=$3 ranks=$4
    shift 4
    ends "$what" "$wanted" timeout -k 10 200 "$tree/bin/selvedge" run --hosts "$on" -n "$ranks" --timeout 180 "$@"
}

# launched HOSTS RANKS PROGRAM [ARGUMENT]...: runs a job by the launcher of each installed MPI. Ranks are distributed
# evenly over the hosts.
launched() {
    spread=$1 ranks=$2
    shift 2
    for mpi in $all_mpis; do
        have "$mpi" || continue
        ends "$(version "$mpi"): $(basename "$1")${2:+ $2}, $ranks ranks on $spread hosts" 0 launch "$mpi" none "$ranks" 180 "$@"
    done
}

# Prints leftovers on a host: files and processes of jobs.
left_on() {
    "$SELVEDGE_RSH" "$1" 'ls -d /dev/shm/selvedge-*/* 2>/dev/null; ps -e -o args= | grep -v -e "^sleep 1000000" -e "^sh -c" -e "^ps " -e "^grep " -e "^ls "'
}

# ends WHAT STATUS COMMAND [ARGUMENT]...: the command has to end with this status, and leave nothing. Its output is in
# $printed.
ends() {
    what=$1 wanted=$2
    shift 2
    status=0
    began=$(date +%s)
    "$@" </dev/null >"$work/printed" 2>&1 || status=$?
    took=$(($(date +%s) - began))
    if [ "$status" = "$wanted" ]; then
        echo "    $what: right, $took s"
    else
        complain "$what: exit status $status, not $wanted, after $took s"
    fi
    # The other side continues.
    [ -z "$keeps" ] || return
    for number in 1 2 3; do
        left=$(left_on "host$number")
        # Daemons of other launchers end a little after their command.
        tries=300
        while [ -n "$left" ] && [ "$1" = launch ] && [ $tries -gt 0 ]; do
            sleep 0.2
            tries=$((tries - 1))
            left=$(left_on "host$number")
        done
        [ -z "$left" ] || complain "$what: left on host$number: $left"
    done
}

# says TEXT: checks that the last job has printed it.
says() { grep -q -e "$1" "$work/printed" || complain "$what: missing in its output: $1"; }

# example HOSTS RANKS PROGRAM [ARGUMENT]...
example() {
    on=$1 ranks=$2 program=$3
    shift 3
    job "$program${*:+ $*}, $ranks ranks on $on" 0 "$on" "$ranks" "$tree/examples/$program" "$@"
}

# unequal ASSIGNMENT: one host gets a setting that differs from the others'.
#
# shellcheck disable=SC2016  # for the inner shell
unequal() { job "$1 on one host" 3 host1,host2 4 sh -c 'test $SELVEDGE_HOST = 0 || export "$0"; exec "$@"' "$1" "$work/links" once; }

# Three jobs at once on the same hosts, one of them by another user.
at_once() {
    jobs=
    for user in '' 65534 ''; do
        SELVEDGE_TEST_USER=$user "$tree/bin/selvedge" run --hosts "$three" -n 6 --timeout 180 "$work/links" names &
        jobs="$jobs $!"
    done
    status=0
    for one in $jobs; do wait "$one" || status=$?; done
    return $status
}

# deaths MODE SEED: six of eight ranks are killed; the survivors are on two hosts. Each must detect every death.
deaths() {
    rm -f "$work/board"
    truncate -s 1M "$work/board"
    job "ranks are killed, mode $1, seed $2" 137 host1:1,host2:1,host3:1 8 --keep-going --bind none --mode "$1" \
        "$work/traffic" "$work/board" rank 1 "$2" mixed
    [ "$(grep -c 'errors=0 corrupt=0' "$work/printed")" = 2 ] || complain "$what: not two survivors were right"
    if grep -q -e 'between=0 ' -e 'received=0 ' "$work/printed"; then complain "$what: nothing was checked"; fi
}

# meeting SEED: 12 ranks connect to each other at once, and four of them are killed meanwhile.
meeting() {
    job "ranks are killed while all connect, seed $1" 137 "$three" 12 --keep-going --bind none "$work/links" meet "$1"
    [ "$(grep -c ': right$' "$work/printed")" = 8 ] || complain "$what: not eight survivors were right"
}

# cut_when_all_run: cuts the network of host 3 when three ranks run. The set of hosts is unusable afterwards.
cut_when_all_run() {
    tries=0
    until [ "$(grep -c ' runs$' "$work/printed")" = 3 ] || [ $tries -gt 1200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    "$hosts" cut "$set" 3
}

# cut_off: a host is cut off, and every rank has to notice it.
cut_off() {
    : >"$work/printed"
    cut_when_all_run &
    SELVEDGE_NET_TIMEOUT=2 job "a host is cut off" 0 "$three" 3 "$work/links" lost 2
    wait $!
    [ "$(grep -c ' is lost, ' "$work/printed")" = 4 ] || complain "$what: not every rank detected the loss"
}

# ended_after_loss HOW NUMBER: the last job's PEs, but for the lost ones, have named a lost PE, its host and the reason.
ended_after_loss() {
    count=$(grep -c -e "^selvedge: PE [0-9]*: PE [0-9]* on host[0-9]* is lost: .*$1.*; this PE waits, and ends itself" "$work/printed")
    [ "$count" -ge "$2" ] || complain "$what: $count PEs, not $2, have named the loss: $1"
    [ "$took" -le 60 ] || complain "$what: it took $took s"
}

# pes_lose CALL: PEs wait in a call, and a host is cut off.
pes_lose() {
    : >"$work/printed"
    cut_when_all_run &
    SELVEDGE_NET_TIMEOUT=2 job "PEs wait in $1, a host is cut off" 1 "$three" 3 "$work/losses" "$1" compute
    wait $!
    ended_after_loss "" 1
}

# ports_of HOST ADDRESS: the addresses at which processes of a host listen, as the kernel writes them: little-endian.
ports_of() {
    "$SELVEDGE_RSH" "host$1" 'cat /proc/net/tcp' | while read -r _ at _ state _; do
        [ "$state" != 0A ] || [ "${at%:*}" != "0${1}004D0A" ] || echo "10.77.0.$1:$((0x${at#*:}))"
    done
}

# strangers KIND HOST CHECK: a thousand connections of that host, without the secret, to each rank, before these meet.
strangers() {
    : >"$work/strangers"
    rm -f "$work/met"
    (
        tries=0
        until [ "$(echo $(ports_of 1) $(ports_of 2) | wc -w)" -ge 4 ] || [ $tries -gt 300 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
        # shellcheck disable=SC2046  # several addresses
        "$hosts" on "$set" "$2" timeout 120 tests/hosts/strangers.py "$1" 4000 $(ports_of 1) $(ports_of 2) |
            while read -r _; do touch "$work/met"; done
    ) 2>"$work/strangers" </dev/null &
    keeps=1
    SELVEDGE_NET_CHECK=$3 job "a thousand strangers, $1, on host $2, frames checked by $3" 0 "$two" 4 "$work/pes" "$work/met"
    keeps=
    pkill -f tests/hosts/strangers.py
    wait $! 2>/dev/null
    ! grep -q Traceback "$work/strangers" || complain "$what: $(cat "$work/strangers")"
    # A line a second and process at most, with a count.
    lines=$(grep -c "a connection from" "$work/printed")
    [ "$lines" -le $((took * 4 + 4)) ] || complain "$what: $lines lines about strangers in $took s"
}

# services ASKERS NODE [SECRET]: starts an endpoint with a service under that node of host 1, for ASKERS clients. Sets
# $answering.
services() {
    SELVEDGE_SECRET=${3:-} "$hosts" on "$set" 1 timeout 180 "$work/services" answer "$2" 4711 "$1" >"$work/answered" 2>&1 </dev/null &
    answering=$!
    tries=0
    until grep -q ready "$work/answered" || [ $tries -gt 1200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

# asks WHAT STATUS HOST NODE [SECRET]: a process of that host asks the service.
asks() { SELVEDGE_SECRET=${5:-} ends "$1" "$2" "$hosts" on "$set" "$3" timeout 180 "$work/services" ask "$4" 4711; }

# answered WHAT: checks that all clients have asked.
answered() {
    status=0
    wait "$answering" || status=$?
    [ "$status" = 0 ] || { cp "$work/answered" "$work/printed" && complain "$1: exit status $status"; }
}

compile tests/hosts/links.c "$work/links"
"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror tests/hosts/services.c -o "$work/services" -lfabric || exit 1
"$tree/bin/oshcc" -std=gnu11 -O2 -Wall -Wextra -Werror tests/hosts/pes.c -o "$work/pes" || exit 1
"$tree/bin/oshcc" -std=gnu11 -O2 -Wall -Wextra -Werror tests/shmem/lost/program.c -o "$work/losses" || exit 1
compile tests/death/traffic.c "$work/traffic"
hosts_anew 3

echo "hosts: examples"
two=host1,host2 three=host1,host2,host3
example "$two" 2 hello_put
example "$three" 6 triggered_barrier 5
example "$three" 6 shmem/alltoall 3
example "$two" 2 extoll/window
# The hosts share this machine's cores, and each would pin its ranks to the same first ones.
job "gasnet/histogram 20000, 6 ranks on $three" 0 "$three" 6 --bind none "$tree/examples/gasnet/histogram" 20000
job "extoll/palms, 2 ranks on $two" 0 "$two" 2 --bind none "$tree/examples/extoll/palms" pingpong 20
printf 'host1 # one\nhost2\nhost1\n' >"$work/machines"
# Each agent starts that of the next host.
if command -v python3 >/dev/null; then SELVEDGE_RUN_FANOUT=1 example "$three" 6 shmem/alltoall 3; fi
ends "velorun: ranks 0 and 1 on host1, 2 on host2" 0 "$tree/bin/velorun" -machinefile "$work/machines" --timeout 180 \
    sh -c 'test "$(uname -n)" = host$((SELVEDGE_RANK / 2 + 1))'
if [ "$long" ]; then
    example "$two" 2 counting_put 5
    example "$three" 6 shmem/hello
    example "$three" 6 halo2d 64 5
    example "$two" 2 protocols 1
    example "$two" 4 shmem/summa 32
    example "$two" 4 shmem/stencil 64 64 1
    example "$two" 2 shmem/pingpong 5
    for readme in readme1 readme2; do [ ! -x "$tree/examples/$readme" ] || example "$two" 2 "$readme"; done
    example "$two" 4 triggered_barrier 100
    example "$two" 4 halo2d 256 50
    example "$three" 9 shmem/alltoall 20
    example "$three" 9 shmem/summa 96
    example "$three" 6 shmem/stencil
    example "$two" 2 shmem/pingpong 50
fi

echo "hosts: settings"
SELVEDGE_NET_CHECK=crc job "checked frames" 0 "$three" 6 "$work/links" once
SELVEDGE_NET_CHECK=mac job "frames with tags" 0 "$three" 6 "$work/links" once
unequal SELVEDGE_NET_CHECK=crc
says "set SELVEDGE_NET_CHECK alike on all hosts"
unequal SELVEDGE_SECRET=00
says "has another SELVEDGE_SECRET"
SELVEDGE_NET_PROVIDER=nosuch job "no such provider" 3 "$two" 4 "$work/links" once
says "libfabric has no provider nosuch"
SELVEDGE_NET_PROVIDER=sockets job "the deprecated provider" 3 "$two" 4 "$work/links" once
says "SELVEDGE_NET_PROVIDER=sockets: messages stop"
SELVEDGE_NET_INTERFACE=eth9 job "no such interface" 1 "$two" 4 "$work/links" once
says "SELVEDGE_NET_INTERFACE=eth9 is no interface or address of this host"

echo "hosts: a faulty network"
faults=loss=0.02,corrupt=0.02,double=0.02,reorder=0.02,delay=1ms
SELVEDGE_NET_FAULTS=$faults,seed=1 SELVEDGE_NET_CHECK=crc job "repeated frames" 0 "$two" 4 "$work/links" once
SELVEDGE_NET_FAULTS=$faults,seed=2 SELVEDGE_NET_CHECK=mac job "repeated frames with tags" 0 "$two" 2 "$work/links" busy
grep -q 'frames of a process of another host are sent again' "$work/printed" || complain "$what: nothing was repeated"
SELVEDGE_NET_FAULTS=loss=2 job "invalid faults" 1 "$two" 2 "$work/links" once
says 'SELVEDGE_NET_FAULTS: "loss=2" is not understood'
if [ "$long" ]; then
    SELVEDGE_NET_FAULTS=$faults SELVEDGE_NET_CHECK=crc example "$three" 6 shmem/alltoall 20
    SELVEDGE_NET_FAULTS=$faults SELVEDGE_NET_CHECK=mac example "$two" 4 triggered_barrier 50
fi

echo "hosts: a rank that computes"
rm -f "$work/done"
job "puts to it arrive by the progress thread" 0 "$two" 2 "$work/links" absent "$work/done"
[ ! "$long" ] || SELVEDGE_NET_PROGRESS=calls job "puts to it wait for its calls" 0 "$two" 2 "$work/links" busy

echo "hosts: memory that is unmapped"
for bytes in 40000 1000000; do job "the place of a put of $bytes bytes" 0 "$two" 2 "$work/links" unmapped $bytes; done

echo "hosts: other launchers"
job "every rank puts to every other" 0 "$two" 4 "$work/links" names
ends "oshrun: pes, 4 ranks on 2 hosts" 0 "$tree/bin/oshrun" -N 2 -host "$two" -n 4 --timeout 180 "$work/pes"
launched 2 4 "$work/links" names
launched 2 4 "$work/pes"
if [ "$long" ]; then
    launched 3 6 "$work/links" names
    launched 3 6 "$work/pes"
    launched 3 6 "$tree/examples/triggered_barrier" 20
    launched 3 6 "$tree/examples/shmem/alltoall" 3
fi

echo "hosts: endpoints by node and service"
export FI_PROVIDER_PATH="$tree/lib/libselvedge" FI_PROVIDER=selvedge,tcp,ofi_rxm
keeps=1
services 4 -
asks "by the host's name" 0 2 host1
ends "after a message whose memory is unmapped" 0 "$hosts" on "$set" 2 timeout 180 "$work/services" unmap host1 4711
asks "by its address" 0 3 10.77.0.1
asks "from the same host" 0 1 host1
answered "without a secret"
services 1 - 0102
asks "without the secret" 3 2 host1
asks "with another secret" 3 2 host1 0103
asks "with the secret" 0 2 host1 0102
answered "with a secret"
services 1 127.0.0.1
asks "a loopback address is found from no other host" 3 2 host1
asks "and from the own host" 0 1 127.0.0.1
answered "a loopback address"
keeps=
unset FI_PROVIDER_PATH FI_PROVIDER
# The folder of processes without a job stays.
left=$(for number in 1 2 3; do "$SELVEDGE_RSH" "host$number" 'find /dev/shm/selvedge-* -type f ! -name ".*"'; done)
[ -z "$left" ] || complain "left: $left"
hosts_anew 3

echo "hosts: several jobs, many ranks"
ends "three jobs at once, of two users" 0 at_once
[ "$(grep -c ': right' "$work/printed")" = 18 ] || complain "$what: not 18 ranks were right"
job "more ranks than cores" 0 host1:8,host2:8 16 "$work/links" names

echo "hosts: strangers"
if command -v python3 >/dev/null; then
    strangers silent 3 none
    strangers half 3 crc
    strangers garbage 2 mac
    if [ "$long" ]; then
        for check in none crc mac; do
            for kind in silent slow garbage half; do
                strangers $kind 3 $check
                strangers $kind 2 $check
            done
        done
    fi
else
    echo "    left out: there is no python3"
fi

echo "hosts: losses"
deaths nic 1
meeting 1
for call in barrier_all wait_until; do
    job "PEs wait in $call, one on another host is killed" 137 "$two" 4 --keep-going "$work/losses" $call kill
    ended_after_loss "it was killed by SIGKILL" 3
done
job "a PE waits in quiet, one on another host is killed" 137 "$two" 2 --keep-going "$work/losses" quiet kill
ended_after_loss "it was killed by SIGKILL" 1
# shellcheck disable=SC2016  # for the inner shell
job "PEs wait, one host has another secret" 1 "$three" 3 \
    sh -c 'test $SELVEDGE_HOST != 2 || export SELVEDGE_SECRET=00; exec "$@"' sh "$work/losses" barrier_all wait
ended_after_loss "" 1
for faults in corrupt=1,seed=1 loss=0.5,seed=4; do
    SELVEDGE_NET_FAULTS=$faults SELVEDGE_NET_TIMEOUT=2 \
        job "PEs wait, frames have no check, $faults" 1 "$three" 3 "$work/losses" barrier_all wait
    ended_after_loss "set SELVEDGE_NET_CHECK=crc" 1
done
SELVEDGE_NET_FAULTS=delay=5ms meeting 2
if [ "$long" ]; then
    # Two hundred ranks, and each way of checking frames.
    for seed in $(seq 2 34); do
        case $((seed % 4)) in
        0) deaths host "$seed" ;;
        1) SELVEDGE_NET_CHECK=crc deaths nic "$seed" ;;
        2) SELVEDGE_NET_CHECK=mac SELVEDGE_NET_FAULTS=loss=0.01,corrupt=0.01,double=0.01,delay=1ms deaths nic "$seed" ;;
        3) deaths nic "$seed" ;;
        esac
    done
    for seed in $(seq 3 20); do SELVEDGE_NET_FAULTS=delay=${seed}ms meeting "$seed"; done
    for check in crc mac; do
        export SELVEDGE_NET_CHECK=$check
        cut_off
        hosts_anew 3
    done
    unset SELVEDGE_NET_CHECK
fi
cut_off
for call in barrier_all wait_until; do
    hosts_anew 3
    pes_lose $call
done

verdict
