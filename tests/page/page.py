#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cases of tests/page/page.sh. usage: page.py MADE_UP [--bars]"""
import json
import subprocess
import sys
import tempfile

from browser import Browser

DRAWN_MS_MAX = 200
PASSWORD = "let me look"
failed = 0


def check(is_so, what):
    global failed
    if not is_so:
        failed += 1
        print(f"    {what}", flush=True)


class Fabric:
    """A made-up fabric, of columns and rows, or made-up jobs, and its page."""

    def __init__(self, program, *shown):
        self.folder = tempfile.TemporaryDirectory()
        command = [program, *shown] if shown == ("jobs",) else [program, self.folder.name, *map(str, shown), "0"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.folder.cleanup()


def log_in(browser, url, name, password=PASSWORD):
    browser.open(url)
    browser.until("!document.getElementById('entry').hidden")
    browser.type("name", name)
    browser.type("password", password)
    browser.click("enter")


def rows(panel):
    return f"document.querySelectorAll('#panel-{panel} tbody tr').length"


def pixels(browser, canvas="topology"):
    """How many pixels of a canvas are nearly red, as the full link, and how many are drawn at all."""
    return browser.value(f"const name = '{canvas}';" """(() => {
        const canvas = document.getElementById(name);
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let [red, drawn] = [0, 0];
        for (let at = 0; at < data.length; at += 4) {
            if (data[at + 3] < 200) continue;
            drawn += 1;
            if (data[at] > 180 && data[at + 1] < 95 && data[at + 2] < 95) red += 1;
        }
        return [red, drawn];
    })()""")


def case_operator(program):
    print("page: an operator", flush=True)
    fabric, browser = Fabric(program, 3, 3), Browser()
    try:
        log_in(browser, fabric.url, "ann", "not this one")
        browser.until("document.getElementById('refused').textContent.includes('wrong name or password')")
        log_in(browser, fabric.url, "ann")
        browser.until(f"{rows('hosts')} === 9")
        check("9 hosts, 18 links" in browser.value("document.getElementById('summary').textContent"), "the summary is wrong")
        browser.until("document.querySelector('#panel-hosts .meter') !== null")
        browser.value("new Promise(done => setTimeout(done, 500))")
        red, drawn = pixels(browser)
        check(red > 50, f"the full link is not red: {red} pixels")
        check(drawn > 2000, f"{drawn} pixels are drawn")
        # By keys: the first host, then a neighbour of it; Enter takes an end of the route.
        browser.value("document.getElementById('topology').focus()")
        for key in ("ArrowRight", "Enter"):
            browser.key(key)
        check(browser.value("document.getElementById('from').value") == "host0", "Enter has taken no end of the route")
        browser.type("to", "host4")
        browser.value("document.querySelector('#route button').click()")
        browser.until("document.querySelectorAll('#way li').length === 5")
        # Hover: numbers of what is under the pointer.
        box = browser.value("(({ left, top, width, height }) => [left, top, width, height])(document.getElementById('topology').getBoundingClientRect())")
        found = False
        for step in range(1, 400):
            x, y = box[0] + box[2] * (step % 20) / 20, box[1] + box[3] * (step // 20) / 20
            browser.mouse("mouseMoved", x, y)
            if browser.value("[...document.querySelectorAll('.drawn .tip')].some(tip => !tip.hidden && tip.textContent.includes('load'))"):
                found = True
                break
        check(found, "no link tells its load under the pointer")
        # A host is dragged.
        browser.key("Escape")
        browser.click("tab-links")
        browser.until(f"{rows('links')} === 18")
        browser.value("document.querySelector('#panel-links tbody tr').click()")
        acts = "[...document.querySelectorAll('#chosen button')].filter(button => button.textContent === %s)"
        browser.until(f"{acts % json.dumps('Drain')}.length === 2")
        browser.value(f"{acts % json.dumps('Drain')}[0].click()")
        browser.until("document.querySelector('#chosen .said.good') !== null")
        browser.until("document.querySelector('#panel-links .warn-text') !== null")
        # The act that breaks a link asks first.
        browser.until(f"{acts % json.dumps('Deactivate')}.length === 2")
        browser.value(f"{acts % json.dumps('Deactivate')}[0].click()")
        browser.value("[...document.querySelectorAll('#chosen button')].find(button => button.textContent === 'Take it down?').click()")
        browser.until("document.getElementById('summary').textContent.includes('17 links, 1 down')")
        browser.click("tab-log")
        browser.until("document.getElementById('panel-log').textContent.includes('ann asks, on the page')")
        # Texts of hosts are text.
        check(browser.value("document.querySelectorAll('#panel-log b').length") == 0, "a log line became an element")
        check("<b>bold</b>" in browser.value("document.getElementById('panel-log').textContent"), "a log line has lost its text")
        browser.type("filter", "bold quoted")
        browser.until("document.querySelectorAll('#panel-log li').length === 2")
        browser.click("tab-nics")
        browser.value("document.getElementById('filter').value = ''")
        browser.until(f"{rows('nics')} > 8")
        # The links of a NIC, and those that are not seen.
        browser.until("document.getElementById('nic-notes').textContent.includes('the daemon may not read them')")
        browser.value("document.querySelector('#nic-list tbody tr').click()")
        browser.until("document.getElementById('nic-links').textContent.includes('<b>cut</b>')")
        check("rank 1 on host" in browser.value("document.querySelector('#nic-links tbody td').textContent"), "the link's other end")
        browser.click("leave")
        browser.until("!document.getElementById('entry').hidden")
        check(browser.complaints() == [], f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()
        fabric.close()


def case_viewer(program):
    print("page: a viewer", flush=True)
    fabric, browser = Fabric(program, 3, 1), Browser()
    try:
        log_in(browser, fabric.url, "vic")
        browser.until(f"{rows('hosts')} === 3")
        browser.click("tab-links")
        browser.value("document.querySelector('#panel-links tbody tr').click()")
        browser.until("document.getElementById('chosen').textContent.includes('Operators can')")
        check(browser.value("document.querySelectorAll('#chosen button').length") == 0, "a viewer is offered acts")
        script = """(async () => {
            const session = await (await fetch('api/session')).json();
            const headers = { 'content-type': 'application/json', 'x-selvedge-token': session.token };
            const body = JSON.stringify({ host: '', port: 0, act: 'down' });
            return (await fetch('api/link', { method: 'POST', headers, body })).status;
        })()"""
        check(browser.value(script) == 403, "a viewer's act is not refused")
        check(browser.complaints() == [], f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()
        fabric.close()


def case_thousand(program, has_bars):
    print("page: a thousand hosts", flush=True)
    fabric, browser = Fabric(program, 40, 25), Browser()
    try:
        log_in(browser, fabric.url, "vic")
        drawn = browser.until("performance.getEntriesByName('draw topology').map(one => one.duration)[0]")
        print(f"    placed and drawn within {drawn:.0f} ms (bar {DRAWN_MS_MAX} ms)")
        check(not has_bars or drawn <= DRAWN_MS_MAX, "above the bar")
        check(pixels(browser)[1] > 5000, "little is drawn")
        check(browser.complaints() == [], f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()
        fabric.close()


def case_jobs(program):
    print("page: running jobs", flush=True)
    jobs, browser = Fabric(program, "jobs"), Browser()
    text = "document.getElementById('{}').textContent".format
    try:
        browser.open(jobs.url)
        browser.until(f"{text('summary')}.includes('3 ranks')")
        check(browser.value("document.querySelectorAll('#ranks tbody tr').length") == 3, "not each rank has a row")
        # The busiest cell is red, the other is not: on a logarithmic scale it is three of six decades below.
        red, drawn = pixels(browser, "matrix")
        check(red > 500 and drawn > 9 * red * 0.8, f"the matrix has {red} red pixels of {drawn}")
        browser.value("document.getElementById('matrix').focus()")
        for name in ["ArrowDown", "ArrowUp", "ArrowRight"]:
            browser.key(name)
        browser.until(f"{text('chosen')}.includes('rank 0 → rank 1') && {text('chosen')}.includes('1 MB/s')")
        browser.value("document.querySelectorAll('#ranks button')[1].click()")
        browser.until(f"{text('chosen')}.includes('from rank 0: 10 MB') && {text('rates-of')} === 'rank 1'")
        browser.size(400, 900)
        check(browser.value("document.documentElement.scrollWidth") <= 400, "a narrow page scrolls sideways")
        jobs.process.stdin.close()
        browser.until(f"{text('running')} === 'ended'")
        check(browser.complaints() == [], f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()
        jobs.close()


program = sys.argv[1]
case_operator(program)
case_viewer(program)
case_thousand(program, "--bars" in sys.argv)
case_jobs(program)
if failed:
    sys.exit(f"page: {failed} checks failed")
print("page: right")
