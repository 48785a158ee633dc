# Short names for the most common tasks. The work is done by CMakePresets.json and scripts/bootstrap.sh.
PRESET ?= $(if $(CI),ci,default)
# Only the vector kernels that this machine can run; the presets compile those of other processors, too.
CONFIGURE := cmake --preset $(PRESET) $(if $(CI),,-DFOLIO_KERNELS=native) --log-level=ERROR
RUN := runs/tinyshakespeare

.DEFAULT_GOAL := help
.PHONY: help book demo serve programs check wheel test test-all test-needs test-build full studies ranks long links smollm2 ladder cuda-lesson exercise sanitize tsan races fuzz neon soak interop cuda-all cuda-report format

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

# The seed of the README's sample: on a machine of the same kind, this prints the same output.
SAMPLE := -n 240 --seed 2011960282 "ROMEO:"

demo: ## install missing packages, build, train on TinyShakespeare, generate (minutes; the second time seconds)
	@test -e $(RUN)/model.gguf || echo 'make demo: 4 to 6 minutes on two cores; downloads up to 300 MB, uses 2 GB in build/ and runs/'
	@scripts/bootstrap.sh build
	@test -e build/build.ninja || $(CONFIGURE) -DFOLIO_KERNELS=widest -DFOLIO_TESTS=OFF
	@cmake --build build --target train generate
	@test -e $(RUN)/model.gguf || build/train tinyshakespeare $$(! test -e $(RUN)/checkpoints/last || echo --resume)
	@echo
	build/generate $(SAMPLE)
	@! test -e $(RUN)/summary.txt || { echo; cat $(RUN)/summary.txt; }
	@printf '\nNext:\n  %-44s %s\n  %-44s %s\n  %-44s %s\n' \
	  'build/generate "JULIET:"' 'another prompt' \
	  'make serve' 'a web page and an API for the model' \
	  'build/train tinyshakespeare --preset race' 'Muon and larger batches: a loss of 1.48 in 2 minutes'

serve: ## build the server and start it with the newest run
	@scripts/bootstrap.sh build
	@test -e build/build.ninja || $(CONFIGURE)
	@cmake --build build --target serve
	@build/serve

programs: ## build all programs: train, generate, chat, serve, perplexity, tokenize, explain, inspect, export, verify, bench
	@scripts/bootstrap.sh build
	@cmake --preset $(PRESET) --log-level=ERROR
	@cmake --build --preset $(PRESET) --target programs

wheel: ## build the Python package as a wheel in build/wheelhouse/, and install it in build/venv-wheel (minutes)
	@scripts/bootstrap.sh test
	@scripts/wheel.sh

CORPUS := build/venv/bin/python scripts/get_tinyshakespeare.py
SMOLLM2 := build/venv/bin/python scripts/get_smollm2.py

check: ## after an edit of a module: test shapes, RoPE, gradients, and the engine against the modules (a minute)
	@scripts/bootstrap.sh test-build
	@$(CONFIGURE)
	@cmake --build build --target test_modules test_parity
	@ctest --test-dir build --output-on-failure -j 2 -R '^(modules|parity)$$'

test: ## build all programs and run each layer's tests (minutes)
	@scripts/bootstrap.sh test-build
	@$(CONFIGURE)
	@trap 'kill 0' INT; scripts/bootstrap.sh test & installing=$$!; \
	  cmake --build --preset $(PRESET); built=$$?; \
	  wait $$installing && exit $$built
	@$(CORPUS)
	@$(SMOLLM2)
	@ctest --preset $(PRESET)

test-all: ## run test, book, full, ranks, studies, sanitize and cuda-report
	@for goal in test book full ranks studies sanitize cuda-report; do $(MAKE) --no-print-directory $$goal || exit 1; done

# Packages and data of the tests; test-build is the configured build folder, too.
test-needs:
	@scripts/bootstrap.sh test
	@$(CORPUS)
	@$(SMOLLM2)

test-build: test-needs
	@$(CONFIGURE)

full: test-build ## run the tests that make test leaves out: the emulated GPU, the page, Python, tokenizers, bad files, signals (minutes)
	@cmake --build --preset $(PRESET) --target all full
	@ctest --preset full

studies: test-build ## run short forms of experiments/, with a table of results, and the exercises' tests on solutions and mistakes
	@cmake --build --preset $(PRESET) --target all studies
	@ctest --preset studies
	@scripts/ladder.py --results build/experiments/short

ranks: test-build ## test training and serving in several processes: every mesh of up to eight ranks, kills, bytes sent (minutes)
	@cmake --build --preset $(PRESET) --target all ranks
	@ctest --preset ranks

long: test-build ## run tests that make test shortens at full length, and the engine's on a CPU and an emulated GPU together (minutes)
	@cmake --build --preset $(PRESET) --target all full ranks
	@ctest --preset long

ANY_SMOLLM2 := $(firstword $(wildcard build/venv/bin/python) python3) scripts/get_smollm2.py

smollm2: ## download a published Llama, SmolLM2-135M-Instruct (98 MB), into data/smollm2/
	@$(ANY_SMOLLM2)

