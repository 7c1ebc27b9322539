# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Yosys by pyosys, in its own process: its log goes to a file, it can be stopped, and its errors are shown once."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path


class Failed(Exception):
    pass


class TimedOut(Failed):
    pass


def in_child(log, work, seconds=None):
    """Calls `work(run, design)` in a child, where `run` runs a line of Yosys commands. Raises Failed with Yosys' error."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its parent
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(out, 1)
            os.dup2(out, 2)
            from pyosys import libyosys as ys

            design = ys.Design()
            work(lambda line: ys.run_pass(line, design), design)
            status = 0
        except BaseException as error:
            import traceback

            traceback.print_exc()
            print(f"ERROR: {error}")
        finally:
            sys.stdout.flush()
            os._exit(status)
    began = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if seconds is not None and time.monotonic() - began > seconds:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimedOut(f"not finished within {seconds} s ({log})")
        time.sleep(0.05)
    if status:
        lines = Path(log).read_text(errors="replace").splitlines()
        errors = [line for line in lines if "ERROR" in line or "error:" in line] or lines[-5:]
        raise Failed("\n".join(errors[:8]) + f"\n(all of it: {log})")


def each(designs, measure):
    """Measures all of these designs, even after one that fails. Returns the exit status."""
    status = 0
    for design in designs:
        try:
            measure(design)
        except Failed as error:
            print(f"rtl: {design.name}: {error}", file=sys.stderr)
            status = 1
    return status
