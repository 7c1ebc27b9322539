# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Drives a headless Chromium over its debugging pipe. Needs only Python's own library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found():
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of a browser of its own."""

    def __init__(self, width=1280, height=900):
        self.folder = tempfile.mkdtemp(prefix="selvedge-page-")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def descriptors():
            # The browser reads from 3 and writes to 4.
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                   "--ignore-certificate-errors", "--disable-background-networking", "--remote-debugging-pipe",
                   f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen([found(), *options], preexec_fn=descriptors, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.buffer, self.session, self.events = 0, b"", None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for heard in self.heard(end):
                if heard.get("id") == self.number:
                    if "error" in heard:
                        raise RuntimeError(f"{method}: {heard['error']}")
                    return heard["result"]
                if heard.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                    self.events.append(heard)
        raise RuntimeError(f"{method}: no answer")

    def heard(self, end):
        while b"\0" not in self.buffer:
            if not select.select([self.from_browser], [], [], max(0, end - time.monotonic()))[0]:
                return []
            read = os.read(self.from_browser, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self.buffer += read
        *whole, self.buffer = self.buffer.split(b"\0")
        return [json.loads(text) for text in whole]

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def value(self, script):
        """The value of an expression, which may be a promise."""
        said = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            details = said["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return said["result"].get("value")

    def until(self, script, seconds=30):
        end = time.monotonic() + seconds
        while True:
            value = self.value(script)
            if value:
                return value
            if time.monotonic() > end:
                raise RuntimeError(f"not so after {seconds} s: {script}")
            time.sleep(0.05)

    def type(self, element, text):
        self.value(f"document.getElementById({json.dumps(element)}).focus()")
        self.call("Input.insertText", text=text)

    def click(self, element):
        self.value(f"document.getElementById({json.dumps(element)}).click()")

    def key(self, name):
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=codes.get(name, 0))

    def mouse(self, kind, x, y, clicks=0):
        button = "none" if kind == "mouseMoved" and not clicks else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=1 if clicks else 0, clickCount=clicks)

    def picture(self, path):
        said = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(said["data"]))

    def complaints(self):
        """Exceptions of the page's scripts, and what its policy has refused."""
        found = []
        for event in self.events:
            of = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(of["exceptionDetails"].get("exception", {}).get("description", of["exceptionDetails"]["text"]))
            elif event["method"] == "Log.entryAdded" and of["entry"]["level"] == "error" and of["entry"]["source"] != "network":
                found.append(of["entry"]["text"])
        return found