ladder: ## run all studies of experiments/ and print one table of their results (SHORT=1: reduced, minutes)
	@scripts/bootstrap.sh build
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target experiments $(if $(SHORT),,train)
	@test -n "$(SHORT)" -o -e $(RUN)/model.gguf || build/train tinyshakespeare  # the engine's studies use it
	@scripts/ladder.py $(if $(SHORT),--short)

cuda-lesson: ## run experiments/33_cuda, a lesson on CUDA kernels with counts instead of times, and its tests (2 minutes)
	@scripts/bootstrap.sh serving
	@cmake --preset serving -DFOLIO_KERNELS=native --log-level=ERROR
	@cmake --build --preset serving --target 33_cuda test_cuda_lesson test_cuda_counts
	@build-serving/tests/test_cuda_counts --gtest_brief=1
	@build-serving/tests/test_cuda_lesson --gtest_brief=1
	@build-serving/experiments/33_cuda

book: ## build the ladder and the documentation as a site to read offline, build/book/index.html (half a minute)
	@scripts/bootstrap.sh book
	@rm -rf build/book
	@build/venv-book/bin/python -m sphinx -q -W --keep-going -E -d build/book-doctrees -c scripts/book . build/book

links: ## check the links of the book to other sites, for which it needs a network
	@scripts/bootstrap.sh book
	@build/venv-book/bin/python -m sphinx -q -b linkcheck -d build/book-links/doctrees -c scripts/book . build/book-links

exercise: ## list the exercises; N=1 (a number or a name) checks your code in one of them, HINT=1 prints a hint
	@scripts/exercise.py $(N) $(if $(HINT),--hint $(HINT))

sanitize: test-needs ## test the serving half under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset sanitize --log-level=ERROR
	@cmake --build --preset sanitize --target all full
	@ctest --preset sanitize

tsan: ## test the thread pool, the asynchronous engine, shards and the server under ThreadSanitizer
	@scripts/bootstrap.sh test
	@cmake --preset tsan --log-level=ERROR
	@cmake --build --preset tsan --target test_threads serve generate chat
	@TSAN_OPTIONS=suppressions=tests/infer/tsan.supp build-tsan/tests/test_threads
	@FOLIO_BUILD_DIR="$(CURDIR)/build-tsan" PYTHONPYCACHEPREFIX="$(CURDIR)/build/pycache" build/venv/bin/python -m pytest -q -p no:cacheprovider \
	  tests/infer/server/http_test.py tests/infer/server/load_test.py

races: ## test the GPU kernels under the emulator's race detector (minutes)
	@scripts/bootstrap.sh test
	@cmake --preset races --log-level=ERROR
	@cmake --build --preset races --target test_cuda_races test_cuda_kernels_races
	@build-races/tests/test_cuda_races
	@build-races/tests/test_cuda_kernels_races

RUNS ?= 1000000

fuzz: ## fuzz each reader with RUNS=1000000 inputs under libFuzzer, with clang (hours; TARGETS="gguf json" selects some)
	@scripts/bootstrap.sh fuzz
	@$(CORPUS)
	@cmake --preset fuzz --log-level=ERROR -DCMAKE_CXX_COMPILER=$$(scripts/clang.sh)
	@cmake --build --preset fuzz --target all full
	@ctest --preset fuzz
	@tests/fuzz/run.sh build-fuzz $(RUNS) $(TARGETS)

neon: ## cross-compile the serving half for 64-bit Arm, run its tests in QEMU, compare outputs with this machine's (minutes)
	@scripts/bootstrap.sh neon
	@cmake --preset neon --log-level=ERROR
	@cmake --build --preset neon --target programs test_core test_data test_infer test_threads
	@cmake --preset serving --log-level=ERROR
	@cmake --build --preset serving --target generate export inspect
	@$(ANY_SMOLLM2)
	@tests/neon/run.sh build-neon build-serving

soak: ## send a server 100,000 requests (N=…) and compare each output (minutes)
	@scripts/bootstrap.sh test
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target serve generate
	@FOLIO_SOAK=$(or $(N),100000) FOLIO_BUILD_DIR="$(CURDIR)/build" PYTHONPYCACHEPREFIX="$(CURDIR)/build/pycache" build/venv/bin/python -m pytest -q -s \
	  -p no:cacheprovider tests/infer/server/load_test.py 2>/dev/null

SERVER ?= yes

interop: ## test with other programs: llama.cpp and, unless SERVER=no, its server; client libraries; Ray Serve
	@scripts/bootstrap.sh $(if $(filter no,$(SERVER)),interop-library,interop)
	@$(CORPUS)
	@$(SMOLLM2)
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target train generate export inspect chat perplexity serve chat_template_tool format_tool form_tool folio_python
	@ctest --test-dir build -C interop -L interop $(if $(filter no,$(SERVER)),-E 'interop_(serve|forms)$$') --output-on-failure

cuda-all: ## build the serving programs with kernels for all GPUs from Ampere to Hopper into build-cuda/
	@scripts/bootstrap.sh build
	@cmake --preset cuda-all --log-level=ERROR
	@cmake --build --preset cuda-all --target programs

cuda-report: ## compare nvcc's report of each kernel (registers, shared memory, spills) with infer/cuda/resources.txt
	@scripts/cuda_report.py

format: ## format all sources with clang-format
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format -i
