# Everything a contributor runs. `make test` is what has to pass before a merge.

# Packages where goroutines live run under the race detector; the rest, which
# are pure or single-threaded, gain nothing from it and run without. A name
# covers its subtree. Names without a package yet are harmless. Simulated
# experiments run their worlds side by side in lab/experiment.
RACY := internal/live internal/parity grpcgate httpgate fastrpc proxy telemetry config guard broker cmd examples internal/harness internal/demo \
        internal/taskfile tracer lab/admissionlive lab/bed lab/breakwaterlive lab/chains lab/cost lab/experiment lab/front lab/workflowslive

# Those of them whose tests start real-time processes, which leave no processor to the rest:
# they run two at a time, when the rest is done. Most of their time they wait.
ALONE := lab/admissionlive lab/bed lab/chains lab/cost lab/workflowslive

# Those of them that take longest begin first: the last of all would else run beside nothing.
FIRST := cmd/spillgate internal/demo internal/demo/stage proxy grpcgate lab/front httpgate internal/taskfile

# How many packages are built and tested at once under the race detector: one more than there are
# processors, because half of what these tests do is to wait.
ABREAST := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# Longer than any package needs on two cores that 30 processes want; a test that hangs ends here.
TIMEOUT := 10m

# make vet has vetted them, with all checks.
VETTED := -vet=off

FUZZTIME := 10s

# How many worlds make soak plays, and from which seed.
SEEDS := 3000
SEED := 1000

space := $(subst ,, )
racy_pattern := /($(subst $(space),|,$(strip $(RACY))))(/|$$)
alone_pattern := /($(subst $(space),|,$(strip $(ALONE))))(/|$$)

# The race detector needs cgo on Linux, and so a C compiler. Without one the
# tests still run, without the detector; continuous integration insists.
cgo := $(shell go env CGO_ENABLED)
race := $(if $(filter 1,$(cgo)),-race,)

# A program with the race detector sleeps for a second when it ends, in case a report is
# still to come. Tests start hundreds of them.
export GORACE := atexit_sleep_ms=50

.PHONY: help
help: ## Say what each target does.
	@awk -F '## ' '/^[a-z-]+:.*## / {sub(/:.*/, "", $$1); printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: vet lint unit race ## Everything that must pass: vet, lint (other platforms too), unit tests, race.

.PHONY: vet
vet: ## gofmt and go vet, for this machine.
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...

.PHONY: lint
lint: ## The architecture, the documentation rules, and whether all type-checks for other platforms, as a test.
	go test -count=1 -timeout $(TIMEOUT) ./internal/lint

# The versions of the checks; they are run from the module cache and are no dependency.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: static
static: ## staticcheck, at a pinned version.
	go run $(STATICCHECK) ./...

.PHONY: vuln
vuln: ## Known vulnerabilities in what is called (govulncheck); needs its database, vuln.go.dev.
	go run $(GOVULNCHECK) ./...

.PHONY: lowest
lowest: ## Build, and test what users import, with the lowest Go that go.mod allows.
	scripts/lowest.sh

.PHONY: unit
unit: ## Unit tests of packages without goroutines; fuzz seeds run as tests.
	go test $(VETTED) -timeout $(TIMEOUT) $$(go list ./... | grep -Ev '$(racy_pattern)' | grep -v '/internal/lint$$')

.PHONY: race
race: ## Unit tests of packages with goroutines, under the race detector.
ifeq ($(race),)
	@echo "race: cgo is off or there is no C compiler, so the race detector cannot run"
	@[ "$$CI" != true ]
endif
	@packages=$$(go list $(addprefix ./,$(FIRST)) && go list ./... | grep -E '$(racy_pattern)'); \
	set -xe; \
	go test $(race) $(VETTED) -timeout $(TIMEOUT) -p $(ABREAST) $$(echo "$$packages" | grep -Ev '$(alone_pattern)'); \
	go test $(race) $(VETTED) -timeout $(TIMEOUT) -p 2 $$(echo "$$packages" | grep -E '$(alone_pattern)')

.PHONY: cross
cross: ## Build and vet for linux and darwin, amd64 and arm64.
	scripts/cross.sh

.PHONY: bench
bench: ## What a decision and each edge cost, beside the plain thing in the same run, and the bars (two minutes).
	go run ./cmd/spillgate lab run bench/decision
	go run ./cmd/spillgate lab run bench/cost

.PHONY: benchall
benchall: ## Every Go benchmark, for somebody who changes the code that it times.
	go test -run '^$$' -bench . -benchmem -timeout 30m ./...

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s).
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: soak
soak: cross ## Thousands of random simulated worlds with every invariant on, and thousands of new cases of each property (an hour); make test plays a hundred.
	go test -count=1 -timeout 3h -run TestSwarm ./internal/sim/check -args -seeds $(SEEDS) -seed $(SEED)
	SPILLGATE_SOAK=1 go test -count=1 -timeout 30m -run TestKill ./cmd/spillgate
	@set -e; for package in $$(go list -f '{{range .TestImports}}{{if eq . "pgregory.net/rapid"}}{{$$.ImportPath}}{{end}}{{end}}' ./...); do \
		go test -count=1 -timeout 3h $$package -args -rapid.seed=0 -rapid.checks=$(SEEDS); done

.PHONY: lab
lab: ## Every experiment, quick form; fails if one misses its bars.
	scripts/lab.sh

.PHONY: deps
deps: ## Install the programs that tests drive (Debian).
	scripts/deps.sh
