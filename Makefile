# SPDX-License-Identifier: Apache-2.0 OR MIT
#
#   make demo      installs missing packages, builds, runs examples, measures, simulates, and writes a page about it
#   make build     builds into build/;  make install: copies that to PREFIX (default /usr/local)
#   make test      installs missing packages, builds, and runs the tests
#   make help      lists all targets: a line that begins with ## describes the target below it

PREFIX ?= /usr/local
LIBDIR ?= lib
# Not by abspath, which splits at spaces.
FULL_PREFIX = $(if $(filter /%,$(firstword $(PREFIX))),$(PREFIX),$(CURDIR)/$(PREFIX))
CARGO ?= cargo
CC ?= cc
# Where the tree is made, and the profile of Cargo.toml that it is built in. make test has a tree of its own.
TREE := build
PROFILE := release
VERSION := $(shell packaging/version.sh)
TARGET := $(or $(CARGO_TARGET_DIR),target)
# How cargo builds, and where it puts that. packaging/wheel.sh builds for an older C library.
CARGO_VERB ?= build
BUILT ?= $(TARGET)/$(PROFILE)
# The crates of the tree. tests/run.sh builds the workspace, because with another choice cargo builds crates anew.
CRATES ?= -p selvedge-portals -p selvedge-cli -p selvedge-shmem -p selvedge-fi -p selvedge-sim-preload -p selvedge-mpi-preload -p selvedge-mpi-collectives -p selvedge-mpich-preload -p selvedge-openmpi-preload -p selvedge-sim-pmix -p selvedge-sim-mpi -p selvedge-extoll -p selvedge-sharp -p selvedge-nccl
# How the linker takes this file: GNU's as an input, LLVM's by -T.
SMA_SCRIPT ?= $(TREE)/link/libsma.ld
MPICC ?= mpicc
# Empty: without Open MPI's component.
COMPONENT ?= component
# The profile of Cargo.toml for tests.
TEST_PROFILE ?= checked
CFLAGS_PROGRAM := -std=gnu11 -O2 -g -Wall -Wextra -Iinclude
LINK := -L$(TREE)/lib -lportals -Wl,-rpath,'$$ORIGIN/../lib' -Wl,-rpath,'$$ORIGIN/../../lib' -lm -lpthread

# OpenSHMEM programs are compiled as by a user, and find libsma.so within the tree.
OSHCC := OSHCC_CC="$(CC)" OSHCC_RPATH='$$ORIGIN/../../lib:$$ORIGIN/../../../lib' $(TREE)/bin/oshcc

# libfabric loads every *-fi.so of the directory that FI_PROVIDER_PATH names, so the provider has a directory of its own.
PROVIDER := $(TREE)/lib/libselvedge/libselvedge-fi.so

# Libraries that `selvedge` loads into other programs' processes.
#   sim_preload       virtual clocks of simulated ranks: before the ranks' other libraries
#   sim_pmix          PMIx for simulated ranks of Open MPI
#   sim_mpi           tells the simulator while a rank is in a call of MPI that waits
#   mpi_preload       a malloc with shared large blocks, cheaper yields: before the C library of MPI ranks
#   mpi_collectives   collective operations in aggregation nodes: before the MPI
#   mpich_preload     communicators and windows of shared memory, long puts and gets: before MPICH
#   openmpi_preload   mends faults of btl/ofi: before Open MPI
PRELOADED := $(patsubst %,$(TREE)/lib/libselvedge/libselvedge_%.so,sim_preload sim_pmix sim_mpi mpi_preload mpi_collectives mpich_preload openmpi_preload)

# libvelo2, librma2, libatoll, libswordfish and libgasnet-selvedge are one library under five names.
EXTOLL := $(TREE)/lib/libselvedge_extoll.so.1

# The interface of SHARP's library, and further library names that UCC's transport for it expects.
SHARP := $(TREE)/lib/sharp/libsharp_coll.so.5
SHARP_NAMES := libsharp_coll.so libsharp.so.6 libalog.so.1 libsmx-3.8.so libsharprdmacm-3.8.so

# NCCL's collective network, under the name by which NCCL_NET_PLUGIN=selvedge finds it.
NCCL := $(TREE)/lib/libnccl-net-selvedge.so

