# What can I do here? `make help` says. Every target sets up what it needs; the second time is quick.

.DEFAULT_GOAL := help
.PHONY: help demo test spark check laws mutants fuzz agreement kills chaos bench growth figures load profile walks docs lock clean environment prepared

BIN := .venv/bin
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
CASES ?= 100000
MINUTES ?= 10
LANES ?= 5
# The suite starts hundreds of processes, and each would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE
TYPED := src/maia tools $(addprefix bench/,ages.py harness.py harness_report.py performance_page.py plots.py paper_figures.py __main__.py)
PUBLIC := $(addprefix maia.,errors canonical events predicates credentials types policy views client domain \
	spark spark.governed.table spark.open_log client.api.client client.api.blocking_client client.api.publisher client.api.subscription \
	spark.source.data_source spark.source.options api.client keystore.key_files config.input_files testing \
	client.api.connection organisation.organisation organisation.grant_file profile.profile)
UV := .build/tools/uv/bin/uv
SPARK_TESTS := $(addprefix tests/unit/,spark/test_java_home.py spark/test_sink.py spark/test_stream_reader.py views/test_to_spark.py)
COMPILE := $(UV) pip compile -q --universal --generate-hashes --no-header --no-emit-index-url

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

environment:
	@tools/bootstrap

demo: environment ## A real network, a crash, a revocation, then Spark on its log: who sees what (ARGS=--details)
	@$(BIN)/maia demo --spark $(ARGS)

# A few chosen tests are done before a second lane has started.
test: environment prepared ## Run every test, in LANES=5 lanes (ARGS="tests/unit -x" to choose, in one)
	@$(BIN)/python -m pytest -q $(or $(ARGS),--lanes $(LANES))

# The suite runs on the PySpark of the lock. Each end has an environment of its own below .build.
SPARK_ENDS ?= 4.3.0 4.*
spark: environment ## Try the oldest and the newest PySpark that the extra [spark] allows; fetches them
	@set -f; for end in $(SPARK_ENDS); do \
		home=.build/pyspark-$${end%.*}; echo "PySpark $$end, in $$home"; \
		$(UV) venv -q --allow-existing --python $(BIN)/python $$home && export VIRTUAL_ENV=$$home && \
		$(UV) pip install -q --no-deps -r requirements.lock -e . && \
		$(UV) pip install -q -U "pyspark==$$end" && \
		$$home/bin/python -m pytest -q $(SPARK_TESTS) || exit 1; \
	done

# The suite starts Java two dozen times. Without the archive it only takes longer.
prepared: environment
	@echo "maia: preparing Spark (up to a minute, the first time only)"
	@$(BIN)/maia pipeline prepare > /dev/null || true

check: environment ## Check format, style, types, layers and the repository's own rules
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary $(TYPED)
	@mkdir -p .build; $(BIN)/lint-imports --no-logo > .build/imports.txt || { cat .build/imports.txt; exit 1; }
	@$(BIN)/python tools/check_repo.py
	@echo "checked"

laws: environment ## Try at least CASES=100000 random cases (SEED=… to repeat a run)
	@MAIA_LAWS=1 MAIA_LAWS_AT_LEAST=$(CASES) $(BIN)/python -m pytest -q -m laws --hypothesis-seed=$(SEED) $(or $(ARGS),--lanes $(LANES))

mutants: environment ## Break one line of ROOM=ledger at a time for MINUTES=10, and list what no test notices
	@$(BIN)/python tools/mutants.py $(or $(ROOM),ledger) --minutes $(MINUTES) $(ARGS)

# Not in the lock of all: there is no wheel of atheris for every machine, and nothing else needs it.
fuzz: environment ## Search for MINUTES=10 for bytes that a reader of foreign bytes fails at (TARGETS="wire mqtt", ARGS=--keep)
	@$(UV) pip install -q --python $(BIN)/python --target .build/fuzz/packages --only-binary :all: --require-hashes \
		-r tools/fuzz.lock.txt || true
	@$(BIN)/python tools/fuzz.py $(TARGETS) --minutes $(MINUTES) $(ARGS)

agreement: CASES = 200
agreement: environment ## Compare live deliveries with governed tables and SQL views in CASES=200 random worlds, and consortia
	@MAIA_AGREEMENT=$(CASES) $(BIN)/python -m pytest -q -o faulthandler_timeout=0 tests/differential/test_the_lake_agrees_with_the_stream.py \
		tests/differential/test_sql_views_agree_with_the_stream.py tests/differential/test_a_consortium_agrees.py $(ARGS)

kills: KILLS = 200
kills: environment ## Kill one of two recording brokers KILLS=200 times: nothing acknowledged is silently missing
	@MAIA_KILLS=$(KILLS) $(BIN)/python -m pytest -q -o faulthandler_timeout=0 tests/attacks/test_a_killed_broker_catches_up.py

chaos: environment ## Break a real network of three organisations for MINUTES=10: is anything acknowledged lost? (ARGS="--json FILE")
	@PYTHONPATH=tests $(BIN)/python -m chaos --minutes $(MINUTES) --seed $(SEED) $(ARGS)

bench: environment ## Run the benchmarks not yet run on this code, or some: NAMES="3 5-7 decision" (ARGS=--quick for a smoke test)
	@$(BIN)/python bench $(NAMES) $(ARGS)

growth: environment ## Measure how cost grows with subscriptions, wallets, key groups, brokers, rows (NAMES=, ARGS=--quick)
	@$(BIN)/python bench/growth.py $(NAMES) $(ARGS)

figures: environment ## Run the papers' own cases and draw their tables and figures beside ours: docs/figures.md (NAMES=, ARGS=--quick)
	@$(BIN)/python bench/figures.py $(NAMES) $(ARGS)

load: environment ## Put one broker under load for MINUTES=10, on loopback (ARGS=--quick for a smoke test)
	@$(BIN)/python bench/load.py --minutes $(MINUTES) $(ARGS)

profile: environment ## Show where the microseconds of one event go in a broker, and keep it (ARGS=--quick for a smoke test)
	@$(BIN)/python bench/event_budget.py $(ARGS)

walks: environment ## Count the files and functions that an event, a request, a revocation and a table pass
	@$(BIN)/python bench/walks.py $(ARGS)

docs: environment ## Write the generated pages and pictures, the site with search in site/, and try every example
	@$(BIN)/python tools/write_docs.py
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -c tools/site -d .build/sphinx docs site
	@cp site/README.html site/index.html
	@$(BIN)/pdoc --docformat markdown --output-directory site/api $(PUBLIC)
	@$(BIN)/python -m pytest -q tests/unit/project/test_documents.py
	@echo "open site/index.html"

lock: environment ## Resolve the dependencies again; hashes only, no addresses (ARGS=--upgrade)
	@$(COMPILE) --all-extras pyproject.toml -o requirements.lock $(ARGS)
	@$(COMPILE) --no-annotate --extra broker --extra domain --extra objects --extra postgres -c requirements.lock pyproject.toml \
		-o deploy/containers/requirements.lock $(ARGS)
	@echo uv | $(COMPILE) --no-annotate - -o tools/uv.lock.txt $(ARGS)
	@printf 'setuptools\nwheel\n' | $(COMPILE) --no-annotate - -o tools/build.lock.txt $(ARGS)
	@echo 'atheris==3.0.0 ; platform_machine == "x86_64"' | $(COMPILE) --no-annotate - -o tools/fuzz.lock.txt $(ARGS)

clean: ## Remove everything that can be made again
	rm -rf .venv .build site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +
