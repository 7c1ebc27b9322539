#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lays a tree out as an unpacked wheel, which `wheel pack` packs.

usage: packaging/wheel.py TREE VERSION PLATFORM FOLDER        makes FOLDER/selvedge_nic-VERSION

The tree is selvedge/tree in the wheel, beside the Python interface of python/selvedge; manual pages go where `man` finds them. A wheel has
no links: a library's name without a version becomes a linker's script that names it.
"""
import pathlib
import shutil
import sys

COMMANDS = ("selvedge", "oshcc", "oshc++", "oshrun", "velorun")

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python/selvedge"
SOURCE_VERSION = '__version__ = "0+source"'


def place_package(folder: pathlib.Path, version: str) -> None:
    """Copies the Python interface, with the version of the wheel."""
    for file in sorted(PACKAGE.iterdir()):
        if file.suffix == ".py" or file.name == "py.typed":
            shutil.copy(file, folder / file.name)
    module = folder / "__init__.py"
    text = module.read_text()
    if SOURCE_VERSION not in text:
        sys.exit(f"wheel.py: {PACKAGE}/__init__.py has no line {SOURCE_VERSION}; the wheel's version goes there")
    module.write_text(text.replace(SOURCE_VERSION, f'__version__ = "{version}"'))


def main() -> None:
    tree, version, platform, folder = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    root = folder / f"selvedge_nic-{version}"
    placed = root / "selvedge" / "tree"
    for part in ("bin", "include", "lib", "libexec", "share"):
        for file in sorted((tree / part).rglob("*")):
            name = file.relative_to(tree)
            left_out = name.parts[:2] in (("lib", "sharp"), ("share", "man"), ("share", "zsh"), ("share", "fish"), ("share", "bash-completion"))
            if left_out or name.name.startswith("libnccl-net") or (file.is_dir() and not file.is_symlink()):
                continue
            to = placed / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if file.is_symlink() and name.parts[0] == "lib":
                to.write_text(f"/* GNU ld script */\nINPUT ( {file.readlink().name} )\n")
            else:
                shutil.copy(file, to)
    for section in ("man1", "man7"):
        for page in sorted((tree / "share/man" / section).iterdir()):
            to = root / f"selvedge_nic-{version}.data/data/share/man" / section / page.name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(page, to)
    place_package(root / "selvedge", version)
    info = root / f"selvedge_nic-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: packaging/wheel.py\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: selvedge-nic\nVersion: {version}\nSummary: A network interface for parallel programs, in software: "
        "MPI, OpenSHMEM and Portals on one host, on several, and on simulated machines\nLicense: Apache-2.0 OR MIT\nRequires-Python: >=3.9\n"
        "Provides-Extra: frame\nRequires-Dist: pandas ; extra == 'frame'\n"
        "Provides-Extra: plot\nRequires-Dist: pandas ; extra == 'plot'\nRequires-Dist: matplotlib ; extra == 'plot'\n"
        "Description-Content-Type: text/markdown\n\n"
        "The command `selvedge`, its libraries, `oshcc`, and the provider for libfabric with which MPICH and Open MPI use it:\n\n"
        "    pip install selvedge-nic mpich\n    selvedge mpirun -n 2 ./program\n\n"
        "The module `selvedge` drives the simulator; tables and plots need `pip install 'selvedge-nic[plot]'`.\n")
    (info / "entry_points.txt").write_text("[console_scripts]\n" + "".join(f"{command} = selvedge:main\n" for command in COMMANDS))
    for licence in ("LICENSE-APACHE", "LICENSE-MIT", "third-party-licences"):
        shutil.copy(tree / "share/doc/selvedge" / licence, info / licence)


main()
