# cairn: build, test and measure. `make` alone prints this list.

GO        ?= go
BIN       ?= bin/cairn
COUNT     ?= 1
BENCH     ?= .
BENCHPKGS ?= ./ring/... ./ingest/... ./tree/... ./engine/... ./perf/...
PROFILE   ?= ./perf/bench
FUZZTIME  ?= 30s
FUZZMEM   ?= 8000000
ARGS      ?=
ROUNDS    ?= 5
SOAK      ?= 1e8
SEED      ?=

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := usage
.PHONY: usage build demo test race bench profile perf perf-peers fuzz fuzz-long soak mutants lint interop

usage: ## print this list
	@echo 'usage: make TARGET [VARIABLE=value …]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-11s %s\n", $$1, $$2}'

build: ## build the static binary bin/cairn
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/cairn

demo: build ## run the main job: a simulated fleet, matched, hinted and checked for about a minute (ARGS=--json …)
	@$(BIN) demo $(ARGS)

test: ## run all tests
	$(GO) test -timeout 20m ./...

race: ## run all tests under the race detector
	$(GO) test -race -timeout 20m ./...

bench: ## run the benchmarks, ready for benchstat (COUNT=10, BENCH=regexp, BENCHPKGS=packages)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(BENCHPKGS)

profile: ## CPU and allocation profile of one package's benchmarks (PROFILE=./perf/bench, BENCH=regexp)
	@mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -o bin/profile.test -cpuprofile bin/cpu.prof -memprofile bin/mem.prof $(PROFILE)
	$(GO) tool pprof -top -nodecount 25 bin/profile.test bin/cpu.prof
	@echo 'more: $(GO) tool pprof -http 127.0.0.1:0 bin/profile.test bin/cpu.prof'

perf: ## the index and the map tree on the same corpora, taking turns: minutes (ROUNDS=5, ARGS='-shapes agent')
	$(GO) run ./perf/run -rounds $(ROUNDS) $(ARGS)

# Builds drivers in perf/peers first: cargo and the module proxy are wanted for
# them and for nothing else. What cannot be built is left out and named.
perf-peers: ## the same beside other people's indexes, on all shapes: an hour (ROUNDS=5, ARGS='-shapes agent')
	$(GO) run ./perf/run -contestants all -shapes all -rounds $(ROUNDS) $(ARGS)

# One native target at a time: the go command fuzzes one function per run.
# A process may have FUZZMEM KiB of addresses, where the system can bound it: an
# input that asks for all memory fails, and does not take the machine along.
# A run that finds nothing may end in "context deadline exceeded", where the go
# command is late to stop itself (golang/go#75804): that is no failure.
fuzz: ## run every fuzz target for FUZZTIME each, seeded from fuzz/corpus
	@set -e; ulimit -v $(FUZZMEM) 2>/dev/null || true; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	grep -rnoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed 's/:[0-9]*:func /:/' | sort | \
	while IFS=: read -r file target; do \
		echo "fuzz $$(dirname $$file) $$target"; \
		{ $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s "$$(dirname $$file)" </dev/null 2>&1 || echo "failed: $$target"; } | tee "$$log"; \
		if grep -q "^failed: " "$$log"; then \
			grep -q '^ *context deadline exceeded$$' "$$log" && ! grep -q 'Failing input\|panic: ' "$$log" || exit 1; \
		fi; \
	done

fuzz-long: ## the same, an hour each (FUZZTIME=8h …)
	@$(MAKE) --no-print-directory fuzz FUZZTIME=$(if $(filter command line,$(origin FUZZTIME)),$(FUZZTIME),1h)

# A failure prints the seed; SEED=… repeats its events. perf/soak/README.md has
# what the last long one did.
soak: ## write and query the index in every profile until SOAK blocks are written in each, or for SOAK=60s in all
	@mkdir -p bin
	CAIRN_SOAK=$(SOAK) CAIRN_SOAK_SEED=$(SEED) CAIRN_SOAK_REPORT=$(CURDIR)/bin $(GO) test -count 1 -timeout 0 -v -run '^TestSoak$$' ./tree
	@cat bin/soak.md

mutants: ## do one thing after another wrong in the index, and see that the test named for it fails
	CAIRN_MUTANTS=1 $(GO) test -count 1 -v -run '^TestMutantsAreCaught$$' ./tree

lint: ## gofmt, go vet and staticcheck (the last fetched by the go command at a pinned version)
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-clean:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

interop: ## a real msgspec + pyzmq publisher against cairn serve (needs CAIRN_INTEROP_PYTHON)
	@test -n "$$CAIRN_INTEROP_PYTHON" || { echo 'make interop: CAIRN_INTEROP_PYTHON is not set; want a Python with msgspec and pyzmq, such as CAIRN_INTEROP_PYTHON=/usr/bin/python3' >&2; exit 1; }
	$(GO) test -count 1 -run '^TestInterop' -v ./cmd/cairn/
