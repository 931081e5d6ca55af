# make test: sets up everything and passes the tests. make demo: sets up everything and proves a job.
PYTHON ?= python3
UV := .uv/bin/uv
VENV := .venv
STAMP := $(VENV)/.ready
SOURCES := pyproject.toml constraints.txt kernels/CMakeLists.txt $(shell find kernels -name '*.cpp' -o -name '*.h')

.PHONY: test lint demo clean setup
setup: $(STAMP)

$(UV):
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --target .uv uv

$(VENV)/bin/python: | $(UV)
	PYTHONPATH=.uv $(UV) venv --quiet --python $(PYTHON) $(VENV)

$(STAMP): $(SOURCES) | $(VENV)/bin/python
	PYTHONPATH=.uv $(UV) pip install --quiet --python $(VENV)/bin/python --constraint constraints.txt --editable '.[test]'
	touch $@

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

test: lint
	$(VENV)/bin/python -m pytest -q

clean:
	rm -rf $(VENV) .uv build
