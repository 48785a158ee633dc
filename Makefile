# The short names for what a newcomer does. Everything is in CMakePresets.json and scripts/bootstrap.sh.
PRESET ?= $(if $(CI),ci,default)
# Without the vector kernels of other processors, which the presets by themselves compile, too.
CONFIGURE := cmake --preset $(PRESET) $(if $(CI),,-DFOLIO_KERNELS=native) --log-level=ERROR
RUN := runs/tinyshakespeare

.DEFAULT_GOAL := help
.PHONY: help demo serve programs check wheel test test-all full studies ranks long smollm2 ladder exercise sanitize tsan races fuzz neon soak interop cuda-all cuda-report format

help: ## show these lines
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

# The seed is the README's: on the machine that trained the model, this line prints the same text again.
SAMPLE := -n 240 --seed 2011960282 "ROMEO:"

demo: ## install what is missing, build, train on TinyShakespeare, generate (minutes; the second time seconds)
	@test -e $(RUN)/model.gguf || echo 'make demo: 4 to 6 minutes on two cores; downloads up to 300 MB, uses 2 GB in build/ and runs/'
	@scripts/bootstrap.sh build
	@test -e build/build.ninja || $(CONFIGURE) -DFOLIO_KERNELS=widest -DFOLIO_TESTS=OFF
	@cmake --build build --target train generate
	@test -e $(RUN)/model.gguf || build/train tinyshakespeare $$(! test -e $(RUN)/checkpoints/last || echo --resume)
	@echo
	build/generate $(SAMPLE)
	@! test -e $(RUN)/summary.txt || { echo; cat $(RUN)/summary.txt; }
	@printf '\nNext:\n  %-44s %s\n  %-44s %s\n  %-44s %s\n' \
	  'build/generate "JULIET:"' 'another text' \
	  'make serve' 'a page to write with the model, and an API' \
	  'build/train tinyshakespeare --preset race' 'Muon and larger batches: a loss of 1.48 in 2 minutes'

serve: ## build the server and start it with the newest run
	@scripts/bootstrap.sh build
	@test -e build/build.ninja || $(CONFIGURE)
	@cmake --build build --target serve
	@build/serve

programs: ## build all programs: train, generate, chat, serve, perplexity, inspect, export, verify, bench
	@scripts/bootstrap.sh build
	@cmake --preset $(PRESET) --log-level=ERROR
	@cmake --build --preset $(PRESET) --target programs

wheel: ## the Python package as a wheel, in build/wheelhouse/, and build/venv-wheel with it (minutes)
	@scripts/bootstrap.sh test
	@scripts/wheel.sh

CORPUS := build/venv/bin/python scripts/get_tinyshakespeare.py
SMOLLM2 := build/venv/bin/python scripts/get_smollm2.py

check: ## after an edit of a module: shapes, RoPE, gradients, and the engine against the modules (a minute)
	@scripts/bootstrap.sh test-build
	@$(CONFIGURE)
	@cmake --build build --target test_modules test_parity
	@ctest --test-dir build --output-on-failure -j 2 -R '^(modules|parity)$$'

test: ## build all programs and run each layer's tests (minutes)
	@scripts/bootstrap.sh test-build
	@$(CONFIGURE)
	@scripts/bootstrap.sh test & installing=$$!; \
	  cmake --build --preset $(PRESET); built=$$?; \
	  wait $$installing && exit $$built
	@$(CORPUS)
	@$(SMOLLM2)
	@ctest --preset $(PRESET)

test-all: ## make test, and the rest: full, ranks, studies, sanitize, cuda-report
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory full
	@$(MAKE) --no-print-directory ranks
	@$(MAKE) --no-print-directory studies
	@$(MAKE) --no-print-directory sanitize
	@$(MAKE) --no-print-directory cuda-report

full: ## the tests that make test leaves out: the emulated GPU, replayed fuzz findings, long runs (minutes)
	@scripts/bootstrap.sh test
	@$(CORPUS)
	@$(SMOLLM2)
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target all full
	@ctest --preset full

studies: ## short forms of experiments/ with a table of their results, and the exercises' tests on solutions and mistakes
	@scripts/bootstrap.sh test
	@$(CORPUS)
	@$(SMOLLM2)
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target all studies
	@ctest --preset studies
	@scripts/ladder.py --results build/experiments/short

ranks: ## training and serving as several processes: every mesh of up to eight ranks, kills, what is sent (minutes)
	@scripts/bootstrap.sh test
	@$(CORPUS)
	@$(SMOLLM2)
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target all ranks
	@ctest --preset ranks

long: ## what make test runs in a shorter form, at its full length, and the engine's properties on half a GPU (minutes)
	@scripts/bootstrap.sh test
	@$(CORPUS)
	@$(SMOLLM2)
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target all full
	@ctest --preset long

