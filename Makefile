# make run    the tour            make check   lint, format, types, import lines
# make test   all tests           make bench   the benches
# make wheel  a wheel and an sdist, into dist
# Everything is in .venv: `setup` makes it, and the other targets call `setup`.

PYTHON ?= python3
PYTEST_ARGS ?=
DIST ?= dist

# A requirement that make cannot fetch is checked before anything is installed, and reported in one line.
define PYTHON_CHECK
@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), but 3.11 or newer is needed: name one with make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv or ensurepip: install the package python3-venv" >&2; exit 1; }
endef
# Java 17 or newer, which Spark and the servers of the tests run on.
JAVA_CHECK = $(PYTHON) -I src/cordwood/java.py 'make test'
# Maven, unless it has fetched the jars already; `cordwood.testing.servers.maven` decides where they are.
jars = $${XDG_CACHE_HOME:-$$HOME/.cache}/cordwood/jars/$(1)-$$(sha256sum src/cordwood/testing/$(2) | cut -c-16)
MAVEN_CHECK = command -v mvn >/dev/null || { [ -d "$(call jars,kafka,kafka/broker.pom.xml)" ] && [ -d "$(call jars,spark-kafka,kafka/spark.pom.xml)" ] && [ -d "$(call jars,cassandra,cassandra/node.pom.xml)" ]; } \
	|| { echo "make test needs Maven to fetch the jars of Kafka and Cassandra, and there is no mvn: install it (Debian: maven)" >&2; exit 1; }

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help setup run needed test check format bench wheel lock clean
.NOTPARALLEL:  # `needed` comes before `setup`

help:
	@echo "make setup | run | test [PYTEST_ARGS=…] | check | format | bench | wheel | lock | clean"

setup: $(VENV)/.project

# Two stamps: changed requirements rebuild the whole environment; a changed pyproject only reinstalls the project.
$(VENV)/.requirements: requirements/dev.txt
	$(PYTHON_CHECK)
	@$(JAVA_CHECK) || echo "setup: continues; make run, check and format do not need it" >&2
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.project: $(VENV)/.requirements pyproject.toml src/cordwood/_version.py
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

run: setup
	$(BIN)/cordwood tour

# If both are missing, both are reported.
needed:
	$(PYTHON_CHECK)
	@java=0; $(JAVA_CHECK) || java=1; ($(MAVEN_CHECK)) && exit $$java

# The jars of the servers are fetched before the tests, because each test has a time limit.
# Most tests wait for servers: two processes take two thirds of the time of one (PYTEST_ARGS="-n 0"). By files, so that
# only the tests of one file share a server.
test: needed setup
	@$(BIN)/python -m cordwood.testing.kafka --spark
	@$(BIN)/python -m cordwood.testing.cassandra
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

# With the hatchling of the environment: nothing is fetched.
wheel: setup
	$(BIN)/python -m hatchling build -d $(DIST)

lock:
	PYTHON=$(PYTHON) requirements/lock.sh

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +
