# SPDX-License-Identifier: Apache-2.0 OR MIT
#
#   make demo      installs what is missing, builds, and shows what communication costs on this machine
#   make test      installs what it needs, builds, and runs every test
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
CFLAGS_PROGRAM := -std=gnu11 -O2 -g -Wall -Wextra -Iinclude
LINK := -L$(TREE)/lib -lportals -Wl,-rpath,'$$ORIGIN/../lib' -Wl,-rpath,'$$ORIGIN/../../lib' -lm -lpthread

EXAMPLES := $(patsubst examples/%.c,$(TREE)/examples/%,$(wildcard examples/*.c))
SHARED := bench/rank.c bench/ni.c
RANKS := $(patsubst bench/%.c,$(TREE)/libexec/selvedge/%,$(filter-out $(SHARED) bench/peer_mpi.c,$(wildcard bench/*.c)))

.PHONY: build demo test bench install setup lint docs clean peers FORCE

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
	@install -m 644 bench/peer_mpi.c $(TREE)/libexec/selvedge/ 2>/dev/null || true

$(TREE)/lib/pkgconfig/portals4.pc: packaging/portals4.pc.in | $(TREE)/lib/libportals.so
	@sed -e 's|@PREFIX@|$(abspath $(TREE))|' -e 's|@VERSION@|$(VERSION)|' $< > $@

$(TREE)/examples/%: examples/%.c include/portals4.h include/selvedge.h | $(TREE)/lib/libportals.so
	$(CC) $(CFLAGS_PROGRAM) $< -o $@ $(LINK)

$(TREE)/libexec/selvedge/%: bench/%.c $(SHARED) $(wildcard bench/*.h) include/portals4.h include/selvedge.h | $(TREE)/lib/libportals.so
	$(CC) $(CFLAGS_PROGRAM) -Ibench $< $(SHARED) -o $@ $(LINK)

demo: setup build
	@./demo.sh

test: setup build
	$(CARGO) test --release --workspace

bench: setup build
	$(TREE)/bin/selvedge bench --docs docs

peers:
	@./bench/get-peers.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps

install: build
	install -d $(PREFIX)/bin $(PREFIX)/lib/pkgconfig $(PREFIX)/include $(PREFIX)/libexec/selvedge
	install -m 755 $(TREE)/bin/selvedge $(PREFIX)/bin/
	install -m 755 $(TREE)/lib/libportals.so $(PREFIX)/lib/
	install -m 644 $(TREE)/include/*.h $(PREFIX)/include/
	install -m 755 $(RANKS) $(PREFIX)/libexec/selvedge/
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@VERSION@|$(VERSION)|' packaging/portals4.pc.in > $(PREFIX)/lib/pkgconfig/portals4.pc

clean:
	rm -rf $(TREE) $(TARGET)
