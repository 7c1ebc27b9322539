# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A PMI-1 client written from the protocol alone, run as a rank by tests/pmi.rs."""

import os
import socket

rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
pmi = socket.socket(fileno=int(os.environ["PMI_FD"]))
answers = pmi.makefile("r")


def ask(request, reply):
    pmi.sendall((request + "\n").encode())
    line = answers.readline().strip()
    words = dict(word.split("=", 1) for word in line.split(" "))
    assert words.pop("cmd") == reply, (request, line)
    return words


def ok(request, reply):
    words = ask(request, reply)
    assert words["rc"] == "0", (request, words)
    return words


ok("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
maxes = ask("cmd=get_maxes", "maxes")
assert int(maxes["keylen_max"]) >= 64 and int(maxes["vallen_max"]) >= 256
assert ask("cmd=get_appnum", "appnum")["appnum"] == "0"
assert ask("cmd=get_universe_size", "universe_size")["size"] == str(size)
name = ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"]
assert name == os.environ["SELVEDGE_JOB"]

for turn in range(3):
    ok(f"cmd=put kvsname={name} key=k-{turn}-{rank} value=v={rank * 10}", "put_result")
    ask("cmd=barrier_in", "barrier_out")
    for other in range(size):
        got = ok(f"cmd=get kvsname={name} key=k-{turn}-{other}", "get_result")["value"]
        assert got == f"v={other * 10}", got

if "MAPPING" in os.environ:
    mapping = ok(f"cmd=get kvsname={name} key=PMI_process_mapping", "get_result")["value"]
    assert mapping == os.environ["MAPPING"], mapping
assert ask(f"cmd=get kvsname={name} key=absent", "get_result")["rc"] == "-1"
seen, index = 0, 0
while True:
    item = ask(f"cmd=getbyidx kvsname={name} idx={index}", "getbyidx_results")
    if item["rc"] != "0":
        break
    seen, index = seen + 1, int(item["nextidx"])
assert seen == 3 * size, seen
assert ask("cmd=dance", "dance")["rc"] == "-1"
pmi.sendall(b"mcmd=spawn\nnprocs=2\nexecname=true\n")
assert ask("endcmd", "spawn_result")["rc"] == "-1"

# Two requests in one segment, and one in two.
pmi.sendall(b"cmd=get_appnum\ncmd=get_ap")
pmi.sendall(b"pnum\n")
assert [answers.readline().split(" ")[0] for _ in range(2)] == ["cmd=appnum"] * 2

ask("cmd=barrier_in", "barrier_out")
ok("cmd=finalize", "finalize_ack")
print(f"rank {rank} ok", flush=True)
