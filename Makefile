# Common tasks. Each target first installs what it needs; once that is done it costs nothing.

BIN := .venv/bin
INPUTS := pyproject.toml $(wildcard requirements/*.lock) scripts/setup
BASE := .venv/ready-for-base
SPARK := .venv/ready-for-spark
TEST := .venv/ready-for-test
LOCK := $(BIN)/uv pip compile --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-header
ROUNDS ?= 30
SEED ?= 20261115

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit check format soak bench docs lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SPARK) ## install what lakewarden needs, into .venv
	@echo "ready: $(BIN)/lakewarden --help"

demo: $(SPARK) ## create a small lake in demo-lake and run the main features on it
	@$(BIN)/lakewarden demo --fresh

test: $(TEST) ## run the tests, with real Spark and PostgreSQL
	@$(BIN)/pytest -n 2 --durations 10 --durations-min 20

unit: $(BASE) ## run the tests that need no Spark, no PostgreSQL and no files: seconds
	@$(BIN)/pytest -n 2 -m "not files and not spark and not postgres and not mariadb and not slow"

check: $(BASE) ## check format, style and types, as CI does
	@failed=0; $(BIN)/ruff format --check || failed=1; $(BIN)/ruff check || failed=1; $(BIN)/mypy || failed=1; exit $$failed

format: $(BASE) ## format the code and apply automatic fixes
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

soak: $(TEST) ## kill at random moments and at every step, in every form: make soak ROUNDS=30 SEED=1
	@$(BIN)/pytest -n 2 --soak --rounds $(ROUNDS) --seed $(SEED)

bench: $(SPARK) ## run every benchmark in bench
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

docs: $(BASE) ## generate docs/reference from the code
	@$(BIN)/python -m lakewarden.doors.reference_pages docs/reference

lock: $(BASE) ## regenerate requirements/*.lock: make lock UPGRADE=--upgrade for newer versions
	@$(LOCK) $(UPGRADE) --quiet requirements/build.in -o requirements/build.lock
	@$(LOCK) $(UPGRADE) --quiet --all-extras --group dev pyproject.toml -o requirements/dev.lock

clean: ## remove caches, builds and the demo lake; .venv stays and is checked at the next run
	@rm -rf demo-lake dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	@rm -f .venv/ready-for-* .venv/installed.sums
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready-for-%: $(INPUTS)
	@scripts/setup --for $*
	@touch $@