EXAMPLES := $(patsubst examples/%.c,$(TREE)/examples/%,$(wildcard examples/*.c examples/shmem/*.c examples/extoll/*.c examples/gasnet/*.c)) \
	$(patsubst examples/%.c,$(TREE)/examples/%.so,$(wildcard examples/statistics/*.c))
# Those of MPI, where a compiler of an MPI is installed.
EXAMPLES_MPI := $(if $(shell command -v $(MPICC)),$(patsubst examples/%.c,$(TREE)/examples/%,$(wildcard examples/mpi/*.c)))
SHARED := bench/rank.c bench/exchange.c bench/ni.c
SHARED_SHMEM := bench/shmem/pe.c bench/rank.c bench/away.c
SHARED_EXTOLL := bench/extoll/pair.c bench/rank.c bench/exchange.c
RANKS := $(patsubst bench/%.c,$(TREE)/libexec/selvedge/%,$(filter-out $(SHARED) bench/away.c,$(wildcard bench/*.c)))
RANKS_EXTOLL := $(patsubst bench/%.c,$(TREE)/libexec/selvedge/%,$(filter-out $(SHARED_EXTOLL),$(wildcard bench/extoll/*.c)))
RANKS_SHMEM := $(patsubst bench/%.c,$(TREE)/libexec/selvedge/%,$(filter-out $(SHARED_SHMEM),$(wildcard bench/shmem/*.c)))
HEADERS_SHMEM := include/shmem.h include/shmemx.h
# With these libsma.so exports the functions of the table in crates/doors/shmem/api, each also as pshmem_.., and no other symbols.
SMA_LINK := $(TREE)/link/libsma.ld $(TREE)/link/libsma.map

# The command finds machines and experiments by name in its tree.
MACHINES := $(patsubst %,$(TREE)/share/selvedge/%,$(wildcard machines/*.toml experiments/*.toml))

.DEFAULT_GOAL := build
.PHONY: help build component release demo test test-build test-long check-examples bench install uninstall setup lint docs docs-pages site registers registers-html check-registers rtl rtl-report clean peers FORCE

## lists the targets
help:
	@awk '/^## / { text = substr($$0, 4); next } /^[a-z-]+:/ && text { sub(/:.*/, ""); printf "make %-16s %s\n", $$0, text } { text = "" }' $(firstword $(MAKEFILE_LIST))

## builds into build/: bin, lib, include, libexec, share, examples (the default)
build: $(TREE)/lib/libportals.so $(TREE)/lib/libsma.so $(PROVIDER) $(PRELOADED) $(COMPONENT) $(EXTOLL) $(SHARP) $(NCCL) $(TREE)/bin/selvedge packaged headers manual $(MACHINES) $(EXAMPLES) $(EXAMPLES_MPI) $(RANKS) $(RANKS_SHMEM) $(RANKS_EXTOLL)

## installs missing packages of the system
setup:
	@./setup.sh

$(TREE)/lib/libportals.so $(TREE)/bin/selvedge $(PROVIDER) $(PRELOADED) $(EXTOLL) $(SHARP) $(NCCL) $(BUILT)/libsma.a $(SMA_LINK) &: FORCE
	$(CARGO) $(CARGO_VERB) --locked --profile $(PROFILE) $(CRATES)
	@mkdir -p $(TREE)/lib/libselvedge $(TREE)/lib/sharp $(TREE)/include/sharp/api $(TREE)/lib/pkgconfig $(TREE)/bin $(TREE)/include/mpp $(TREE)/examples/shmem $(TREE)/examples/extoll $(TREE)/examples/gasnet $(TREE)/libexec/selvedge/shmem $(TREE)/libexec/selvedge/extoll
	@cmp -s $(BUILT)/libportals.so $(TREE)/lib/libportals.so.1 || install -m 755 $(BUILT)/libportals.so $(TREE)/lib/libportals.so.1
	@ln -sf libportals.so.1 $(TREE)/lib/libportals.so
	@cmp -s $(BUILT)/libselvedge_extoll.so $(EXTOLL) || install -m 755 $(BUILT)/libselvedge_extoll.so $(EXTOLL)
	@rm -f $(TREE)/lib/libselvedge/libselvedge_extoll.so # of earlier builds
	@for name in velo2 rma2 atoll swordfish gasnet-selvedge; do ln -sf libselvedge_extoll.so.1 $(TREE)/lib/lib$$name.so; done
	@cmp -s $(BUILT)/libselvedge_fi.so $(PROVIDER) || install -m 755 $(BUILT)/libselvedge_fi.so $(PROVIDER)
	@for file in $(PRELOADED); do \
		cmp -s $(BUILT)/$$(basename $$file) $$file || install -m 755 $(BUILT)/$$(basename $$file) $$file; done
	@cmp -s $(BUILT)/libselvedge_sharp.so $(SHARP) || install -m 755 $(BUILT)/libselvedge_sharp.so $(SHARP)
	@for name in $(SHARP_NAMES); do ln -sf libsharp_coll.so.5 $(TREE)/lib/sharp/$$name; done
	@cmp -s $(BUILT)/libselvedge_nccl.so $(NCCL) || install -m 755 $(BUILT)/libselvedge_nccl.so $(NCCL)
	@$(BUILT)/libsma-link-files $(TREE)/link
	@cmp -s $(BUILT)/selvedge $(TREE)/bin/selvedge || install -m 755 $(BUILT)/selvedge $(TREE)/bin/

