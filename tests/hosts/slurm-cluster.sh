# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# A cluster of Slurm over two test hosts, for scripts that source this file from the repository's root, after
# tests/mpi/common.sh. It leaves the script with status 77 when test hosts cannot be made, or Slurm is not installed. $work is a
# folder that goes with the script.

hosts=$PWD/tests/hosts/hosts.sh
rsh=$PWD/tests/hosts/rsh
PATH=$PATH:/usr/sbin:/sbin
for tool in srun slurmctld slurmd munged; do
    command -v $tool >/dev/null || { say "left out: $tool is not installed (Debian: slurm-wlm, munge)" && exit 77; }
done
reason=$("$hosts" check) || { say "left out: $reason" && exit 77; }
work=$(mktemp -d)
set=
trap '[ -z "$set" ] || "$hosts" down "$set"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# on HOST COMMAND: runs a line in the shell of a host.
on() { "$rsh" "host$1" "export SLURM_CONF='$work/slurm.conf'; cd '$PWD' && $2"; }

# The hosts share /tmp, but each slurmd needs its own folders.
make_cluster() {
    set=$("$hosts" up 2) || exit 1
    export SELVEDGE_TEST_HOSTS="$set"
    chmod 755 "$work"
    (umask 077 && head -c 128 /dev/urandom >"$work/munge.key")
    mkdir "$work/state" "$work/spool-host1" "$work/spool-host2" "$work/tmp-host1" "$work/tmp-host2"
    cat >"$work/slurm.conf" <<END
ClusterName=test
SlurmctldHost=host1(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
TmpFS=$work/tmp-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
KillWait=2
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=host1 NodeAddr=10.77.0.1 CPUs=8 RealMemory=100
NodeName=host2 NodeAddr=10.77.0.2 CPUs=8 RealMemory=100
PartitionName=all Nodes=host1,host2 Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:4
END
    on 1 "munged --force --key-file='$work/munge.key' --socket='$work/munge.socket' --pid-file='$work/munged.pid' \
        --log-file='$work/munged.log' --seed-file='$work/munged.seed'" || fail "munged does not start"
    on 1 slurmctld || fail "slurmctld does not start"
    for number in 1 2; do on $number "slurmd -N host$number" || fail "slurmd does not start on host$number"; done
    tries=0
    until [ "$(on 1 'sinfo -h -t idle -o %D' 2>/dev/null)" = 2 ]; do
        [ $tries -lt 600 ] || { tail -20 "$work"/*.log >&2 && fail "Slurm's hosts do not come up"; }
        tries=$((tries + 1))
        sleep 0.2
    done
}
