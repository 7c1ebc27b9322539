# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Spack's recipe for Selvedge.

    mkdir -p REPO/packages/selvedge && cp packaging/spack/package.py REPO/packages/selvedge/
    spack repo add REPO && spack dev-build -d SOURCE selvedge@main

Spack was not at hand when this was written: `packaging/spack/check.py` loads the recipe with stand-ins for Spack's names,
and carries its phases out with the commands that Spack would run. The address of the source is to be filled in with the
first release.
"""

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Selvedge(MakefilePackage):
    """A network interface for parallel programs, in software: MPI (by a libfabric provider), OpenSHMEM 1.6 and
    Portals 4.3 on one host, on several, and on simulated machines of thousands of nodes."""

    homepage = "https://selvedge.invalid/"
    git = "https://selvedge.invalid/selvedge.git"

    license("Apache-2.0 OR MIT", checked_by="selvedge")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("openmpi", default=False, description="Build the component for collective operations of Open MPI 4.1")
    variant("examples", default=False, description="Install the examples, built")

    depends_on("c", type="build")
    depends_on("rust@1.85:", type="build")
    depends_on("gmake@4.3:", type="build")
    # Headers for the provider. The MPI loads its own libfabric at run time.
    depends_on("libfabric@1.17:", type="build")
    # bindgen reads them.
    depends_on("llvm+clang", type="build")
    depends_on("openmpi@4.1", type=("build", "run"), when="+openmpi")
    depends_on("pkgconfig", type="run")

    conflicts("platform=darwin", msg="Selvedge needs Linux")
    conflicts("platform=windows", msg="Selvedge needs Linux")

    @property
    def build_targets(self):
        # Spack's own folder of cargo's files would be shared by all builds.
        return ["build", "COMPONENT=" + ("component" if self.spec.satisfies("+openmpi") else "")]

    def setup_build_environment(self, env):
        env.set("CARGO_TARGET_DIR", join_path(self.stage.source_path, "target"))
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    def install(self, spec, prefix):
        make("install", "PREFIX=" + str(prefix), "LIBDIR=lib")
        if spec.satisfies("+examples"):
            install_tree("build/examples", prefix.share.selvedge.examples)

    def setup_run_environment(self, env):
        env.set("SELVEDGE_PREFIX", self.prefix)

    @property
    def libs(self):
        return find_libraries(["libsma", "libportals"], root=self.prefix, shared=True, recursive=True)

    def test_ranks(self):
        """starts a job of two processes, and a simulated one"""
        selvedge = which(self.prefix.bin.selvedge)
        selvedge("run", "-n", "2", "true")
        selvedge("sim", "--list")
