#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A simulation's page on a wide and on a narrow screen, light and dark: nothing is wider than the screen, plots can be
read, plots and tables link to each other. Studies, benchmarks and the demonstration have the same page.
usage: report.py SELVEDGE"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import Browser

MACHINE = "machines/extoll-asic500.toml"
NARROW = 400
# In pixels: the words of a plot, what a finger can hit, a cell with a longer text.
WORDS_MIN, FINGER_MIN, CELL_MIN = 9, 40, 100
# Of two colours, as WCAG defines it; 4.5 is its bar for text.
CONTRAST_MIN = 4.5
failed = 0


def check(is_so, what):
    global failed
    if not is_so:
        failed += 1
        print(f"    {what}", flush=True)


def luminance(colour):
    """The relative luminance of a CSS colour such as "rgb(1, 2, 3)"."""
    channels = [int(float(part)) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def case(browser, url, width, scheme):
    print(f"report: {width} pixels, {scheme}", flush=True)
    browser.size(width, 900)
    browser.scheme(scheme)
    browser.open(url)
    widths = browser.value("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    check(widths[0] <= widths[1], f"the page is {widths[0]} pixels wide on a screen of {widths[1]}")
    smallest = "Math.min(...[...document.querySelectorAll('figure svg text')].map(word => {0}))"
    size = browser.value(smallest.format(
        "parseFloat(getComputedStyle(word).fontSize) * word.ownerSVGElement.getBoundingClientRect().width / word.ownerSVGElement.viewBox.baseVal.width"))
    check(size >= WORDS_MIN, f"the smallest words of plots are {size:.1f} pixels high")
    colours = browser.value("[getComputedStyle(document.querySelector('figure svg')).color, getComputedStyle(document.body).backgroundColor]")
    check(contrast(*colours) >= CONTRAST_MIN, f"words {colours[0]} on {colours[1]}")
    check((luminance(colours[1]) < 0.1) == (scheme == "dark"), f"{scheme} is {colours[1]}")
    if width == NARROW:
        thin = browser.value(f"[...document.querySelectorAll('td')].filter(one => one.textContent.length > 20 && one.offsetParent && one.getBoundingClientRect().width < {CELL_MIN}).map(one => one.textContent)")
        check(thin == [], f"cells are narrower than {CELL_MIN} pixels: {thin}")
        low = browser.value(f"[...document.querySelectorAll('nav a, figcaption a, .pictures a, summary')].filter(one => one.offsetParent && one.getBoundingClientRect().height < {FINGER_MIN}).map(one => one.textContent)")
        check(low == [], f"too low for a finger: {low}")


def case_links(browser, url):
    print("report: links between plots and tables", flush=True)
    browser.size(1280, 900)
    browser.open(url)
    links = browser.value("[...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.getAttribute('href'))")
    plots = [link for link in links if link.startswith("#plot-")]
    check(len(plots) >= 3, f"{len(plots)} tables name a plot")
    for link in links:
        check(browser.value(f"document.querySelectorAll({json.dumps(link)}).length") == 1, f"{link} leads nowhere")
    for plot in plots:
        browser.value(f"document.querySelector('a[href={json.dumps(plot)}]').click()")
        seen = f"(({{ top, bottom }}) => top < innerHeight && bottom > 0)(document.querySelector({json.dumps(plot)}).getBoundingClientRect())"
        browser.until(seen, 5)
        back = browser.value(f"document.querySelector({json.dumps(plot)} + ' figcaption a').getAttribute('href')")
        named = f"document.querySelector({json.dumps(back)}).closest('section, details').querySelector('a[href={json.dumps(plot)}]') !== null"
        check(browser.value(named), f"the table {back} does not name {plot}")


with tempfile.TemporaryDirectory() as folder:
    page = Path(folder, "page.html")
    run = [sys.argv[1], "sim", "-n", "16", "--machine", MACHINE, "--program", "ping-pong", "--quiet", "--html", page]
    subprocess.run(run, check=True, stdin=subprocess.DEVNULL)
    browser = Browser()
    try:
        for width in (1280, NARROW):
            for scheme in ("light", "dark"):
                case(browser, page.as_uri(), width, scheme)
        case_links(browser, page.as_uri())
        check(browser.complaints() == [], f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()
if failed:
    sys.exit(f"report: {failed} checks failed")
print("report: right")
