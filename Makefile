# See https://tech.davis-hansson.com/p/make/
SHELL := bash
.DELETE_ON_ERROR:
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --warn-undefined-variables
MAKEFLAGS += --no-builtin-rules
MAKEFLAGS += --no-print-directory

GO ?= go
BIN := $(CURDIR)/.tmp/bin

# Tools are pinned, and built from source into .tmp. The version is in the name of
# the file, so that a new one is built when, and only when, it changes here.
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)

# Buf and the plugins of protoc are pinned in a separate module.
BUF := GOWORK=off $(GO) tool -modfile=tools/go.mod buf
BUF_CONFIG := --config tools/buf.yaml

GOVULNCHECK_VERSION := v1.9.0
GOVULNCHECK := $(BIN)/govulncheck-$(GOVULNCHECK_VERSION)

# All modules: those of go.work, and tools, whose versions are for nobody else.
MODULES := $(patsubst ./%,%,$(shell sed -n 's/^\t//p' go.work)) tools
modules = GOWORK=off $(GO) run -C tools ./modules

# The modules that users fetch.
LIBRARIES := $(filter-out examples test test/% tools,$(MODULES))

# The newest Go. The oldest that is supported is in every go.mod.
NEWEST_GO := go1.27.4

# Packages that are tested at the same time. Integration packages run their
# own servers, up to six each, so more does not help and makes timing tests tight.
TEST_PARALLEL ?= 2
TEST_FLAGS ?=
FUZZTIME ?= 30s
BENCH ?= .

# each_module runs a command in the folder of every module; in_modules, in those of a list.
each_module = $(call in_modules,$(MODULES),$(1))
in_modules = for module in $(1); do echo "== $$module:" '$(2)'; \
	(cd "$$module"; if [[ $$module == tools ]]; then export GOWORK=off; fi; $(2)); done

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z/-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "}; {printf "  %-16s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Run the seckill service and a load against it, and check the result
	$(GO) run ./examples/seckill demo

.PHONY: serve
serve: ## Run the seckill service until Ctrl-C
	$(GO) run ./examples/seckill serve

# The tests on servers mostly wait, so the others run at the same time. lint has vetted them.
.PHONY: test
test: servers ## Install missing servers, then run all tests with the race detector
	@REDLATCH_REQUIRE_SERVERS=1 $(MAKE) --jobs=2 integration unit

.PHONY: test/check
test/check: servers ## The same, and then against a real Redisson and in a real browser
	@REDLATCH_REQUIRE_SERVERS=1 $(MAKE) --jobs=2 integration-and-interop unit-and-browser

.PHONY: integration-and-interop
integration-and-interop: integration
	@$(MAKE) interop/check

.PHONY: unit-and-browser
unit-and-browser: unit
	@$(MAKE) browser/check

.PHONY: test-acl
test-acl: servers ## Run the tests on real servers as a user of Redis that may do no more than docs/security.md says
	@REDLATCH_REQUIRE_SERVERS=1 REDLATCH_TEST_ACL=$(CURDIR)/docs/security.md $(MAKE) integration

.PHONY: integration
integration: ## Run the tests on real servers; those whose server is missing are skipped
	$(GO) test -race -vet=off -shuffle=on -timeout 30m -parallel 6 $(TEST_FLAGS) ./test/integration

# The packages of a module, without the tests on real servers.
units = $$($(GO) list ./... | grep -v /test/integration)

.PHONY: unit
unit: ## Run all other tests
	@$(call each_module,$(GO) test -race -vet=off -shuffle=on -timeout 20m -parallel 6 -p $(TEST_PARALLEL) $(TEST_FLAGS) $(units))

# How often each test of test-faults and bugs runs in a row, and how often recovery
# measures each outage.
COUNT ?= 1
RUNS ?= 50

# named_tests runs the tests that a file names.
named_tests = REDLATCH_REQUIRE_SERVERS=1 scripts/test-named.sh $(1) -count=$(COUNT) -parallel 4 -p $(TEST_PARALLEL) -timeout 24h $(TEST_FLAGS)

.PHONY: test-faults
test-faults: servers ## Every test that test/guarantees.yaml names, each COUNT (1) times
	@$(call named_tests,test/guarantees.yaml)

.PHONY: bugs
bugs: servers ## Every test that docs/bugs-of-peers.md names: bugs that other locks have shipped
	@$(call named_tests,docs/bugs-of-peers.md)

