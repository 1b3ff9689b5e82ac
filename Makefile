# make run    the main job, with live progress and a summary that checks itself
# make test   everything that must hold: lint, native tests under sanitizers, the Python suite
.PHONY: run test test-long test-python test-floors test-spark-oldest test-spark-connect test-kafka python-test spark-test \
	native-test package package-test pin audit mutants fuzz docs lint format stub bench peers browser setup clean

PYTHON ?= python3
VENV := .venv
EXTRAS := dev
BIN := $(VENV)/bin
# The core as the Python module has it, and join_peer.
BUILD := $(if $(filter .venv,$(VENV)),build/release,$(VENV)/build)
SOURCES := $(shell find core -name '*.hpp' -o -name '*.cpp') CMakeLists.txt
# An editable install lists its modules: it is made anew when there are others.
MODULES := $(VENV)/.modules-$(shell find src/slidejoin -name '*.py' | LC_ALL=C sort | cksum | tr ' ' -)
NATIVE := $(shell find core benchmarks/peers -name '*.hpp' -o -name '*.cpp')
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Instruction sets that are built here: the portable one and the highest of this processor. A wheel has all.
LEVELS ?= native
# Byte code is made when a module is first imported: most modules never are.
PIP := $(BIN)/pip install -q --disable-pip-version-check --no-compile
PYTEST := $(BIN)/pytest -rs -n $(JOBS) --dist worksteal
SPARK_OLDEST := build/pyspark-3.5
SPARK_CONNECT := build/connect
KAFKA := build/kafka
CMAKE_FLAGS := -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" -DSLIDEJOIN_MODULE=OFF

run: setup
	@command -v java >/dev/null || [ -n "$$JAVA_HOME" ] || { echo "make run needs Java 17 or newer: install a JRE, such as openjdk-17-jre-headless; or run $(BIN)/slidejoin demo --engine embedded"; exit 1; }
	$(BIN)/slidejoin demo

# In parts with budgets, in seconds on two cores with nothing else to do; a part that outgrows its budget moves
# something to test-long. `tools/part.sh report` tells how long each took.
PART := @tools/part.sh
test:
	$(PART) start
	$(PART) build 150 $(MAKE) --no-print-directory -j 2 setup peers browser
	$(PART) lint 10 $(MAKE) --no-print-directory lint
	$(PART) native 290 $(MAKE) --no-print-directory native-test
	$(PART) package 40 $(MAKE) --no-print-directory package-test
	$(PART) python 220 $(MAKE) --no-print-directory python-test
	$(PART) spark 230 $(MAKE) --no-print-directory spark-test
	$(PART) docs 45 $(MAKE) --no-print-directory docs
	$(PART) report

# All instruction sets, and 30 times as many random cases.
test-long:
	$(MAKE) LEVELS=0,1,2 -W CMakeLists.txt setup
	SLIDEJOIN_TESTS=long $(MAKE) LEVELS=0,1,2 test

python-test: setup browser
	$(PYTEST) --ignore-glob='tests/*spark*'

# For the tests of the live page, which are skipped where there is none.
browser:
	@tools/chromium.sh >/dev/null || true

spark-test: setup
	$(PYTEST) $(sort $(shell find tests -path '*spark*' -name 'test_*.py'))

# The Python and Spark suites in an environment of their own: of another Python (`make test-python
# PYTHON=python3.13`), and with the oldest NumPy and pyarrow that are supported.
test-python:
	$(MAKE) VENV=build/python-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])') EXTRAS=test python-test spark-test

test-floors:
	$(MAKE) VENV=build/floors EXTRAS="test floors" python-test spark-test

# The oldest Spark that is supported; .venv has the newest. Only pyspark is another one, which leaves sockets to
# the garbage collector and uses distutils.
test-spark-oldest: setup $(SPARK_OLDEST)/.installed
	PYTHONPATH="$(CURDIR)/$(SPARK_OLDEST)" $(BIN)/pytest -rs -n $(JOBS) -W ignore::ResourceWarning -W ignore::DeprecationWarning \
		-W ignore::pytest.PytestUnraisableExceptionWarning \
		$(addprefix tests/spark/test_,$(addsuffix .py,streaming types plans partition event_time))

