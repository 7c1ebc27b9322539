#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the licences of the crates that the installed libraries and the command contain, for a package.

usage: packaging/licences.py PACKAGE...        in the repository; PACKAGE is a crate of the workspace

Crates that only build or test others are left out. Equal texts are printed once. Ends with 1 if a crate has no licence.
"""
import json
import pathlib
import subprocess
import sys

FILES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")


def contained(metadata: dict, roots: list[str]) -> set[str]:
    """The ids of the crates that these contain: along normal dependencies, and not through procedural macros."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    names = {package["name"]: id for id, package in packages.items() if id in metadata["workspace_members"]}
    unknown = [name for name in roots if name not in names]
    if unknown:
        sys.exit(f"licences.py: not in the workspace: {', '.join(unknown)}")
    found, left = set(), [names[name] for name in roots]
    while left:
        id = left.pop()
        is_macro = any("proc-macro" in target["kind"] for target in packages[id]["targets"])
        if id in found or is_macro:
            continue
        found.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    return found


def main() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    foreign = [packages[id] for id in contained(metadata, sys.argv[1:]) if id not in metadata["workspace_members"]]
    foreign.sort(key=lambda package: (package["name"], package["version"]))
    texts: dict[str, list[str]] = {}
    without = []
    print("Selvedge is under Apache-2.0 OR MIT. Its programs and libraries contain these crates:\n")
    for package in foreign:
        title = f"{package['name']} {package['version']}"
        print(f"  {title}: {package['license'] or 'see the text below'}, {', '.join(package['authors']) or 'its authors'}")
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(file for file in folder.iterdir() if file.name.upper().startswith(FILES) and file.is_file())
        for file in files:
            texts.setdefault(file.read_text(errors="replace").strip(), []).append(f"{title}, {file.name}")
        if not package["license"] and not files:
            without.append(title)
    for text, names in texts.items():
        print(f"\n{'-' * 78}\n{'; '.join(names)}\n{'-' * 78}\n{text}")
    if without:
        sys.exit(f"licences.py: without a licence: {', '.join(without)}")


main()