.PHONY: recovery
recovery: servers ## Lose Redis RUNS (50) times in each way, and print how long no lock was granted
	@REDLATCH_REQUIRE_SERVERS=1 REDLATCH_RECOVERY_RUNS=$(RUNS) $(GO) test -count=1 -timeout 24h -v \
		-run '^(TestRecovery|TestCancelledAtEveryPointAnAcquisitionLeavesNothing)$$' $(TEST_FLAGS) ./test/integration \
		| grep --line-buffered -E 'runs [0-9]+, p50|^(=== RUN +Test[A-Za-z]+(/[^/]+)?$$|---|FAIL|ok|PASS)'

# How often leaders change in the target leaders.
CHANGES ?= 200

.PHONY: viewers
viewers: servers ## What 64 viewers of a sale leave of the orders of another, in five interleaved rounds on SQLite and PostgreSQL
	@REDLATCH_REQUIRE_SERVERS=1 REDLATCH_VIEWERS=1 $(GO) test -count=1 -v -run '^TestWatchingASaleDoesNotSlowAnother$$' $(TEST_FLAGS) ./test/integration \
		| grep --line-buffered -E 'round|ratios|want 0.9|^ *---|^(FAIL|ok)'

.PHONY: leaders
leaders: servers ## End leaders CHANGES (200) times in each way, and print how long nobody led
	@REDLATCH_REQUIRE_SERVERS=1 REDLATCH_LEADER_CHANGES=$(CHANGES) $(GO) test -count=1 -timeout 24h -v \
		-run '^TestLeadersChangeAndNoTermsOverlapAtAFencedResource$$' $(TEST_FLAGS) ./test/integration \
		| grep --line-buffered -E 'nobody led|terms,|^(---|FAIL|ok|PASS)|lost'

# How many locks are granted in the target migrate.
GRANTS ?= 100000

.PHONY: migrate
migrate: servers .tmp/node/installed ## Replace fleets of other libraries by redlatch, process by process, in GRANTS (100000) grants
	NODE_PATH=$(CURDIR)/.tmp/node/node_modules $(GO) test -count=1 -v -run ExcludeEachOther ./test/migrate | grep -E '^(FAIL|ok|PASS)|---|SKIPPED'
	NODE_PATH=$(CURDIR)/.tmp/node/node_modules $(GO) run ./test/migrate -grants $(GRANTS)

# Without npm, or without its registry, migrate says what it leaves out.
.tmp/node/installed: test/migrate/node/package.json test/migrate/node/package-lock.json
	@mkdir -p $(@D) && cp $^ $(@D)
	@if npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund; then touch $@; fi

.PHONY: test-databases
test-databases: servers ## The suite of stores on each database, also under other settings than usual
	@cd test && REDLATCH_REQUIRE_SERVERS=1 REDLATCH_DATABASE_SETTINGS=1 $(GO) test -race -count=1 -timeout 30m $(TEST_FLAGS) ./sqlstore

.PHONY: test-servers
test-servers: ## What depends on the server, on each of scripts/test-servers.sh --list; writes docs/servers.md
	@GO='$(GO)' nice -n 10 scripts/test-servers.sh

.PHONY: servers
servers: ## Install redis, mariadb and postgres if they are missing
	@scripts/install-servers.sh

.PHONY: java
java: ## Install a JDK and Maven if they are missing
	@scripts/install-java.sh

.PHONY: test-interop
test-interop: servers java ## Install a missing JDK and Maven, then test against a real Redisson
	@REDLATCH_REQUIRE_SERVERS=1 REDLATCH_INTEROP=1 $(GO) test -race -count=1 -parallel 14 -timeout 20m $(TEST_FLAGS) ./test/interop

.PHONY: interop/check
interop/check: ## Test against a real Redisson, if a JDK and Maven are there
	@if scripts/install-java.sh --check; then $(MAKE) test-interop; else \
		echo; echo "*** SKIPPED, NOT TESTED: Redisson, as there is no JDK 17 with Maven; run make test-interop ***"; echo; fi

.PHONY: chromium
chromium: ## Install Chromium if it is missing
	@scripts/install-chromium.sh

.PHONY: test-browser
test-browser: chromium .tmp/axe/installed ## Install a missing Chromium, then test the sale's page and the console in it
	@cd test/browser && REDLATCH_AXE=$(wildcard $(CURDIR)/.tmp/axe/node_modules/axe-core/axe.min.js) REDLATCH_REQUIRE_SERVERS=1 REDLATCH_BROWSER=1 $(GO) test -race -count=1 -timeout 10m $(TEST_FLAGS) .

