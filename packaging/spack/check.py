#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks Spack's recipe as far as that goes without Spack: loads it with stand-ins for Spack's names, compares its version with that of
Cargo.toml and its oldest Rust with rust-version, and carries its phases out with the commands that Spack would run: the build (make, in
this folder), the installation to FOLDER, and its test.

usage: packaging/spack/check.py FOLDER      a folder that is made anew; it holds the installation afterwards
"""
import pathlib
import re
import shutil
import subprocess
import sys
import types

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent


class Prefix(pathlib.PosixPath):
    """A path whose attributes are the folders below it."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return Prefix(self / name)


class Spec:
    """The concrete package: these variants, and where its dependencies are."""

    def __init__(self, variants):
        self.variants = variants

    def satisfies(self, text):
        return text in self.variants

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=Prefix("/usr"))


class Environment(dict):
    def set(self, name, value):
        self[name] = str(value)


recorded = {"version": [], "variant": [], "depends_on": [], "conflicts": [], "license": []}


def directive(name):
    return lambda *words, **named: recorded[name].append((words, named))


def run(*words, **named):
    print("spack:", *words, flush=True)
    subprocess.run(words, check=True, cwd=root, **named)


class Package:
    def __init__(self, variants, prefix):
        self.spec, self.prefix = Spec(variants), Prefix(prefix)
        self.stage = types.SimpleNamespace(source_path=str(root))


def load():
    """The recipe's class, with Spack's names around it. A name that is missing here ends it with a NameError."""
    names = {name: directive(name) for name in recorded}
    names.update(
        make=lambda *words: run("make", "--no-print-directory", *words), join_path=lambda *parts: str(pathlib.Path(*parts)),
        install_tree=lambda source, to: shutil.copytree(root / source, to, symlinks=True, dirs_exist_ok=True),
        which=lambda program: (lambda *words: run(str(program), *words, stdout=subprocess.DEVNULL)),
        find_libraries=lambda names, root, **_: [file for name in names for file in pathlib.Path(root).rglob(name + ".so")])
    for name, contents in (("spack", {}), ("spack.package", names), ("spack_repo", {}), ("spack_repo.builtin", {}),
                           ("spack_repo.builtin.build_systems", {}), ("spack_repo.builtin.build_systems.makefile", {"MakefilePackage": Package})):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(contents)
    space = {}
    exec(compile((here / "package.py").read_text(), "package.py", "exec"), space)
    return space["Selvedge"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    recipe = load()
    own = subprocess.run([root / "packaging/version.sh"], capture_output=True, text=True, check=True).stdout.strip()
    versions = [words[0] for words, _ in recorded["version"]]
    assert own in versions, f"the recipe has {versions}, Cargo.toml {own}"
    rust = re.search(r'^rust-version = "(.*)"', (root / "Cargo.toml").read_text(), re.MULTILINE).group(1)
    needs = [words[0] for words, _ in recorded["depends_on"]]
    assert f"rust@{rust}:" in needs, f"the recipe needs {needs}, Cargo.toml Rust {rust}"
    for words, named in recorded["variant"]:
        assert named.get("description"), f"variant {words[0]} has no description"
    shutil.rmtree(folder, ignore_errors=True)
    for variants in ((), ("+examples",)):
        package = recipe(variants, folder / "prefix")
        environment = Environment()
        package.setup_build_environment(environment)
        assert set(environment) == {"CARGO_TARGET_DIR", "LIBCLANG_PATH"}, environment
        run("make", "--no-print-directory", *package.build_targets, stdout=subprocess.DEVNULL)
        package.install(package.spec, package.prefix)
        package.setup_run_environment(environment)
        assert len(package.libs) == 2, package.libs
        package.test_ranks()
    assert any((package.prefix / "share/selvedge/examples").iterdir())
    print(f"spack: the recipe's phases ran, into {folder}; Spack itself was not tried")


main()
