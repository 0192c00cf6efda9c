# Two commands: `make demo` (see it work) and `make test` (prove it works). Both do all set-up themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
READY  := $(VENV)/.ready

.PHONY: demo test lint types unit browser docs lock minima sbom clean

demo: $(CORE)
	$(BIN)/wildspec demo

# Types are checked beside the tests: alone they would leave a core idle.
test: $(READY) browser
	+@$(MAKE) --no-print-directory -j2 lint types unit

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy src $(wildcard tools)

unit: $(READY) browser
	MPLBACKEND=Agg OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# The report and the web page are tested in Chromium. Where it can be installed (Debian, as root) it is; else those tests are
# skipped and say so.
browser:
	@command -v chromium >/dev/null 2>&1 || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 \
	  && echo "installing chromium for the browser tests" && timeout 300 apt-get -qq update >/dev/null 2>&1 \
	  && DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq install -y --no-install-recommends chromium >/dev/null 2>&1; } || true

docs: $(READY)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

# What the tested environment holds, for deployments.
lock: $(READY)
	$(BIN)/python tools/supply.py lock > constraints-deploy.txt

# The lower bounds of pyproject.toml, in an environment of their own, with the tests of what strangers can reach.
minima: $(CORE)
	$(PYTHON) -m venv .venv-minima
	$(BIN)/python tools/supply.py minima > .venv-minima/minima.txt
	.venv-minima/bin/python -m pip install --quiet -r .venv-minima/minima.txt pytest pytest-xdist hypothesis
	.venv-minima/bin/python -m pip install --quiet --no-deps -e .
	OMP_NUM_THREADS=1 .venv-minima/bin/python -m pytest tests/data/test_headers.py tests/data/test_decode.py \
	  tests/serving/test_abuse.py tests/serving/test_hosts.py tests/serving/test_decoding.py tests/bundle/test_bundle_store.py

# Bill of materials (CycloneDX) and licences of everything a deployment installs.
sbom: $(READY)
	mkdir -p build
	$(BIN)/python tools/supply.py sbom > build/sbom.json
	$(BIN)/python tools/supply.py licences > build/licences.md

# A machine whose Python lacks ensurepip still has pip: let that pip fill the environment.
$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(READY): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-minima build dist site .pytest_cache .mypy_cache .ruff_cache
