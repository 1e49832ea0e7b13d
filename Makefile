# make run    the tour            make check   lint, format, types, import lines
# make test   all tests           make bench   the benches
# Everything lives in .venv, which `setup` makes and the other targets call for by themselves.

PYTHON ?= python3
PYTEST_ARGS ?=

# What cannot be fetched is looked for before anything is installed, and what is missing is said in a line.
define PYTHON_CHECK
@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), but 3.11 or newer is needed: name one with make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv or ensurepip: install the package python3-venv" >&2; exit 1; }
endef
# Java 17 or newer, which Spark and the Kafka servers of the tests run on.
JAVA_CHECK = $(PYTHON) -I src/cordwood/java.py 'make test'
# Maven, unless it has fetched the jars already; where they are, `cordwood.testing.servers.maven` decides.
jars = $${XDG_CACHE_HOME:-$$HOME/.cache}/cordwood/jars/$(1)-$$(sha256sum src/cordwood/testing/kafka/$(2) | cut -c-16)
MAVEN_CHECK = command -v mvn >/dev/null || { [ -d "$(call jars,kafka,broker.pom.xml)" ] && [ -d "$(call jars,spark-kafka,spark.pom.xml)" ]; } \
	|| { echo "make test needs Maven to fetch Kafka's jars, and there is no mvn: install it (Debian: maven)" >&2; exit 1; }

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help setup run needed test check format bench lock clean
.NOTPARALLEL:  # what is needed comes before what is installed

help:
	@echo "make setup | run | test [PYTEST_ARGS=…] | check | format | bench | lock | clean"

setup: $(VENV)/.project

# Two stamps: changed requirements rebuild the whole environment, a changed pyproject only installs the project anew.
$(VENV)/.requirements: requirements/dev.txt
	$(PYTHON_CHECK)
	@$(JAVA_CHECK) || echo "setup: goes on; make run, check and format do without it" >&2
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.project: $(VENV)/.requirements pyproject.toml src/cordwood/_version.py
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

run: setup
	$(BIN)/cordwood tour

# Both are said where both are missing.
needed:
	$(PYTHON_CHECK)
	@java=0; $(JAVA_CHECK) || java=1; ($(MAVEN_CHECK)) && exit $$java

# Kafka's jars are fetched before the tests, which have a time limit each; what is missing is said in one line.
# Most tests wait for servers: two processes take two thirds of the time of one (PYTEST_ARGS="-n 0"). By files, so that
# tests that share a server meet nobody else's on it.
test: needed setup
	@$(BIN)/python -m cordwood.testing.kafka --spark
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src tests $(wildcard bench examples)
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m bench

lock:
	PYTHON=$(PYTHON) requirements/lock.sh

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +
