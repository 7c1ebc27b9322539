# SPDX-License-Identifier: Apache-2.0 OR MIT
#
#   make demo      installs what is missing, builds, and shows what communication costs on this machine
#   make test      installs what it needs, builds, and runs every test
#   make lint      formatting and clippy;  make docs: the reference (rustdoc);  make docs-pages: the generated pages
#   make build     builds into build/: bin, lib, include, libexec, examples
#   make install   copies that tree to PREFIX (default /usr/local)
#   make bench     the full benchmark; writes docs/benchmarks.md and its plots
#   make peers     installs what the benchmark compares with: UCX, Open MPI, MPICH

PREFIX ?= /usr/local
CARGO ?= cargo
CC ?= cc
TREE := build
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
TARGET := $(or $(CARGO_TARGET_DIR),target)
# What the tests are built with: a profile of Cargo.toml.
TEST_PROFILE ?= checked
CFLAGS_PROGRAM := -std=gnu11 -O2 -g -Wall -Wextra -Iinclude
LINK := -L$(TREE)/lib -lportals -Wl,-rpath,'$$ORIGIN/../lib' -Wl,-rpath,'$$ORIGIN/../../lib' -lm -lpthread

EXAMPLES := $(patsubst examples/%.c,$(TREE)/examples/%,$(wildcard examples/*.c))
SHARED := bench/rank.c bench/ni.c
RANKS := $(patsubst bench/%.c,$(TREE)/libexec/selvedge/%,$(filter-out $(SHARED) bench/peer_mpi.c,$(wildcard bench/*.c)))

.PHONY: build demo test check-examples bench install setup lint docs docs-pages clean peers FORCE

build: $(TREE)/lib/libportals.so $(TREE)/bin/selvedge $(TREE)/lib/pkgconfig/portals4.pc headers $(EXAMPLES) $(RANKS)

setup:
	@./setup.sh

$(TREE)/lib/libportals.so $(TREE)/bin/selvedge &: FORCE
	$(CARGO) build --release -p selvedge-portals -p selvedge-cli
	@mkdir -p $(TREE)/lib $(TREE)/bin $(TREE)/include $(TREE)/examples $(TREE)/libexec/selvedge $(TREE)/lib/pkgconfig
	@cmp -s $(TARGET)/release/libportals.so $(TREE)/lib/libportals.so || install -m 755 $(TARGET)/release/libportals.so $(TREE)/lib/
	@cmp -s $(TARGET)/release/selvedge $(TREE)/bin/selvedge || install -m 755 $(TARGET)/release/selvedge $(TREE)/bin/

.PHONY: headers
headers: | $(TREE)/lib/libportals.so
	@install -m 644 include/*.h $(TREE)/include/

$(TREE)/lib/pkgconfig/portals4.pc: packaging/portals4.pc.in | $(TREE)/lib/libportals.so
	@sed -e 's|@PREFIX@|$(abspath $(TREE))|' -e 's|@VERSION@|$(VERSION)|' $< > $@

$(TREE)/examples/%: examples/%.c include/portals4.h include/selvedge.h | $(TREE)/lib/libportals.so
	$(CC) $(CFLAGS_PROGRAM) $< -o $@ $(LINK)

$(TREE)/libexec/selvedge/%: bench/%.c $(SHARED) $(wildcard bench/*.h) include/portals4.h include/selvedge.h | $(TREE)/lib/libportals.so
	$(CC) $(CFLAGS_PROGRAM) -Ibench $< $(SHARED) -o $@ $(LINK)

demo: setup build
	@./demo.sh

test: setup build check-examples
	$(CARGO) test --profile $(TEST_PROFILE) --workspace

# Each example ends with an error when a byte is wrong. The program in README.md is one of them.
check-examples: build
	@sed -n '/^```c$$/,/^```$$/{/^```/d;p}' README.md > $(TREE)/examples/readme.c
	$(CC) $(CFLAGS_PROGRAM) -Werror $(TREE)/examples/readme.c -o $(TREE)/examples/readme $(LINK)
	@set -e; export SELVEDGE_LOG=warn; run() { \
		n=$$1; shift; echo "selvedge run -n $$n examples/$$*"; \
		$(TREE)/bin/selvedge run -n $$n --timeout 120 $(TREE)/examples/$$* </dev/null >/dev/null; }; \
	run 2 readme; run 2 hello_put; run 2 counting_put 50; run 5 triggered_barrier 20; run 2 protocols 5; run 6 halo2d 128 10

bench: setup build
	$(TREE)/bin/selvedge bench --docs docs

peers:
	@./bench/get-peers.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile $(TEST_PROFILE) --workspace --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --profile $(TEST_PROFILE) --workspace --no-deps --document-private-items

# docs/environment.md, docs/registers.md and the memory layout in ARCHITECTURE.md, from the program's own tables.
docs-pages:
	UPDATE_DOCS=1 $(CARGO) test --profile $(TEST_PROFILE) -p selvedge-host --test docs_current

install: build
	install -d $(PREFIX)/bin $(PREFIX)/lib/pkgconfig $(PREFIX)/include $(PREFIX)/libexec/selvedge
	install -m 755 $(TREE)/bin/selvedge $(PREFIX)/bin/
	install -m 755 $(TREE)/lib/libportals.so $(PREFIX)/lib/
	install -m 644 $(TREE)/include/*.h $(PREFIX)/include/
	install -m 755 $(RANKS) $(PREFIX)/libexec/selvedge/
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@VERSION@|$(VERSION)|' packaging/portals4.pc.in > $(PREFIX)/lib/pkgconfig/portals4.pc

clean:
	rm -rf $(TREE) $(TARGET)
