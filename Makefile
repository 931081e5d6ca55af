# make demo: sets up everything and proves a job. make test: sets up everything and passes the tests.
#
# Needs python3 (3.10 to 3.13) with pip, make and a C++ compiler. Everything else goes into .uv, .venv and build, here.
PYTHON ?= python3
# The CUDA extra follows the driver that nvidia-smi reports: cuda12, cuda13, or none. `make EXTRA= ...` leaves it out.
EXTRA ?= $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: \(1[23]\)\..*/cuda\1/p')
# Processes that run tests at once, for two cores: half of their time is waiting. They take up to 8 GB of memory together.
PROCESSES ?= 4

UV := .uv/bin/uv
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt
NATIVE := kernels/CMakeLists.txt $(shell find kernels distprove -name '*.cpp' -o -name '*.h' -o -name '*.inc') \
  $(shell grep -rl --include='*.py' CppRows distprove/stark)
INTEROP := tests/interop/node_modules/.ready

.PHONY: demo test pytest fuzz lint format setup wheel docs gpu-compile performance tables constraints node clean check-tools FORCE
.DELETE_ON_ERROR:

demo: $(VENV)/.ready
	$(BIN)/distprove demo

# mypy takes half a minute of one core, beside the tests.
test: node $(VENV)/.ready-test
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(VENV)/.ready-test
	$(BIN)/python -m pytest -q -n $(PROCESSES)

# Spoiled files for every parser, for an hour: make fuzz FUZZ="--seconds 600 --seed 7". A short run is part of the tests.
fuzz: $(VENV)/.ready-test
	$(BIN)/python -m tests.fuzz.fuzz $(FUZZ)

setup: $(VENV)/.ready

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Every CUDA kernel through NVRTC, no GPU needed: registers and spills for each architecture we support.
gpu-compile: $(VENV)/.ready-test
	$(BIN)/distprove kernels --arch 80 --arch 90 --arch 100 --arch 120

# dist/distprove-*.whl for machines without a compiler: for this Python, or from 3.12 on for it and all later ones. Its tag
# names the oldest C library that it runs with. `.ci/wheel-requirements.txt` has what checks and writes that tag.
# `make wheel ARCH=aarch64` cross-compiles one on x86-64, with the compiler of `.ci/cross-requirements.txt`. It takes the
# headers of this machine's Python: pyconfig.h has four other lines on aarch64, on which nothing here depends. Those that
# Debian's python3-dev installs lead to a file for each machine, of which only this machine's is there: without that package,
# or with another Python, it works.
ARCH :=
CROSS := $(if $(ARCH),--config-setting env._PYTHON_HOST_PLATFORM=linux-$(ARCH) \
  --config-setting 'cmake.define.CMAKE_TOOLCHAIN_FILE=$(CURDIR)/kernels/$(ARCH)-linux.cmake')
BUILT := build/wheel$(ARCH:%=-%)
wheel: $(BIN)/python | check-tools
	@$(INSTALL) --requirement .ci/build-requirements.txt --requirement .ci/wheel-requirements.txt \
	  $(if $(ARCH),--requirement .ci/cross-requirements.txt)
	@rm -rf $(BUILT)
	$(UV) build --wheel --no-build-isolation --python $(BIN)/python --out-dir $(BUILT) $(CROSS) \
	  --config-setting 'build-dir=build/portable-{wheel_tag}' --config-setting cmake.define.DP_PORTABLE=ON \
	  $(if $(wildcard $(VENV)/include-python),--config-setting 'cmake.define.Python_INCLUDE_DIR=$(CURDIR)/$(VENV)/include-python') .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir $(BUILT)/tagged $(BUILT)/distprove-*.whl
	$(BIN)/python -m distprove.measure.wheels $(BUILT)/tagged/*.whl
	@mkdir -p dist && mv $(BUILT)/tagged/*.whl dist && ls dist/distprove-*.whl

# docs/performance.md from the raw results in docs/results.
performance: $(VENV)/.ready
	$(BIN)/python -m distprove.measure.performance_page

# The documents as a site, in build/site. A link that leads nowhere fails it.
docs: $(VENV)/.ready
	@$(INSTALL) --requirement pyproject.toml --extra docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# The tables of docs/operations.md that the code has: rules of recovery, limits of time.
tables: $(VENV)/.ready
	$(BIN)/python -m tests.support.printed_tables

# cuda-bindings stays unpinned: its major version must follow the CUDA extra.
PIN := $(UV) pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header --no-emit-index-url \
  --no-emit-package cuda-bindings pyproject.toml .ci/build-requirements.txt .ci/wheel-requirements.txt .ci/cross-requirements.txt
constraints: $(UV)
	$(PIN) --extra test --extra docs --extra cuda13 --output-file constraints.13
	$(PIN) --extra cuda12 --constraint constraints.13 --output-file constraints.12
	{ sed -n '/^#/p' constraints.txt; sort -u constraints.12 constraints.13; } > constraints.new
	mv constraints.new constraints.txt
	rm constraints.12 constraints.13

# -- the environment ------------------------------------------------------------------------------------------------

check-tools:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "distprove needs Python 3.10 to 3.13: install python3, or name another with make PYTHON=..." >&2; exit 1; }
	@command -v $${CXX:-c++} >/dev/null \
	  || { echo "No C++ compiler: install the package g++ (or clang, and set CXX)" >&2; exit 1; }

# uv without a venv: Debian's python3 may come without the venv module, and its pip refuses to install system-wide.
$(UV): | check-tools
	@$(PYTHON) -m pip --version >/dev/null 2>&1 \
	  || { echo "pip is missing: install the package python3-pip" >&2; exit 1; }
	@echo "Setting up uv in .uv, and a Python environment in $(VENV)"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --target .uv --constraint constraints.txt uv

$(BIN)/python: | $(UV)
	@.ci/venv $(UV) $(PYTHON) $(VENV)

# The editable install knows modules by name, so one that is added or removed asks for a new one; an edit does not.
MODULES := find distprove kernels actors cluster -name '*.py' | LC_ALL=C sort
$(VENV)/.modules: FORCE | $(BIN)/python
	@$(MODULES) | cmp -s - $@ || $(MODULES) > $@
FORCE:

# No build isolation: the build folder then stays valid between runs, and an edit recompiles only what it touches.
$(VENV)/.ready: pyproject.toml constraints.txt .ci/build-requirements.txt $(NATIVE) $(VENV)/.modules | check-tools $(BIN)/python
	@echo "Installing the packages and compiling the C++ extension: some minutes, the first time"
	@$(INSTALL) --requirement .ci/build-requirements.txt
	@set --; headers='$(CURDIR)/$(VENV)/include-python'; \
	if test -d "$$headers"; then set -- --config-settings "cmake.define.Python_INCLUDE_DIR=$$headers"; fi; \
	$(INSTALL) --no-build-isolation --editable '.$(if $(EXTRA),[$(EXTRA)])' "$$@"
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	@echo "Installing what the tests need"
	@$(INSTALL) --requirement pyproject.toml --extra test
	@touch $@

# snarkjs for the interop tests, which skip without Node.
node:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(INTEROP); \
	else echo "npm is not installed: the tests against snarkjs will be skipped"; fi

$(INTEROP): tests/interop/package.json
	npm install --prefix tests/interop --no-audit --no-fund --no-package-lock --loglevel=error
	touch $@

clean:
	rm -rf .uv $(VENV) build demo-run tests/interop/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
