# The short way to everything. `make demo` and `make test` are all a newcomer needs; both install what is missing (apt).
PRESET ?= release
PREFIX ?= /usr/local
PYTHON ?= /usr/bin/python3
# One compiler per processor: ninja's two more take 4 % longer, as they throw each other out of the caches.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
BUILD := build/$(PRESET)

ZOO_PYTHON ?= python3
ZOO_DIR ?=
ZOO_ARGS ?=

.PHONY: help setup build demo test wheel lint format bench zoo sanitize sanitize-threads fuzz install clean

help:
	@echo "make demo     build, then run a real detector on a photo and explain the engine"
	@echo "make test     build and run every test"
	@echo "make wheel    dist/*.whl for pip: camshaft, camshaft_server, onnxruntime_ep_camshaft, polygraphy_extension_camshaft; scripts/test_wheel.sh tests them"
	@echo "make build    release programs in build/release/bin"
	@echo "make lint     format, static analysis and layering checks"
	@echo "make format   clang-format the sources in place"
	@echo "make bench    kernel benchmarks; bench/peers.py compares whole models with other engines"
	@echo "make zoo      exports networks (or takes ZOO_DIR), compares and times them, writes docs/zoo.md: tests/zoo/README.md"
	@echo "make sanitize unit tests of graph, importer and passes with assertions and sanitizers; damaged models"
	@echo "make sanitize-threads  thread pool, contexts and server under the thread sanitizer"
	@echo "make fuzz     COUNT random graphs (100000) under address and undefined behaviour sanitizers"
	@echo "make install  PREFIX=$(PREFIX)"

setup:
	@scripts/setup.sh

# What users run and link to; tests and benchmarks are built where they are run.
PROGRAMS := camshaft_camshaft_program camshaft_camexec_program camshaft_serve_program camshaft camshaft-rt yolox_demo run_c run_cpp

build: setup
	@cmake --preset $(PRESET) > /dev/null
	@cmake --build --preset $(PRESET) --target $(PROGRAMS)

# The programs of the demo alone: neither the server nor the shared libraries, a tenth of the time.
demo: setup
	@cmake --preset $(PRESET) > /dev/null
	@cmake --build --preset $(PRESET) --target camshaft_camshaft_program camshaft_camexec_program yolox_demo
	@scripts/demo.sh $(BUILD)

test:
	@scripts/setup.sh test
	@scripts/test.sh

wheel:
	@scripts/setup.sh test
	@scripts/wheel.sh

lint:
	@scripts/setup.sh test
	@scripts/lint.sh

format:
	@git ls-files 'src/*.h' 'src/*.cpp' 'include/*.h' 'python/src/*.h' 'python/src/*.cpp' 'examples/*.cpp' 'examples/*.c' 'tests/*.cpp' 'bench/*.cpp' | xargs clang-format -i

bench: build
	@cmake --build --preset $(PRESET) --target kernels_bench camshaft_bench
	@$(BUILD)/bin/kernels_bench

zoo: build
	@cmake --build --preset $(PRESET) --target camshaft_bench
	-@[ -n "$(ZOO_DIR)" ] || $(ZOO_PYTHON) tests/zoo/export.py build/zoo/models all
	@CAMSHAFT_BUILD=$(abspath $(BUILD)) $(ZOO_PYTHON) tests/zoo/run.py $(or $(ZOO_DIR),build/zoo/models) --markdown docs/zoo.md $(ZOO_ARGS)

# A sanitizer build of one program, kept beside the release build. SEED=1 COUNT=100000 make fuzz
SEED ?= 1
COUNT ?= 100000
fuzz: setup
	@cmake --preset asan > /dev/null
	@cmake --build --preset asan --target fuzz_graphs
	@build/asan/bin/fuzz_graphs --seed $(SEED) --count $(COUNT) --minimize

sanitize:
	@scripts/setup.sh test
	@scripts/test_sanitized.sh

sanitize-threads:
	@scripts/setup.sh test
	@scripts/test_threads.sh

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf build dist
