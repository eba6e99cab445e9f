# memplane. `make up` and `make test` set everything up themselves; the rest is for developers.
.DEFAULT_GOAL := help
.PHONY: help up test test-long test-newest test-busy setup assets browser check fix bench docs goldens screenshots lock clean wheel

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/.run-installed
DEV := $(VENV)/.dev-installed
NODE := node_modules/.installed
NEWEST := tools/newest-clients/node_modules/.installed
WHEELS ?= dist
PAGES := src/memplane/server/dashboard/static/htmx.min.js
MODEL := src/memplane/search/embeddings/model/model.onnx
ASSETS := $(PAGES) $(MODEL)

# Without bytecode, each run and each program that a test starts compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

up: $(RUN) $(ASSETS)  ## install what is needed and start memplane
	@$(VENV)/bin/memplane up $(ARGS)

test: $(DEV) $(NODE) $(ASSETS) browser  ## install what the tests need and run the everyday suite
	@$(VENV)/bin/python -m pytest -n 2 -m "not long" $(ARGS)

test-long: $(DEV) $(NODE) $(NEWEST) $(ASSETS) browser  ## run every test, the long proofs too, with files on the disk
	@PYTEST_DEBUG_TEMPROOT=$${TMPDIR:-/tmp} $(VENV)/bin/python -m pytest -n 2 --timeout 1800 -o faulthandler_timeout=2400 $(ARGS)

test-newest: $(NODE) $(ASSETS) browser  ## run the everyday suite on the newest Python there is
	@tools/test-newest

test-busy: $(DEV) $(NODE) $(ASSETS) browser  ## run the everyday suite three times beside four busy processes
	@tools/test-busy

setup: $(DEV) $(NODE) $(ASSETS)  ## install the package and the development tools, start nothing
	@$(VENV)/bin/pre-commit install >/dev/null 2>&1 || true

assets: $(RUN) $(ASSETS)  ## fetch what the dashboard's pages load, and build the embedding model

wheel: $(DEV) $(ASSETS)  ## build a wheel of this checkout; WHEELS names the folder
	@tools/build-wheel $(VENV) $(WHEELS)

check: $(DEV) $(NODE)  ## lint, types, layers
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy
	node_modules/.bin/pyright --warnings
	$(VENV)/bin/lint-imports

fix: $(DEV)  ## format, and repair what can be repaired
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

bench: $(DEV) $(NODE) $(MODEL)  ## print the figures, as ratios in one run
	@$(VENV)/bin/python -m bench $(ARGS)

docs: $(DEV)  ## write the generated pages anew
	@$(VENV)/bin/python docs/generate.py

goldens: $(DEV) $(NODE) $(ASSETS)  ## write what the golden tests compare anew: the API, help, pages, a home
	@WRITE_GOLDENS=1 $(VENV)/bin/python -m pytest -q -n 0 tests/goldens $(ARGS)

screenshots: $(DEV) $(NODE) $(ASSETS) browser  ## photograph the dashboard's pages anew, into docs/screenshots
	@SCREENSHOTS=docs/screenshots $(VENV)/bin/python -m pytest -q tests/browser/test_screenshots.py $(ARGS)

lock: $(DEV)  ## pin the newest versions that fit
	@tools/lock

clean:  ## remove what was installed
	rm -rf $(VENV) node_modules assets/node_modules tools/newest-clients/node_modules $(ASSETS)

$(VENV)/bin/python:
	@tools/make-venv $(PYTHON) $(VENV)

$(RUN): requirements/run.txt | $(VENV)/bin/python
	@tools/install $(VENV) requirements/run.txt
	@touch $@

$(DEV): requirements/dev.txt | $(VENV)/bin/python
	@tools/install $(VENV) requirements/dev.txt
	@touch $@ $(RUN)

$(NODE): package-lock.json
	@echo "installing test tools from npm …"
	@npm ci --silent --no-progress --ignore-scripts
	@touch $@

$(NEWEST): tools/newest-clients/package-lock.json
	@echo "installing the newest clients from npm, for the long tests …"
	@npm ci --prefix tools/newest-clients --silent --no-progress --ignore-scripts
	@touch $@

browser:
	@tools/install-browser
	@tools/install-systemd

$(PAGES): assets/package-lock.json
	@tools/fetch-assets $@

$(MODEL): assets/package-lock.json tools/build-model | $(PAGES) $(VENV)/bin/python
	@tools/make-model $(VENV) $(@D)
