# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := */hierarchy/*,*/randomizer/*,*/protocol/*,*/pooled/*,*/accounting.py,*/geometry/*
FLOOR := 96
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Versions and hashes to install, such as deploy/constraints.txt, which is for one version of Python; else the newest.
CONSTRAINTS ?=
# Compiled files are kept: hundreds of tests start a process, and each would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test unit lowest lint format bench vectors docs coverage lock audit vendor screenshots system clean

$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --editable '.[plots,service]'
	touch $@

$(VENV)/.test: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(CONSTRAINTS),$(PIP) install --require-hashes --requirement $(CONSTRAINTS))
	$(PIP) install $(if $(CONSTRAINTS),--no-deps --no-build-isolation) --editable '.[all,docs,test]'
	touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/semilocal demo
	$(BIN)/semilocal demo --live
	$(BIN)/semilocal demo --two-servers

# The types are checked beside the tests, which often wait. The slowest tests are listed at the end.
test: $(VENV)/.test system .tools/node_modules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p .mypy_cache; $(BIN)/mypy > .mypy_cache/found.txt 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n 4 --dist worksteal --durations 30 --durations-min 4; tests=$$?; \
	wait $$types; types=$$?; cat .mypy_cache/found.txt; exit $$((tests | types))

# The fast tests: tests/unit and the doctests.
unit: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "unit and not slow" src tests/unit

# The fast tests with the lowest versions that pyproject.toml allows, in an environment of their own.
lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) .ci/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip --quiet --disable-pip-version-check install \
	  --constraint $(VENV)-lowest/constraints.txt --editable '.[all,test]'
	$(VENV)-lowest/bin/python -m pytest -n 2 --dist worksteal -m "unit and not slow" tests/unit

# The fast tests with coverage of the core, and the floor below which it must not fall.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "unit and not slow" src tests/unit --cov --cov-report=
	$(BIN)/coverage report --include='$(CORE)' --skip-covered --fail-under=$(FLOOR)

# deploy/ anew: one version of everything that the service and CI install, with hashes and licences.
lock: $(VENV)/.test
	$(BIN)/python tools/lock.py

# Known vulnerabilities of all that, where a source of advisories answers.
audit: $(VENV)/.test
	test -x $(VENV)-audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)-audit && $(VENV)-audit/bin/pip install --quiet pip-audit; }
	$(BIN)/python tools/audit.py $(VENV)-audit/bin/pip-audit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test
	for script in bench/bench_*.py; do $(BIN)/python -m bench.$$(basename $$script .py) || exit 1; done

# After any change to the task's fields or the randomizers.
vectors: $(VENV)/.test
	$(BIN)/python spec/make_vectors.py

# The documentation site, in site/. Dead links fail.
docs: $(VENV)/.test
	$(BIN)/python tools/reference_pages.py
	$(BIN)/zensical build --strict --clean

# What the page ships from elsewhere, at pinned versions, with its list of licences and hashes. Needs npm.
vendor: $(VENV)/.test
	$(BIN)/python tools/vendor.py

# The pictures of the page in the documentation. Look at every one of them.
screenshots: $(VENV)/.test system
	PYTHONPATH=. $(BIN)/python tools/screenshots.py

# What tests need from the system, where it can be installed; elsewhere those tests skip and say why.
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  missing=""; \
	  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$$missing postgresql"; \
	  command -v nginx >/dev/null || test -x /usr/sbin/nginx || missing="$$missing nginx-light"; \
	  command -v wrk >/dev/null || missing="$$missing wrk"; \
	  command -v chromium >/dev/null || missing="$$missing chromium"; \
	  command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	  if [ -n "$$missing" ]; then echo "installing:$$missing"; \
	    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $$missing; } \
	      >/dev/null 2>&1 || echo "could not install:$$missing; the tests that need it will skip"; fi; fi

# Checks of types and accessibility for the page; where npm has no access, those tests skip and say so.
.tools/node_modules: | $(VENV)/.test
	-$(BIN)/python tools/vendor.py --tests

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-audit .tools demo-output results site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
