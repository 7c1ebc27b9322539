#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Connections without the job's secret, for run.sh.

usage: strangers.py KIND COUNT ADDRESS:PORT...

Holds COUNT connections, distributed over the addresses, and makes a closed one again, until it is ended. KIND: `silent`
sends nothing; `slow` a byte every half second; `garbage` random bytes; `half` takes the greeting, and sends the begin of an
answer. Prints `ready` when all were made once.
"""

import os
import random
import selectors
import socket
import sys
import time

HALF_OFFER = b"\x00\x01\x00\x00selvedge\x03\x00" + bytes(40)


class Stranger:
    def __init__(self, kind, address, selector):
        self.kind, self.address, self.selector = kind, address, selector
        self.socket = None
        self.open()

    def open(self):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(self.address)
        self.selector.register(self.socket, selectors.EVENT_READ, self)

    def close(self):
        self.selector.unregister(self.socket)
        self.socket.close()

    def read(self):
        """Reads. Makes a new connection when this one was closed."""
        try:
            heard = self.socket.recv(4096)
        except OSError:
            heard = b""
        if not heard:
            self.close()
            self.open()
        elif self.kind == "half":
            self.send(HALF_OFFER)

    def send(self, data):
        try:
            self.socket.send(data)
        except OSError:
            pass

    def tick(self):
        if self.kind == "garbage":
            self.send(os.urandom(random.randrange(1, 400)))
        elif self.kind == "slow":
            self.send(b"\x10")


def main():
    kind, count = sys.argv[1], int(sys.argv[2])
    addresses = [(host, int(port)) for host, port in (text.rsplit(":", 1) for text in sys.argv[3:])]
    selector = selectors.DefaultSelector()
    strangers = [Stranger(kind, addresses[nth % len(addresses)], selector) for nth in range(count)]
    print("ready", flush=True)
    ticked = time.monotonic()
    while True:
        for key, _ in selector.select(0.1):
            key.data.read()
        if time.monotonic() > ticked + 0.5:
            ticked = time.monotonic()
            for stranger in strangers:
                stranger.tick()


main()
