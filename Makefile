# make quickstart: the main job end to end. make test: the tests. make bench: speed. All set
# everything up.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.synced

# Says in one line what is missing; ensurepip is what Debian has in a package of its own.
needs_python = $(1) -c "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 11))" 2>/dev/null \
	|| { echo "make: needs Python 3.11 with venv, and $(1) is not: on Debian 12 'apt-get install python3.11-venv'; \
	elsewhere 'make $(or $(MAKECMDGOALS),quickstart) PYTHON=/path/to/python3.11' (docs/install.md)" >&2; exit 1; }

# A worker a core; tests of one file share what they compile, and files come in the order of
# tests/conftest.py.
SIDE_BY_SIDE := -n auto --dist loadfile --no-loadscope-reorder

# Where Python is told to keep no bytecode, every worker and every program that a test starts would
# compile the package and the tests anew: ten seconds of a core each.
test test-light test-all test-jax test-ray test-flower test-nvflare test-opacus test-pfl: export PYTHONDONTWRITEBYTECODE =

# A worker a core: threads of BLAS beside them only wait for each other, a tenth of all time.
test test-light test-all: export OPENBLAS_NUM_THREADS = 1

# Where a newer Python works, all that needs no TensorFlow is tested on it.
NEWER_PYTHON := $(shell for v in 3.13 3.12; do \
	python$$v -c "import ensurepip" 2>/dev/null && echo python$$v && break; done)
LIGHT_PYTHON ?= $(or $(NEWER_PYTHON),$(PYTHON))
LIGHT_BIN := .venv-light/bin

# What another Python, NumPy and SciPy, and no TensorFlow, may change: the numbers of every recorded
# call and of sixty releases, commands, files, what is in the wheel, and the engine in current JAX.
# All that needs no TensorFlow runs under test-all. What compiles comes first, so that no worker
# waits for it at the end.
NUMBERS := tests/recorded tests/accounting/test_same_numbers.py
LIGHT_FILES := tests/engines/jax tests/commands tests/config tests/formats tests/test_wheel.py
LIGHT_TESTS := $(LIGHT_BIN)/python -m pytest $(SIDE_BY_SIDE) $(LIGHT_FILES) $(NUMBERS)

.PHONY: quickstart test test-all test-light test-jax test-ray test-flower test-nvflare test-opacus test-pfl docs bench experiments-small lint setup lock

quickstart: $(STAMP)
	$(BIN)/fl-audit quickstart

# The environment is made and types are checked on one core while the other makes the light
# environment and tests it. What it has run is left out afterwards but for numbers, which both hold.
test:
	@[ -e $(STAMP) ] || $(call needs_python,$(PYTHON))
	@$(MAKE) --no-print-directory --jobs=2 test-light lint
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(addprefix --ignore=,$(LIGHT_FILES))

test-all: $(STAMP) .venv-light/.synced lint
	$(LIGHT_BIN)/python -m pytest $(SIDE_BY_SIDE) tests
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m ""

test-light: .venv-light/.synced
	$(LIGHT_TESTS)

.venv-light/.synced: requirements-light.lock setup.cfg pyproject.toml
	$(LIGHT_PYTHON) -m venv .venv-light
	$(LIGHT_BIN)/python -m pip install --quiet --require-hashes -r requirements-light.lock
	$(LIGHT_BIN)/python -m pip install --quiet --no-deps -e .
	touch $@

# The engine in current JAX, slow tests too.
test-jax: .venv-light/.synced
	$(LIGHT_BIN)/python -m pytest $(SIDE_BY_SIDE) tests/engines tests/test_rooms.py -m ""

# What starts Ray, in an environment of its own: a large package that `make test` does not need, and
# each of these tests starts processes that import TensorFlow for themselves.
test-ray: .venv-ray/.synced
	.venv-ray/bin/python -m pytest -m "" tests/engines/ray tests/engines/tff/test_tff_on_ray.py \
		tests/engines/jax/test_jax_on_ray.py tests/sweeps tests/config_tables/test_plugins_on_ray.py

.venv-ray/.synced: uv.lock pyproject.toml setup.cfg $(STAMP)
	UV_PROJECT_ENVIRONMENT=.venv-ray $(BIN)/uv sync --frozen --compile-bytecode --extra training --extra report \
		--extra test --extra ray
	touch $@

