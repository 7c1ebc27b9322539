#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks each link of the site that `make site` has built: the file is in the site, and its anchor in the file.

Links to other servers are not followed. A link out of the folder, or from the root of a server, is a fault.

usage: tests/site.py [FOLDER]      default: target/site
"""
import html.parser
import os
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.line_of = [], set(), {}
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                self.line_of.setdefault(value, self.getpos()[0])


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/site")
    files = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    pages = {path: Page(path) for path in files if path.endswith(".html")}
    if not pages:
        sys.exit(f"site: {root} has no pages; run make site")
    # The page of a server for wrong addresses; its links are meant for the root of the site.
    pages.pop(os.path.join(root, "404.html"), None)
    faults, count = [], 0
    for path, page in sorted(pages.items()):
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(url.path))) if url.path else path
            anchor = urllib.parse.unquote(url.fragment)
            reason = None
            if url.path.startswith("/") or not (target + os.sep).startswith(root + os.sep):
                reason = "leads out of the site"
            elif not os.path.isfile(target):
                reason = "leads nowhere"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                reason = "names no heading of its page"
            if reason:
                faults.append(f"{os.path.relpath(path, root)}:{page.line_of[link]}: {link} {reason}")
    for fault in faults:
        print(f"site: {fault}", file=sys.stderr)
    if faults:
        sys.exit(f"site: {len(faults)} broken links")
    print(f"site: {len(pages)} pages, {count} links: all lead somewhere")


main()
