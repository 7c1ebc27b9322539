#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stands for sshd: lets a process of one test host run a command on another, which namespaces forbid.

usage: rshd.py serve SET            listens for all hosts of a set (hosts.sh starts it)
       rshd.py ask SET [WORD]...    runs `rsh` with these words outside of the hosts; `rsh` does so on a host

`ask` passes its environment, folder and standard streams on, and ends with the command's exit status.
"""

import json
import os
import signal
import socket
import sys

RSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rsh")


def serve(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    os.chmod(path + ".new", 0o777)
    listener.listen(1024)
    os.rename(path + ".new", path)
    while True:
        connection, _ = listener.accept()
        # A first child, so that the kernel's first process reaps the second.
        if (child := os.fork()) == 0:
            if os.fork() == 0:
                listener.close()
                answer(connection)
            os._exit(0)
        os.waitpid(child, 0)
        connection.close()


def answer(connection):
    data, streams, _, _ = socket.recv_fds(connection, 8, 3)
    length = int.from_bytes(data, "little")
    data = b""
    while len(data) < length:
        data += connection.recv(length - len(data)) or os._exit(1)
    asked = json.loads(data)
    command = os.fork()
    if command == 0:
        # A shell starts background jobs, such as this one, with these ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 64)
        os.chdir(asked["folder"])
        os.execve(RSH, ["rsh", *asked["words"]], asked["environment"])
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(command, 0)
    code = os.waitstatus_to_exitcode(status)
    connection.send(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def ask(path, words):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    asked = {"words": words, "environment": dict(os.environ), "folder": os.getcwd()}
    data = json.dumps(asked).encode()
    socket.send_fds(connection, [len(data).to_bytes(8, "little")], [0, 1, 2])
    connection.sendall(data)
    # The command has the streams now. They end with it.
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    code = connection.recv(1)
    sys.exit(code[0] if code else 255)


def main():
    match sys.argv[1:]:
        case ["serve", folder]:
            serve(folder + "/rsh.socket")
        case ["ask", folder, *words]:
            ask(folder + "/rsh.socket", words)
        case _:
            sys.exit(__doc__)


main()