# Flower, NVFlare, Opacus and pfl want other versions than TensorFlow Federated does, and their audit
# needs no TensorFlow: an environment of its own for each.
test-flower test-nvflare test-opacus test-pfl: test-%: .venv-%/.synced
	.venv-$*/bin/python -m pytest tests/examples/test_$*_example.py tests/test_$*.py \
		tests/attacks --ignore tests/attacks/test_same_as_run.py

.venv-flower/.synced .venv-nvflare/.synced .venv-opacus/.synced .venv-pfl/.synced: .venv-%/.synced: examples/%/requirements.lock
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --require-hashes -r $<
	.venv-$*/bin/python -m pip install --quiet --no-deps -e .
	touch $@

# docs/ and the docstrings as a site with search, in site/; a warning is an error.
docs: .venv-docs/.synced
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "the site: site/index.html; with search: $(PYTHON) -m http.server --directory site"

.venv-docs/.synced: docs/requirements.lock
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --require-hashes -r docs/requirements.lock
	touch $@

# Ratios against peers; no test, no network, and for an idle machine: about a quarter of an hour on
# two cores. A machine with a GPU: `python benchmarks/gpu.py`, which needs JAX and NumPy alone.
bench: $(STAMP)
	$(BIN)/python -m benchmarks.estimators
	$(BIN)/python -m benchmarks.canaries
	$(BIN)/python -m benchmarks.training

# Experiments of under a minute each on an idle core that need no data and no run before; pictures in runs/.
PICTURES ?= runs
experiments-small: $(STAMP)
	mkdir -p $(PICTURES)
	$(BIN)/python -m experiments.andrew2023_table1.law
	$(BIN)/python -m experiments.steinke2023_figures.run $(PICTURES)/steinke2023_figures.png
	$(BIN)/python -m experiments.zanella_beguelin2023_figures.run $(PICTURES)/zanella_beguelin2023_figures.png
	$(BIN)/python -m experiments.dp_sgd.known_steps
	$(BIN)/python -m experiments.dp_sgd.known_steps --clip 1
	$(BIN)/python -m experiments.dp_sgd.known_steps --scale 3
	$(BIN)/python -m experiments.dp_sgd.known_steps --source noise
	$(BIN)/python -m experiments.dp_sgd.known_steps --source noise --clip 1
	$(BIN)/python -m experiments.pure_noise.run
	$(BIN)/python -m experiments.production.common_threshold 40
	$(BIN)/python -m experiments.negoescu2024_appendix_b.run 2
	$(BIN)/python -m experiments.negoescu2024_appendix_b.figures $(PICTURES)/negoescu2024_figures_3_to_5.png
	$(BIN)/python -m experiments.yildirim2025_table1.artificial $(PICTURES)/yildirim2025_figures_2_3.png

# known_steps trains on the rounding of its sums.
experiments-small: export OMP_NUM_THREADS = 1

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(STAMP)

# The lock has hashes for everything; uv itself is pinned here. Bytecode is compiled once, as some
# machines forbid Python to keep it, and every process would compile TensorFlow anew (9 s for 3 s).
$(STAMP): uv.lock pyproject.toml setup.cfg
	@$(call needs_python,$(PYTHON))
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv==0.13.8
	$(BIN)/uv sync --frozen --compile-bytecode --extra training --extra report --extra test
	touch $@

# After a change of dependencies: all locks anew, and no host but the public index in them.
lock: $(STAMP)
	$(BIN)/uv lock
	$(BIN)/uv export --frozen --no-emit-project --extra training --extra report --quiet \
		-o requirements.lock
	$(BIN)/uv pip compile --quiet --no-config --generate-hashes --python-version 3.11 --extra jax \
		--extra report --extra parquet --extra test pyproject.toml -o requirements-light.lock
	$(BIN)/uv pip compile --quiet --no-config --generate-hashes --python-version 3.11 --extra jax-cuda \
		--extra report pyproject.toml -o requirements-jax-cuda.lock
	for system in flower nvflare opacus pfl; do \
		$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 \
			examples/$$system/requirements.in -o examples/$$system/requirements.lock; done
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 \
		docs/requirements.in -o docs/requirements.lock