# Without npm, or without its registry, the test that needs it says that it is skipped.
.tmp/axe/installed: test/browser/node/package.json test/browser/node/package-lock.json
	@mkdir -p $(@D) && cp $^ $(@D)
	@if npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund; then touch $@; fi

.PHONY: browser/check
browser/check: ## Test the sale's page in a browser, if there is one
	@if scripts/install-chromium.sh --check; then $(MAKE) test-browser; else \
		echo; echo "*** SKIPPED, NOT TESTED: the sale's page, as there is no Chromium; run make test-browser ***"; echo; fi

.PHONY: page-pictures
page-pictures: chromium ## Draw the pictures and the film of the sale's page and of the console in docs/pictures; a font with Chinese must be there
	@cd test/browser && REDLATCH_REQUIRE_SERVERS=1 REDLATCH_BROWSER=1 REDLATCH_PAGE_PICTURES=$(CURDIR)/docs/pictures $(GO) test -count=1 -run '^TestPictures' -v .

# The report of the last run. Those of runs in which all was well are small.
CHAOS_REPORT ?= $(CURDIR)/.tmp/chaos
DURATION ?= 30m
SEED ?= 1
TOPOLOGY ?= standalone

.PHONY: chaos
chaos: servers ## Locks under faults for a minute, judged by what their users saw
	@rm -rf $(CHAOS_REPORT)
	$(GO) run ./test/chaos --seed $(SEED) --duration 60s --report $(CHAOS_REPORT)

.PHONY: chaos-long
chaos-long: servers ## The same for DURATION (30m) on a TOPOLOGY (standalone), with a new seed every minute
	@rm -rf $(CHAOS_REPORT)-$(TOPOLOGY)
	$(GO) run ./test/chaos --seed $(SEED) --duration $(DURATION) --topology $(TOPOLOGY) --report $(CHAOS_REPORT)-$(TOPOLOGY)

.PHONY: chaos-controls
chaos-controls: servers ## Plant bugs, and check that the checkers find them
	$(GO) run ./test/chaos controls --seed $(SEED)

# How long the simulator runs, what it starts with, and what a replay has.
MINUTES ?= 60
FEATURES ?=
SIM = cd test/sim && $(GO) test -count=1 -timeout 24h -run '^TestSimulation$$' .
sim_report = | grep --line-buffered -vE '^ *(=== |--- PASS|PASS)'

.PHONY: sim
sim: ## Play the kept worlds, and simulate fleets under faults for a minute, in virtual time; SEED (1) is the first seed
	@cd test/sim && $(GO) test -count=1 -run '^TestKeptSeeds$$' .
	@$(SIM) -v -minutes 1 -seed $(SEED) -shrink $(sim_report)

.PHONY: sim-long
sim-long: ## The same for MINUTES (60)
	@$(SIM) -v -minutes $(MINUTES) -seed $(SEED) -shrink $(sim_report)

.PHONY: sim-controls
sim-controls: ## Plant bugs in the simulator, and check that its judges find each within two minutes
	@cd test/sim && $(GO) test -count=1 -timeout 30m -run '^TestControls$$' . -v -controls -seed $(SEED) | grep -E 'found|^(---|ok|FAIL|PASS)'

.PHONY: sim-replay
sim-replay: ## Simulate one SEED with FEATURES ten times: the runtime does not repeat itself exactly
	@cd test/sim && $(GO) test -count=10 -run '^TestSimulation$$' . -v -seed $(SEED) -seeds 1 -only '$(FEATURES)' $(sim_report)

# EXPLORE_FLAGS such as -scope 'fair|two wait', -audit 50 or -most 100000.
EXPLORE_FLAGS ?=
EXPLORE = cd core/lock/internal/machine && $(GO) test -count=1 -timeout 24h

.PHONY: explore
explore: ## Run every interleaving of the engine's key machine in small scopes, for about a minute; docs/explorer.md
	@$(EXPLORE) -run '^TestExplore$$|^TestTraces$$' . -explore $(EXPLORE_FLAGS)
	@$(EXPLORE) -run '^TestExplore$$' . -explore -audit 20 -most 4000