ANY_SMOLLM2 := $(firstword $(wildcard build/venv/bin/python) python3) scripts/get_smollm2.py

smollm2: ## fetch a published Llama, SmolLM2-135M-Instruct (98 MB), into data/smollm2/
	@$(ANY_SMOLLM2)

ladder: ## run all studies of experiments/ and print one table of their results (SHORT=1: reduced, minutes)
	@scripts/bootstrap.sh build
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target experiments $(if $(SHORT),,train)
	@test -n "$(SHORT)" -o -e $(RUN)/model.gguf || build/train tinyshakespeare  # the engine's studies look at it
	@scripts/ladder.py $(if $(SHORT),--short)

exercise: ## the list of exercises; N=1 (a number or a name) checks your code in one of them, HINT=1 helps
	@scripts/exercise.py $(N) $(if $(HINT),--hint $(HINT))

sanitize: ## the serving half and its tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/bootstrap.sh test
	@$(CORPUS)
	@$(SMOLLM2)
	@cmake --preset sanitize --log-level=ERROR
	@cmake --build --preset sanitize --target all full
	@ctest --preset sanitize

tsan: ## the thread pool, the asynchronous engine, shards and the server under ThreadSanitizer
	@scripts/bootstrap.sh test
	@cmake --preset tsan --log-level=ERROR
	@cmake --build --preset tsan --target test_threads serve generate chat
	@TSAN_OPTIONS=suppressions=tests/infer/tsan.supp build-tsan/tests/test_threads
	@FOLIO_BUILD_DIR=$(CURDIR)/build-tsan PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache build/venv/bin/python -m pytest -q -p no:cacheprovider \
	  tests/infer/server/http_test.py tests/infer/server/load_test.py

races: ## the GPU's kernels on the emulator, which sees each access and finds races (minutes)
	@scripts/bootstrap.sh test
	@cmake --preset races --log-level=ERROR
	@cmake --build --preset races --target test_cuda_races test_cuda_kernels_races
	@build-races/tests/test_cuda_races
	@build-races/tests/test_cuda_kernels_races

RUNS ?= 1000000

fuzz: ## RUNS=1000000 inputs for each file reader under libFuzzer, with clang (hours; TARGETS="gguf json" names some)
	@scripts/bootstrap.sh fuzz
	@$(CORPUS)
	@cmake --preset fuzz --log-level=ERROR -DCMAKE_CXX_COMPILER=$$(scripts/clang.sh)
	@cmake --build --preset fuzz --target all full
	@ctest --preset fuzz
	@tests/fuzz/run.sh build-fuzz $(RUNS) $(TARGETS)

neon: ## the serving half for 64-bit Arm, cross-compiled; its tests and its texts in QEMU, against this machine's (minutes)
	@scripts/bootstrap.sh neon
	@cmake --preset neon --log-level=ERROR
	@cmake --build --preset neon --target programs test_core test_data test_infer test_threads
	@cmake --preset serving --log-level=ERROR
	@cmake --build --preset serving --target generate export inspect
	@$(ANY_SMOLLM2)
	@tests/neon/run.sh build-neon build-serving

soak: ## 100,000 requests to a server, each text compared (minutes; N=… for another number)
	@scripts/bootstrap.sh test
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target serve generate
	@FOLIO_SOAK=$(or $(N),100000) FOLIO_BUILD_DIR=$(CURDIR)/build PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache build/venv/bin/python -m pytest -q -s \
	  -p no:cacheprovider tests/infer/server/load_test.py 2>/dev/null

SERVER ?= yes

interop: ## the tests that build and drive other engines: llama.cpp and, unless SERVER=no, its server
	@scripts/bootstrap.sh $(if $(filter no,$(SERVER)),interop-library,interop)
	@$(CORPUS)
	@$(SMOLLM2)
	@$(CONFIGURE)
	@cmake --build --preset $(PRESET) --target train generate export inspect chat perplexity serve format_tool form_tool folio_python
	@ctest --test-dir build -C interop -L interop $(if $(filter no,$(SERVER)),-E 'interop_(serve|forms)$$') --output-on-failure

cuda-all: ## the serving programs with kernels for GPUs from Ampere to Hopper, whichever is here, into build-cuda/
	@scripts/bootstrap.sh build
	@cmake --preset cuda-all --log-level=ERROR
	@cmake --build --preset cuda-all --target programs

cuda-report: ## what nvcc says of each kernel (registers, shared memory, spills), against what is checked in
	@scripts/cuda_bounds.py --check
	@scripts/cuda_report.py

format: ## lay out all sources with clang-format
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format -i