# A client of Spark Connect, which needs packages that .venv has not.
test-spark-connect: setup $(SPARK_CONNECT)/.installed
	PYTHONPATH="$(CURDIR)/$(SPARK_CONNECT)" $(BIN)/pytest -rs -n 0 tests/spark/test_connect.py

# The Kafka recipe against a real broker, which Java runs from Maven's jars; Ivy comes with PySpark.
test-kafka: setup $(KAFKA)/.installed
	SLIDEJOIN_KAFKA="$(CURDIR)/$(KAFKA)" $(BIN)/pytest -rs -n 0 tests/recipes/test_kafka.py

$(KAFKA)/.installed: $(VENV)/.installed
	mkdir -p $(KAFKA)
	cd $(KAFKA) && java -jar $(CURDIR)/$(VENV)/lib/python3*/site-packages/pyspark/jars/ivy-*.jar -warn -cache ivy \
		-confs default -dependency org.apache.kafka kafka_2.13 3.9.1 -retrieve "jars/[artifact]-[revision].[ext]"
	rm -rf $(KAFKA)/ivy
	touch $@

$(SPARK_CONNECT)/.installed:
	$(PIP) --target $(SPARK_CONNECT) grpcio grpcio-status googleapis-common-protos zstandard
	touch $@

$(SPARK_OLDEST)/.installed:
	$(PIP) --no-deps --target $(SPARK_OLDEST) 'pyspark==3.5.*' 'py4j==0.10.9.7'
	touch $@

# -Og takes two thirds of the time of -O1 to compile; the tests run about as fast. SYMBOLS=-g1 makes
# AddressSanitizer and ThreadSanitizer name lines besides functions, for a tenth more time.
SYMBOLS ?= -g0
native-test: setup
	$(BIN)/cmake -S . -B build/sanitized $(CMAKE_FLAGS) -DSLIDEJOIN_TESTS=ON \
		-DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-Og $(SYMBOLS)" -DSLIDEJOIN_SANITIZE=address,undefined -DSLIDEJOIN_LEVELS=$(LEVELS) >/dev/null
	$(BIN)/cmake --build build/sanitized -j $(JOBS)
	$(BIN)/ctest --test-dir build/sanitized --output-on-failure -j $(JOBS)

# What a release publishes, into dist/: the sdist, and wheels with all instruction sets for two processors, built
# twice and compared, tried in clean environments. A Python from 3.12 on makes the wheels of the stable ABI. A quarter of an
# hour on two cores; `make package AGAIN= TARGETS=x86_64` takes a fifth of it.
PYTHON_AT = $(shell $(1) -c 'import sys; print(sys.executable)' 2>/dev/null)
PYTHONS ?= $(or $(call PYTHON_AT,python3.11),$(PYTHON)) $(firstword $(foreach minor,12 13 14,$(call PYTHON_AT,python3.$(minor))))
TARGETS ?= x86_64 aarch64
AGAIN ?= --again
RELEASE := build/release-tools
package: $(RELEASE)/.installed
	$(RELEASE)/bin/python tools/package.py $(addprefix --python ,$(PYTHONS)) $(addprefix --target ,$(TARGETS)) $(AGAIN)

# The short form: from the objects that are there, for this machine.
package-test: setup
	$(BIN)/python tools/package.py --here $(BUILD)

# Known faults of what users and developers install; asks a service in the network.
audit: $(RELEASE)/.installed
	$(RELEASE)/bin/python tools/dependencies.py --online

$(RELEASE)/.installed: pyproject.toml tools/requirements.py tools/constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(PYTHON) tools/requirements.py build release > $(RELEASE)/requirements.txt
	$(RELEASE)/bin/pip install -q --disable-pip-version-check -r $(RELEASE)/requirements.txt -c tools/constraints.txt
	touch $@

# The newest versions of all that developers and CI install, into tools/constraints.txt. Run `make test` after it.
pin:
	$(PYTHON) tools/pin.py

# Makes the mistakes of tests/mutants/mutants.toml, one at a time; a test must notice each. About half an
# hour the first time; then only what has changed.
mutants: setup
	$(BIN)/python tests/mutants/run.py -j $(JOBS) --write