.PHONY: explore-long
explore-long: ## The same with larger scopes, one after the other, in up to an hour; needs 13 GB
	@GOGC=50 $(EXPLORE) -run '^TestExplore$$' -parallel 1 . -explore -long -v $(EXPLORE_FLAGS) | grep --line-buffered -vE '^=== '

.PHONY: explore-controls
explore-controls: ## Plant bugs in the key machine, and check that the explorer finds each
	@$(EXPLORE) -run '^TestControls$$' . -controls -v $(EXPLORE_FLAGS) | grep --line-buffered -E 'moves|not find|^ *--- FAIL|^(ok|FAIL)'

.PHONY: explore-docs
explore-docs: ## Write the tables of scopes and transitions anew
	@$(EXPLORE) -run '^TestExplore$$' . -explore -update -report $(CURDIR)/docs/explorer.md

# Chaos mostly waits, and the simulator computes.
.PHONY: chaos-and-sim
chaos-and-sim: ## chaos and sim at the same time
	@$(MAKE) --jobs=2 chaos sim

.PHONY: controls
controls: ## Plant all bugs of chaos, the simulator and the explorer, each of which must be found
	@$(MAKE) --jobs=2 chaos-controls computed-controls

.PHONY: computed-controls
computed-controls: explore-controls
	@$(MAKE) sim-controls

CHECKS := lint layers narrow generate/check tidy/check modules/check vuln/check test/check demo \
	chaos-and-sim explore controls

.PHONY: check
check: ## Everything that CI runs, and the seconds that each part of it took
	@for target in $(CHECKS); do began=$$SECONDS; $(MAKE) $$target; \
		took+=$$(printf '\n%6d s  %s' $$((SECONDS - began)) $$target); done; \
	printf '%s\n%6d s  in all\n' "$$took" $$SECONDS

.PHONY: lint
lint: $(GOLANGCI) proto/lint ## Check format and style
	@$(GOLANGCI) config verify
	@$(GOLANGCI) fmt --diff
	@$(call each_module,$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...)

.PHONY: proto/lint
proto/lint: ## Check format and style of the .proto files
	@$(BUF) lint $(BUF_CONFIG)
	@$(BUF) format $(BUF_CONFIG) --diff --exit-code

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all code
	$(GOLANGCI) fmt
	$(BUF) format $(BUF_CONFIG) --write

.PHONY: layers
layers: ## Check that imports only go down, and that users inherit no more than is written down
	$(GO) test -count=1 -run '^(TestLayers|TestModules)' ./test/house

.PHONY: narrow
narrow: ## Check that what users fetch compiles, with its tests, where an int has 32 bits
	@$(call in_modules,$(LIBRARIES),GOARCH=386 CGO_ENABLED=0 $(GO) vet ./...)

.PHONY: generate
generate: ## Run all code generators
	@$(call each_module,$(GO) generate ./...)

.PHONY: generate/check
generate/check: ## Check that generated code is what the generators write
	@scripts/check-generated.sh $(MAKE) generate
	@$(GO) build -o $(BIN)/lockgen ./annotations/cmd/lockgen
	@$(call each_module,$(BIN)/lockgen -check ./...)

.PHONY: tidy
tidy: ## Tidy the go.mod files
	@$(modules) tidy

.PHONY: tidy/check
tidy/check: ## Check that the go.mod files are tidy
	@$(modules) tidy -check

.PHONY: fetch/check
fetch/check: ## Fetch each module that users fetch, alone, from a proxy made of the work tree; build, install and test it
	@$(modules) fetch

# The tests of both mostly wait.
.PHONY: modules/check
modules/check: ## fetch/check and go/check at the same time
	@$(MAKE) --jobs=2 fetch/check go/check

# The version that version sets, and release/check looks at.
VERSION ?=

.PHONY: version
version: ## Let the modules require each other in VERSION (such as v0.1.0)
	@$(modules) version '$(VERSION)'

.PHONY: release/check
release/check: ## List the tags of VERSION (such as v0.1.0), in their order, if it can be tagged
	@$(modules) release '$(VERSION)'

.PHONY: go/check
go/check: ## Build and test the library on the newest Go, if it can be had
	@if GOTOOLCHAIN=$(NEWEST_GO) $(GO) version; then \
		GOTOOLCHAIN=$(NEWEST_GO) GOWORK=off $(GO) build ./... && \
		GOTOOLCHAIN=$(NEWEST_GO) GOWORK=off $(GO) test -short -count=1 -vet=off -p 4 ./...; else \
		echo; echo "*** SKIPPED, NOT TESTED: $(NEWEST_GO), which can't be had here ***"; echo; fi

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: microbench
microbench: servers ## Run the benchmarks of Go whose name matches BENCH (all)
	@$(call each_module,$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -p 1 ./...)