# Open MPI 4.1's component for collective operations, where its headers for components are installed.
component: | $(PRELOADED)
	@CC="$(CC)" crates/doors/mpi-collectives/mca/build.sh $(TREE)

$(TREE)/lib/libsma.so.1: $(BUILT)/libsma.a $(SMA_LINK)
	$(CC) -shared -o $@ $(SMA_SCRIPT) $(BUILT)/libsma.a -Wl,--version-script=$(TREE)/link/libsma.map \
		-Wl,-soname,libsma.so.1 -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -lgcc_s -lm -lrt -lpthread -ldl -lc

$(TREE)/lib/libsma.so: $(TREE)/lib/libsma.so.1
	@ln -sf libsma.so.1 $@

.PHONY: headers
headers: | $(TREE)/lib/libportals.so
	@install -m 644 include/*.h $(TREE)/include/
	@install -m 644 include/mpp/*.h $(TREE)/include/mpp/
	@install -m 644 include/sharp/api/*.h $(TREE)/include/sharp/api/

# The files of packaging/. The wrappers find their tree themselves; an install writes its own prefix into the others.
.PHONY: packaged
packaged: | $(TREE)/lib/libportals.so
	@for name in portals4 sma velo2 rma2 atoll swordfish; do \
		sed -e 's|@ABOVE@|..|' -e 's|@LIBDIR@|lib|' -e 's|@VERSION@|$(VERSION)|' packaging/$$name.pc.in > $(TREE)/lib/pkgconfig/$$name.pc; done
	@for mode in SEQ PARSYNC PAR; do \
		sed -e 's|@ABOVE@|..|' -e 's|@LIBDIR@|lib|' -e 's|@VERSION@|$(VERSION)|' -e "s|@MODE@|$$mode|" packaging/gasnet-selvedge.pc.in \
			> $(TREE)/lib/pkgconfig/gasnet-selvedge-$$(echo $$mode | tr A-Z a-z).pc; done
	@mkdir -p $(TREE)/lib/cmake/Selvedge
	@for name in SelvedgeConfig SelvedgeConfigVersion; do \
		sed -e 's|@ABOVE@|..|' -e 's|@VERSION@|$(VERSION)|' packaging/cmake/$$name.cmake.in > $(TREE)/lib/cmake/Selvedge/$$name.cmake; done
	@for name in oshcc oshrun velorun; do \
		sed -e 's|@VERSION@|$(VERSION)|' packaging/$$name.in > $(TREE)/bin/$$name && chmod 755 $(TREE)/bin/$$name; done
	@ln -sf oshcc $(TREE)/bin/oshc++
	@install -D -m 644 packaging/selvedge-daemon.service $(TREE)/share/selvedge/selvedge-daemon.service

# Manual pages and completions, made anew with the command.
.PHONY: manual
manual: $(TREE)/link/manual
$(TREE)/link/manual: $(TREE)/bin/selvedge $(BUILT)/libsma.a packaging/script-manual.sh | packaged
	@rm -rf $(TREE)/share/man
	@$(TREE)/bin/selvedge manual-pages $(TREE)/share/man
	@$(BUILT)/libsma-manual-pages $(TREE)/share/man/man3
	@for name in oshcc oshrun velorun; do \
		packaging/script-manual.sh $(TREE)/bin/$$name $(VERSION) >$(TREE)/share/man/man1/$$name.1; done
	@ln -sf oshcc.1 $(TREE)/share/man/man1/oshc++.1
	@mkdir -p $(TREE)/share/bash-completion/completions $(TREE)/share/zsh/site-functions $(TREE)/share/fish/vendor_completions.d
	@$(TREE)/bin/selvedge completions bash >$(TREE)/share/bash-completion/completions/selvedge
	@$(TREE)/bin/selvedge completions zsh >$(TREE)/share/zsh/site-functions/_selvedge
	@$(TREE)/bin/selvedge completions fish >$(TREE)/share/fish/vendor_completions.d/selvedge.fish
	@touch $@

$(TREE)/share/selvedge/%.toml: %.toml
	@install -D -m 644 $< $@

$(TREE)/examples/shmem/%: examples/shmem/%.c $(HEADERS_SHMEM) | packaged headers $(TREE)/lib/libsma.so
	$(OSHCC) -std=gnu11 -O2 -g -Wall -Wextra $< -o $@ -lm

$(TREE)/examples/mpi/%: examples/mpi/%.c examples/mpi/nas.h examples/mpi/collectives.h
	@mkdir -p $(@D)
	$(MPICC) -std=gnu11 -O2 -g -Wall -Wextra $< -o $@ -lm || echo "$@ is left out: $(MPICC) does not compile it"

$(TREE)/libexec/selvedge/shmem/%: bench/shmem/%.c $(SHARED_SHMEM) bench/shmem/pe.h bench/rank.h bench/away.h $(HEADERS_SHMEM) | packaged headers $(TREE)/lib/libsma.so
	$(OSHCC) -std=gnu11 -O2 -g -Wall -Wextra $< $(SHARED_SHMEM) -o $@ -lm -lpthread

$(TREE)/examples/extoll/%: examples/extoll/%.c include/velo2.h include/rma2.h include/velorun.h include/atoll.h include/atollrun.h include/swordfish.h | $(EXTOLL)
	$(CC) $(CFLAGS_PROGRAM) $< -o $@ -L$(TREE)/lib -lvelo2 -lrma2 -latoll -lswordfish -Wl,-rpath,'$$ORIGIN/../../lib' -lm

$(TREE)/libexec/selvedge/extoll/%: bench/extoll/%.c $(SHARED_EXTOLL) bench/extoll/pair.h bench/rank.h bench/exchange.h include/velo2.h include/rma2.h include/velorun.h | $(EXTOLL)
	$(CC) $(CFLAGS_PROGRAM) -Ibench $< $(SHARED_EXTOLL) -o $@ -L$(TREE)/lib -lvelo2 -lrma2 -Wl,-rpath,'$$ORIGIN/../../../lib' -lm

$(TREE)/examples/gasnet/%: examples/gasnet/%.c include/gasnet.h | $(EXTOLL)
	$(CC) $(CFLAGS_PROGRAM) $< -o $@ -L$(TREE)/lib -lgasnet-selvedge -Wl,-rpath,'$$ORIGIN/../../lib'

$(TREE)/examples/statistics/%.so: examples/statistics/%.c include/selvedge_statistics.h
	@mkdir -p $(TREE)/examples/statistics
	$(CC) $(CFLAGS_PROGRAM) -shared -fPIC $< -o $@

$(TREE)/examples/%: examples/%.c include/portals4.h include/selvedge.h | $(TREE)/lib/libportals.so
	$(CC) $(CFLAGS_PROGRAM) $< -o $@ $(LINK)

$(TREE)/libexec/selvedge/%: bench/%.c $(SHARED) $(wildcard bench/*.h) include/portals4.h include/selvedge.h | $(TREE)/lib/libportals.so
	$(CC) $(CFLAGS_PROGRAM) -Ibench $< $(SHARED) -o $@ $(LINK)

## builds, runs examples, measures, simulates, and writes build/selvedge-demo.html about it
demo: setup build
	@$(TREE)/bin/selvedge demo --html $(TREE)/selvedge-demo.html

# The program behind `selvedge rtl`. The engine in SystemVerilog has its own target: make rtl.
RTL_PROGRAM := $(TREE)/libexec/selvedge/selvedge-rtl

## builds, and runs every test but those of make rtl
test: setup
	@CARGO="$(CARGO)" TEST_PROFILE="$(TEST_PROFILE)" tests/run.sh

## builds what make test runs
test-build: setup
	@CARGO="$(CARGO)" TEST_PROFILE="$(TEST_PROFILE)" tests/run.sh --build

## the suites in variants that make test leaves out, because others find nearly all their faults
test-long: setup build
	$(CARGO) test --locked --profile $(TEST_PROFILE) -p selvedge-conformance -p selvedge-shmem-tests -p selvedge-fi-tests -- --ignored
	$(CARGO) test --locked --profile $(TEST_PROFILE) -p selvedge-cli --test cli limits -- --ignored

## runs the examples, each of which checks its results
check-examples: build
	@CC="$(CC)" tests/examples.sh

## the full benchmarks: writes docs/results/benchmarks*.md and their plots
bench: setup build
	$(TREE)/bin/selvedge bench --docs docs/results
	$(TREE)/bin/selvedge bench shmem --docs docs/results
	$(TREE)/bin/selvedge bench extoll --docs docs/results
	$(TREE)/bin/selvedge bench mpi --docs docs/results
	$(TREE)/bin/selvedge bench hosts --docs docs/results

## installs the peers of the benchmarks: UCX, Open MPI, MPICH
peers:
	@./bench/get-peers.sh

# With none of the units in SystemVerilog, which Verilator and the C++ compiler take minutes to build and which have no Rust code.
WITHOUT_UNITS := SELVEDGE_RTL_FOLDERS=none
## checks formatting, and runs clippy
lint:
	$(CARGO) fmt --all --check
	$(WITHOUT_UNITS) $(CARGO) clippy --locked --profile $(TEST_PROFILE) --workspace --all-targets -- -D warnings

## makes the reference (rustdoc), in target/doc
docs:
	$(WITHOUT_UNITS) RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --profile $(TEST_PROFILE) --workspace --no-deps --document-private-items

## makes the C header, pages, Rust and SystemVerilog of the registers from registers/*.rdl
registers:
	@registers/generate.sh

## makes the site of the registers, in build/registers
registers-html:
	@registers/generate.sh --html $(TREE)/registers

# Errors in the description leave the files alone. Unavailable tools are skipped with a message.
## checks that the output of `make registers` is current
check-registers:
	@registers/test.sh

# The engine in SystemVerilog: lint, the units in lockstep with nic, tests of the flow, bounded proofs. A missing tool is named with its
# package. These proofs end within a minute each, and must pass. rtl/formal/run.sh runs all, to greater depths.
RTL_PROOFS := allocator:blocks_16 allocator:cover_16 counters:descriptors_short lists:free_list lists:ram_two_ports lists:ram_one_port lists:sources
## lints, simulates and proves the engine in SystemVerilog, and builds the program behind `selvedge rtl`
rtl:
	@./setup.sh rtl
	@rtl/lint.sh || [ $$? = 77 ]
	@rtl/pac/pac_registers_test.sh || [ $$? = 77 ]
	$(CARGO) test --locked --profile $(TEST_PROFILE) -p selvedge-rtl
	@install -D -m 755 $(TARGET)/$(TEST_PROFILE)/selvedge-rtl $(RTL_PROGRAM)
	@rtl/flow/tools.sh --needs osu018 sta verilator -- python rtl/flow/test.py || [ $$? = 77 ]
	@PROOF_SECONDS=300 rtl/formal/run.sh $(RTL_PROOFS) || [ $$? = 77 ]

## area, frequency, FPGA, equivalence, power and plots of the engine, in about two hours: writes docs/results/rtl
rtl-report:
	@rtl/flow/report.sh

# mdBook is built into target/mdbook at first, in some minutes.
## builds the site of the documents, in target/site, and checks its links
site:
	@packaging/site.py target/site
	@tests/site.py target/site

# Generates docs/reference/environment.md and the memory layout in docs/design/memory.md from the program's own tables, and
# shmem.h, shmemx.h and docs/reference/shmem-api.md from the table of OpenSHMEM functions.
## makes the pages and headers that come from tables in the source
docs-pages:
	UPDATE_DOCS=1 $(CARGO) test --locked --profile $(TEST_PROFILE) -p selvedge-process --test docs_current
	UPDATE_DOCS=1 $(CARGO) test --locked --profile $(TEST_PROFILE) -p selvedge-shmem --test generated

# An install is the tree without its examples. It builds nothing, because root would. With DESTDIR files go below that folder, for a package; none of them names it.
## copies the tree without its examples to PREFIX (/usr/local), or below DESTDIR; libraries to LIBDIR (lib)
install:
	@[ -x $(TREE)/bin/selvedge ] || { echo "make install: nothing is built; run make build first" >&2; exit 1; }
	@packaging/install.sh $(TREE) "$(FULL_PREFIX)" "$(DESTDIR)" "$(LIBDIR)"

## removes what `make install` with the same PREFIX and DESTDIR has copied
uninstall:
	@packaging/install.sh --uninstall "$(FULL_PREFIX)" "$(DESTDIR)"

# Some hours. It tags and uploads nothing.
## checks and packages everything for a release, in target/release-check, and says what is left to do
release:
	@packaging/release.sh target/release-check

## removes build/ and cargo's output
clean:
	rm -rf $(TREE) $(TARGET)
