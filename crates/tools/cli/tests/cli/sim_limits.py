# SPDX-License-Identifier: Apache-2.0 OR MIT
# Waits with a limit in Python, in a simulated rank: each takes the virtual time that it asks for. Prints each case that
# does not; the exit status is their number.
import asyncio
import os
import queue
import select
import selectors
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, TimeoutError as Late

failures = 0


def case(name, wanted_s, work, slack_s=1e-3):
    global failures
    began = time.monotonic()
    try:
        is_right = work()
    except Exception as error:
        is_right = repr(error)
    took = time.monotonic() - began
    if is_right is not True or not wanted_s - 1e-6 <= took <= wanted_s + slack_s:
        print(f"{name}: {is_right}, took {took:.6f} s, wanted {wanted_s} s", flush=True)
        failures += 1


def raises(error, work):
    try:
        work()
    except error:
        return True
    return False


async def several():
    async def after(s):
        await asyncio.sleep(s)
        return s

    return await asyncio.gather(after(0.3), after(0.1), after(0.2)) == [0.3, 0.1, 0.2]


async def too_late():
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.2)
    except asyncio.TimeoutError:
        return True


async def executor():
    return await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.4) is None


async def messages():
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    loop = asyncio.get_running_loop()
    loop.call_later(0.25, far.send, b"x")
    return await loop.sock_recv(near, 1) == b"x"


def one_thread():
    case("time.sleep", 0.2, lambda: time.sleep(0.2) is None)
    case("asyncio.sleep", 0.2, lambda: asyncio.run(asyncio.sleep(0.2)) is None)
    case("asyncio.gather", 0.3, lambda: asyncio.run(several()))
    case("asyncio.wait_for", 0.2, lambda: asyncio.run(too_late()))
    case("asyncio, a socket", 0.25, lambda: asyncio.run(messages()))
    case("Queue.get", 0.2, lambda: raises(queue.Empty, lambda: queue.Queue().get(timeout=0.2)))
    case("SimpleQueue.get", 0.2, lambda: raises(queue.Empty, lambda: queue.SimpleQueue().get(timeout=0.2)))
    case("Event.wait", 0.2, lambda: threading.Event().wait(0.2) is False)

    def loops():
        event, end = threading.Event(), time.monotonic() + 0.2
        rounds = 0
        while time.monotonic() < end:
            event.wait(0.05)
            rounds += 1
        return rounds in (4, 5)

    case("Event.wait in a loop", 0.2, loops, 0.06)
    case("Condition.wait", 0.2, lambda: [(c := threading.Condition()).acquire(), c.wait(0.2)][1] is False)
    case("Lock.acquire", 0.2, lambda: [(lock := threading.Lock()).acquire(), lock.acquire(timeout=0.2)][1] is False)
    case("epoll.poll", 0.2, lambda: select.epoll().poll(0.2) == [])
    case("select.select", 0.2, lambda: select.select([os.pipe()[0]], [], [], 0.2) == ([], [], []))

    def selects():
        selector = selectors.DefaultSelector()
        selector.register(os.pipe()[0], selectors.EVENT_READ)
        return selector.select(0.2) == []

    case("selectors", 0.2, selects)
    handled = []
    signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))

    def alarm():
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        while len(handled) < 5:
            signal.pause()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return True

    case("signal.setitimer", 0.5, alarm)
    # A handler in Python does not end a sleep (PEP 475).
    case("time.sleep over an alarm", 2, lambda: [signal.alarm(1), time.sleep(2)][1] is None and len(handled) == 6)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    case("signal.sigtimedwait", 0.2, lambda: signal.sigtimedwait([signal.SIGUSR1], 0.2) is None)


def several_threads():
    def timer():
        done = threading.Event()
        threading.Timer(0.3, done.set).start()
        return done.wait(5)

    case("threading.Timer", 0.3, timer)

    def joins():
        thread = threading.Thread(target=time.sleep, args=(0.5,))
        thread.start()
        thread.join(0.2)
        is_late = thread.is_alive()
        thread.join()
        return is_late

    case("Thread.join", 0.5, joins)

    def puts():
        q = queue.Queue()

        def work():
            for number in range(5):
                time.sleep(0.1)
                q.put(number)

        threading.Thread(target=work).start()
        return [q.get(timeout=1) for _ in range(5)] == list(range(5))

    case("Queue.get, put by a thread", 0.5, puts)

    def late():
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(time.sleep, 0.5)
            return raises(Late, lambda: future.result(timeout=0.2))

    case("Future.result", 0.5, late)
    case("asyncio, an executor", 0.4, lambda: asyncio.run(executor()), 0.01)

    def conditions():
        condition, ready = threading.Condition(), []

        def notify():
            time.sleep(0.3)
            with condition:
                ready.append(1)
                condition.notify()

        threading.Thread(target=notify).start()
        with condition:
            return condition.wait_for(lambda: ready, timeout=2) == [1]

    case("Condition.wait_for, notified", 0.3, conditions)
    barrier = threading.Barrier(2)

    def breaks():
        return raises(threading.BrokenBarrierError, lambda: barrier.wait(0.2))

    case("Barrier.wait", 0.2, breaks)


if "threads" not in sys.argv[1:]:
    one_thread()
if "one" not in sys.argv[1:]:
    several_threads()
sys.exit(failures)