# ROUNDS of measurements (0: as many as usual); BENCH_FLAGS such as --quick or --only=R1,R6.
ROUNDS ?= 0
BENCH_FLAGS ?=
BENCH_DIR ?= $(CURDIR)/.tmp/bench
RUN_BENCH = $(GO) run ./test/bench

.PHONY: bench
bench: servers ## Compare redlatch with other lock libraries: tables, a CSV file and charts in .tmp/bench
	$(RUN_BENCH) run --rounds=$(ROUNDS) --dir=$(BENCH_DIR) $(BENCH_FLAGS)

.PHONY: bench-check
bench-check: servers ## The same, and fail where a requirement is missed
	$(RUN_BENCH) check --rounds=$(ROUNDS) --dir=$(BENCH_DIR) $(BENCH_FLAGS)

DATABASES_DIR ?= $(CURDIR)/.tmp/bench-databases

.PHONY: bench-databases
bench-databases: servers ## Compare locks in databases: a table and a CSV file in .tmp/bench-databases; fails where a requirement is missed
	$(RUN_BENCH) databases --rounds=$(ROUNDS) --dir=$(DATABASES_DIR) $(BENCH_FLAGS)

.PHONY: bench-databases-docs
bench-databases-docs: ## Write the table of the last run into docs/benchmarks/databases.md
	$(RUN_BENCH) docs --from=$(DATABASES_DIR)/bench.csv docs/benchmarks/databases.md

# SCALE_FLAGS such as --quick or --only=waiters,processes.
SCALE_FLAGS ?=
SCALE_DIR ?= $(CURDIR)/.tmp/scale

.PHONY: scale
scale: servers ## How cost grows with keys, waiters, processes and shards: tables and a CSV file in .tmp/scale
	$(RUN_BENCH) scale --dir=$(SCALE_DIR) $(SCALE_FLAGS)

.PHONY: scale-docs
scale-docs: ## Write the tables of the last run into docs/benchmarks/scale.md
	$(RUN_BENCH) docs --from=$(SCALE_DIR)/bench.csv docs/benchmarks/scale.md

.PHONY: bench-docs
bench-docs: ## Write the tables and charts of the last run into docs/benchmarks.md and docs/benchmarks/compare.md
	$(RUN_BENCH) docs --from=$(BENCH_DIR)/bench.csv docs/benchmarks.md docs/benchmarks/compare.md

.PHONY: docs/words
docs/words: ## Print how many words each page under docs/ has, without generated tables and quoted output
	@scripts/docs-words.sh

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Look for known vulnerabilities in what the code calls; needs the database of vuln.go.dev
	@scripts/vuln.sh $(GOVULNCHECK) $(MODULES)

.PHONY: vuln/check
vuln/check: ## The same, but skipped, aloud, where the tool cannot be built or the database not be reached
	@if $(MAKE) $(GOVULNCHECK); then scripts/vuln.sh --if-reachable $(GOVULNCHECK) $(MODULES); else \
		echo; echo "*** SKIPPED, NOT CHECKED for vulnerabilities: govulncheck cannot be built; run make vuln ***"; echo; fi

.PHONY: clean
clean: ## Remove tools, caches of tools and test leftovers
	rm -rf .tmp bin coverage.out
	find . -path ./.git -prune -o -type f \( -name '*.test' -o -name '*.prof' \) -print -delete

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION), once; this takes minutes"
	@mkdir -p $(@D)
	GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(@D)/golangci-lint $@

# One of its dependencies is a day older than govulncheck asks for: not every
# proxy of modules has the one it names.
$(GOVULNCHECK):
	@rm -rf .tmp/govulncheck && mkdir -p $(@D) .tmp/govulncheck
	@printf '%s\n' 'module tool' 'go 1.26.0' \
		'require golang.org/x/vuln $(GOVULNCHECK_VERSION)' \
		'replace golang.org/x/telemetry => golang.org/x/telemetry v0.0.0-20261009151841-97e8ea77aa2a' >.tmp/govulncheck/go.mod
	cd .tmp/govulncheck && GOWORK=off GOFLAGS=-mod=mod $(GO) build -o $@ golang.org/x/vuln/cmd/govulncheck