# Looks for operations that an index gets wrong, starting from core/tests/corpus; what it finds is a file
# build/fuzz/crash-*. FUZZ_SECONDS is how long, FUZZ_LEVEL the instruction set (0, 1, 2).
FUZZ_CXX ?= clang++
FUZZ_LEVEL ?= 0
FUZZ_SECONDS ?= 60
fuzz: setup
	@command -v $(FUZZ_CXX) >/dev/null || { echo "make fuzz needs clang with libFuzzer: install clang and libclang-rt-dev"; exit 1; }
	mkdir -p build/fuzz/corpus
	$(BIN)/cmake -S . -B build/fuzz $(CMAKE_FLAGS) -DSLIDEJOIN_TESTS=ON -DCMAKE_CXX_COMPILER=$(FUZZ_CXX) -DCMAKE_BUILD_TYPE=None \
		-DCMAKE_CXX_FLAGS="-O1 -g" -DSLIDEJOIN_SANITIZE=fuzzer-no-link,address,undefined -DSLIDEJOIN_LEVELS=0,$(FUZZ_LEVEL) >/dev/null
	$(BIN)/cmake --build build/fuzz -j $(JOBS) --target fuzz_index
	build/fuzz/core/tests/fuzz_index -max_total_time=$(FUZZ_SECONDS) -max_len=512 -artifact_prefix=build/fuzz/ \
		build/fuzz/corpus core/tests/corpus

# The documentation site, into build/docs: warnings are errors, notebooks are executed, links and anchors checked.
docs: setup
	$(BIN)/python -m sphinx -q --fail-on-warning --keep-going -j $(JOBS) -d build/docs-cache docs build/docs
	$(BIN)/python tools/check_site.py build/docs

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	$(BIN)/python tests/lint_imports.py

stub: setup
	$(BIN)/python -m nanobind.stubgen -q -m slidejoin._core -o src/slidejoin/_core.pyi

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

# Into build/bench; `make bench BENCH=window RESULTS=benchmarks/results` replaces a figure that is kept.
BENCH ?= foundation window streams indexes claims join bucket parallel model spark
RESULTS ?= build/bench
bench: setup peers
	@mkdir -p $(RESULTS)
	for name in $(BENCH); do $(BIN)/python -m benchmarks $$name --json $(RESULTS)/$$name.json || exit 1; done

# The programs that measure other libraries, the shared index and what the model predicts, linked with the core of the Python module; without
# Abseil where it is missing.
peers: setup
	$(BIN)/cmake -B $(BUILD) -DSLIDEJOIN_PEERS=ON >/dev/null
	$(BIN)/cmake --build $(BUILD) -j $(JOBS) --target peers

setup: $(VENV)/.installed $(VENV)/.built

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "slidejoin needs Python 3.11 or newer: install python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "slidejoin needs Python 3.11 or newer; $$($(PYTHON) --version) is too old"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "slidejoin needs Python's venv module: install python3-venv"; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || { echo "slidejoin needs a C++20 compiler: install g++ or clang"; exit 1; }
	@echo "creating .venv and building slidejoin: about three minutes"
	$(PYTHON) -m venv $(VENV)
	touch $@

# What compiles the core comes first: with `make -j 2` the compiler runs while pip installs the rest.
# Developers have the pinned versions; test-python and test-floors what their Python and their floors allow.
PINS := $(if $(filter dev,$(EXTRAS)),-c tools/constraints.txt)
$(VENV)/.tools: $(VENV)/.created pyproject.toml tools/requirements.py tools/constraints.txt
	$(PYTHON) tools/requirements.py build > $(VENV)/tools.txt
	$(PYTHON) tools/requirements.py build $(EXTRAS) > $(VENV)/requirements.txt
	$(PIP) -r $(VENV)/tools.txt -c $(VENV)/requirements.txt $(PINS)
	touch $@

$(VENV)/.installed: $(VENV)/.tools
	$(PIP) -r $(VENV)/requirements.txt $(PINS)
	touch $@

# The package is installed in place: changes of Python files need no step, those of the core a rebuild.
$(MODULES): $(VENV)/.created
	rm -f $(VENV)/.modules-*
	touch $@

$(VENV)/.built: $(VENV)/.tools $(MODULES) $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation --no-deps \
		--config-settings=build-dir=$(BUILD) --config-settings=cmake.define.SLIDEJOIN_LEVELS=$(LEVELS) -e .
	touch $@

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
