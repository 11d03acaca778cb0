# Each target makes .venv and installs what it needs; nothing else has to be there but Python 3.11 or newer.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test test-long check bench clean

$(VENV)/ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) was found; name another with PYTHON=…" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/ready-run: $(VENV)/ready pyproject.toml
	$(PIP) -e '.[mpi]'
	@touch $@

$(VENV)/ready-dev: $(VENV)/ready-run pyproject.toml
	$(PIP) -e '.[mpi,dev]'
	@touch $@

# The whole way on data it makes itself: ingest, train on 2 ranks, evaluate, query, recommend.
demo: $(VENV)/ready-run
	$(BIN)/gossamer demo

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m 'not long'

# Everything, with its outcome in docs/test-long.md.
test-long: $(VENV)/ready-dev
	@set -o pipefail; log=$$(mktemp); \
	$(BIN)/python -m pytest 2>&1 | tee $$log; status=$$?; \
	{ echo '# Last run of `make test-long`'; echo; \
	  echo "$$(date -u +%F), commit $$(git rev-parse --short HEAD):"; echo; \
	  echo '```'; tail -n 1 $$log; echo '```'; } > docs/test-long.md; rm $$log; exit $$status

check: $(VENV)/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Peers have environments of their own; without them the benchmarks print ours alone.
.venv-duckdb/ready:
	$(PYTHON) -m venv .venv-duckdb
	.venv-duckdb/bin/python -m pip --disable-pip-version-check install --quiet duckdb
	@touch $@

.venv-lmdb/ready:
	$(PYTHON) -m venv .venv-lmdb
	.venv-lmdb/bin/python -m pip --disable-pip-version-check install --quiet lmdb numpy pyarrow
	@touch $@

.venv-torch/ready:
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip --disable-pip-version-check install --quiet torch==2.13.0 numpy
	@touch $@

.venv-dgl/ready:
	$(PYTHON) -m venv .venv-dgl
	.venv-dgl/bin/python -m pip --disable-pip-version-check install --quiet torch==2.13.0
	.venv-dgl/bin/python -m pip --disable-pip-version-check install --quiet \
		dgl==2.1.0 torchdata==0.7.1 pandas pydantic pyyaml 'numpy<2' 'setuptools<66'
	@touch $@

# torch-sparse, torch-scatter and torch-cluster are compiled: about 20 minutes.
.venv-pyg/ready:
	$(PYTHON) -m venv .venv-pyg
	.venv-pyg/bin/python -m pip --disable-pip-version-check install --quiet torch==2.13.0 torch_geometric numpy setuptools wheel
	.venv-pyg/bin/python -m pip --disable-pip-version-check install --quiet --no-build-isolation \
		torch-scatter==2.1.2 torch-sparse==0.6.18 torch-cluster==1.6.3
	@touch $@

# The graphs that the areas of the store share stay in build/graphs.
bench: $(VENV)/ready-run .venv-duckdb/ready .venv-lmdb/ready .venv-torch/ready .venv-dgl/ready .venv-pyg/ready
	for area in ingest store updates larger_than_memory sizing sampling; do \
		$(BIN)/python -m benchmarks.$$area --data build/graphs || exit 1; done
	for area in tables exchange; do $(BIN)/python -m benchmarks.$$area || exit 1; done

clean:
	rm -rf $(VENV) .venv-duckdb .venv-lmdb .venv-torch .venv-dgl .venv-pyg build *.egg-info
