#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the site of the documents with mdBook, in target/site.

docs/README.md is its first page and gives its table of contents: headings are parts, links are pages. Pages outside
docs/ that a page links to (ARCHITECTURE.md, ...) follow in a last part. Other files that a page links to are copied as
text, and a folder becomes a page that lists its files. So the site needs no repository beside it.

usage: packaging/site.py FOLDER      FOLDER: for the site, emptied before; the source of the book is in FOLDER.book

mdBook 0.4 is taken from PATH, or built once into target/mdbook by `cargo install`, in some minutes. Exit status: 77 if
it is not there and cannot be built.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
INDEX = "docs/README.md"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
# Code is no place of links: a fenced block, or a span between backquotes.
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)
IMAGES = (".svg", ".png")
MDBOOK_VERSION = "0.4.52"
BOOK = """[book]
title = "Selvedge"
description = "A network interface in software for parallel programs"
language = "en"
src = "src"

[build]
create-missing = false

[output.html]
no-section-label = true

[output.html.fold]
enable = true
level = 0

[output.html.print]
enable = false
"""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def place(path):
    """Where a file or folder of the repository is in the source of the book."""
    if path.startswith("docs/"):
        moved = path[len("docs/"):]
    else:
        moved = "repository/" + path
    folder, name = os.path.split(moved)
    if os.path.isdir(os.path.join(ROOT, path)):
        return moved + "/index.md"
    if name == "README.md":
        return os.path.join(folder, "index.md")
    # A name that begins with a dot is hidden on some servers.
    name = name.lstrip(".") if folder else name
    is_page = name.endswith(IMAGES) or name.endswith(".md")
    return os.path.join(folder, name if is_page else name + ".txt")


def outside_code(change, text):
    """Applies a change to the parts of a page that are no code."""
    parts, at = [], 0
    for code in CODE.finditer(text):
        parts += [change(text[at:code.start()]), code[0]]
        at = code.end()
    return "".join(parts) + change(text[at:])


class Book:
    """Invariant: each path in `copied` is in the source of the book, with all paths that it links to in `copied` or `open`."""

    def __init__(self, source):
        self.source = source
        self.copied = set()
        self.open = []

    def link(self, page, link):
        """The link of a page, from its place in the book. Its target is copied later."""
        file, mark, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not file:
            return link
        target = os.path.normpath(os.path.join(os.path.dirname(page), file))
        if not os.path.exists(os.path.join(ROOT, target)):
            sys.exit(f"site: {page}: the link {link} leads nowhere")
        self.open.append(target)
        return os.path.relpath(place(target), os.path.dirname(place(page))) + mark + anchor

    def write(self, path, text):
        path = os.path.join(self.source, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def copy(self, path):
        if path in self.copied:
            return
        self.copied.add(path)
        if os.path.isdir(os.path.join(ROOT, path)):
            listed = subprocess.run(["git", "ls-files", path], cwd=ROOT, capture_output=True, text=True, check=True)
            names = [name for name in listed.stdout.split("\n") if name]
            links = [f"- [{os.path.relpath(name, path)}]({self.link(path + '/x', os.path.relpath(name, path))})" for name in names]
            self.write(place(path), f"# {path}\n\n" + "\n".join(links) + "\n")
        elif path.endswith(".md"):
            change = lambda text: LINK.sub(lambda found: found[1] + self.link(path, found[2]) + found[3], text)
            self.write(place(path), outside_code(change, read(path)))
        elif path.endswith(IMAGES):
            target = os.path.join(self.source, place(path))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(ROOT, path), target)
        else:
            self.write(place(path), read(path))

    def summary(self):
        """The table of contents, from the headings and links of the index."""
        lines, listed = ["# Summary", "", "[Start](index.md)"], {INDEX}
        in_part = False
        for line in read(INDEX).replace("\n  ", " ").replace("\n   ", " ").split("\n"):
            heading = re.match(r"^## (.*)", line)
            if heading:
                lines += ["", f"# {heading[1]}", ""]
                in_part = True
            # The first link of an item is a page of the part, the others are below it.
            is_item, depth = re.match(r"^ *(- |\d+\. )", line) is not None, 0
            for text, link in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", line):
                target = os.path.normpath(os.path.join("docs", link.partition("#")[0]))
                is_page = target.endswith(".md") and target.startswith("docs/")
                if not is_page or target in listed or not in_part:
                    continue
                listed.add(target)
                if text.isdigit():
                    text = f"{text} {re.search(r'^# (?:[0-9]+[.:]? *)?(.*)$', read(target), re.M)[1]}"
                lines.append(f"{'  ' * depth}- [{text[0].upper()}{text[1:]}]({place(target)})")
                depth = 1 if is_item else 0
        missing = sorted(path for path in self.copied if path.startswith("docs/") and path.endswith(".md") and path not in listed)
        if missing:
            sys.exit(f"site: {INDEX} has no item for {', '.join(missing)}")
        others = sorted(path for path in self.copied - listed if path.endswith(".md") or os.path.isdir(os.path.join(ROOT, path)))
        lines += ["", "# The repository", ""] + [f"- [{path}]({place(path)})" for path in others]
        self.write("SUMMARY.md", "\n".join(lines) + "\n")
        return len(listed) + len(others)


def mdbook():
    """The path of mdBook 0.4."""
    built = os.path.join(ROOT, "target/mdbook")
    for path in (shutil.which("mdbook"), os.path.join(built, "bin/mdbook")):
        if path and os.access(path, os.X_OK):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            if version.startswith("mdbook v0.4."):
                return path
    print(f"site: building mdBook {MDBOOK_VERSION}, once, into {built}", flush=True)
    # Of its features only the search; that of serving pages has most of its dependencies.
    command = [os.environ.get("CARGO", "cargo"), "install", "mdbook", "--version", MDBOOK_VERSION, "--locked", "--quiet"]
    command += ["--no-default-features", "--features", "search", "--root", built, "--target-dir", os.path.join(built, "build")]
    if subprocess.run(command).returncode != 0:
        print("site: left out: mdBook is not installed and cannot be built")
        sys.exit(77)
    shutil.rmtree(os.path.join(built, "build"), ignore_errors=True)
    return os.path.join(built, "bin/mdbook")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: packaging/site.py FOLDER")
    program, folder = mdbook(), os.path.abspath(sys.argv[1])
    made = folder + ".book"
    for path in (folder, made):
        shutil.rmtree(path, ignore_errors=True)
    book = Book(os.path.join(made, "src"))
    book.open.append(INDEX)
    while book.open:
        book.copy(book.open.pop())
    count = book.summary()
    with open(os.path.join(made, "book.toml"), "w", encoding="utf-8") as file:
        file.write(BOOK)
    subprocess.run([program, "build", made, "--dest-dir", folder], check=True)
    print(f"site: {count} pages; open {folder}/index.html")


main()
