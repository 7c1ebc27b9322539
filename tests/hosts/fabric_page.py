#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""
A user of the page of a daemon, by HTTP: logs in, and sends one request. Prints the status and the answer's text.

usage: fabric_page.py ADDRESS:PORT NAME PASSWORD get PATH
       fabric_page.py ADDRESS:PORT NAME PASSWORD post PATH JSON
"""

import json
import sys
import urllib.error
import urllib.request


def send(url, headers, body=None):
    """Returns (status, headers, text)."""
    request = urllib.request.Request(url, headers=headers, data=body.encode() if body is not None else None)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


def main():
    place, name, password, method, path = sys.argv[1:6]
    site = f"http://{place}"
    json_body = {"content-type": "application/json", "origin": site}
    status, headers, text = send(f"{site}/api/login", json_body, json.dumps({"name": name, "password": password}))
    if status != 200:
        sys.exit(f"{status} {text}")
    of_session = {"cookie": headers["set-cookie"].split(";")[0]}
    if method == "post":
        of_session |= json_body | {"x-selvedge-token": json.loads(text)["token"]}
    status, _, text = send(f"{site}{path}", of_session, sys.argv[6] if method == "post" else None)
    print(status, text)


if __name__ == "__main__":
    main()
