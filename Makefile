# Kymogram's house. `make` alone lists the targets; docs/development.md tells more.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO      ?= go
PYTHON  ?= python3
ARGS    ?=
VERSION := $(shell git describe --tags --dirty 2>/dev/null | sed 's/^v//' | grep . || echo 0.1.0+g$$(git describe --always --dirty 2>/dev/null || echo unknown))

TOOLS   := $(CURDIR)/bin/tools
VENV    := .venv
FRAMES  := .venv-frameworks
WHEELS  := dist
BINDIR  := python/src/kymogram/_bin
# The workspace's modules; `work` means them too, but not to every tool.
PACKAGES := ./... ./server/... ./test/... ./telemetry/influx/... ./read/record/...
LDFLAGS := -s -w -X main.version=$(VERSION)
# gRPC's traces bring html/template, which keeps every exported method: 6 MB of the binary.
TAGS    := grpcnotrace
# -race needs a C compiler and runs slowly: only where goroutines meet. The rows of W&B's receiver are one goroutine's.
RACE     = . ./internal/wal/... ./internal/spool/... ./internal/uplink/... ./server/internal/store/... ./server/internal/ingest/... \
           ./server/internal/live/... $(filter-out %/wandb/row %/wandb/graph %/wandb/mongo,$(shell $(GO) list ./server/internal/receiver/...)) ./server/internal/server/... \
           ./internal/collect/... ./internal/series/... ./metrics/...

GO_SOURCES     := $(shell git ls-files --cached --others --exclude-standard '*.go' '*go.mod' '*go.sum' go.work 2>/dev/null | grep -v -e _test.go -e '^tools/' -e '^test/')
PAGE           := $(shell find web/dist -type f 2>/dev/null)
PYTHON_SOURCES := $(shell git ls-files --cached --others --exclude-standard python/src python/pyproject.toml python/hatch_build.py python/README.md 2>/dev/null)

export CGO_ENABLED ?= 0
export PATH := $(TOOLS):$(PATH)

## ---- use ----

.PHONY: setup build demo demo-network
setup: build $(VENV)/.package ## bin/kymogram, and .venv with the Python package and the binary in its wheel

build: bin/kymogram ## bin/kymogram, the page inside

demo: setup $(VENV)/.demo ## train two real things and watch them live; ARGS=--once ends by itself
	@$(VENV)/bin/python examples/demo/run $(ARGS)

demo-network: build ## 50 miners and 5 validators that sign what they say, four of them wrongly; ARGS=--once ends by itself, ARGS=--chain asks a chain
	@$(GO) build -o bin/netstate ./test/examples/netstate
	@bin/netstate $(ARGS)

.PHONY: wheels
wheels: $(VENV)/.dev ## dist/wheels: the Python package for each system, and one without the binary
	@LDFLAGS='$(LDFLAGS)' TAGS=$(TAGS) VERSION=$(VERSION) tools/wheels $(ARGS)

.PHONY: release
release: $(VENV)/.dev ## dist/release: wheels, archives, the container image, bills of materials, checksums; ARGS=linux/amd64 for a part
	@LDFLAGS='$(LDFLAGS)' TAGS=$(TAGS) VERSION=$(VERSION) tools/release/build $(ARGS)

.PHONY: test-release
test-release: build ## what make release makes, read by other programs: archives, the image in a chroot (as root), the unit, the compose file, the Helm chart
	cd tools/release && GOWORK=off KYMOGRAM_BINARY=$(CURDIR)/bin/kymogram $(GO) test -count 1 -v .

bin/kymogram: $(GO_SOURCES) $(PAGE) Makefile
	@mkdir -p bin
	$(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $@ ./server/cmd/kymogram

$(VENV)/bin/python:
	@tools/prepare venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/.package: bin/kymogram $(PYTHON_SOURCES) | $(VENV)/bin/python
	@mkdir -p $(BINDIR) && cp -f bin/kymogram $(BINDIR)/kymogram
	@rm -rf $(WHEELS)/*.whl python/build
	$(VENV)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(WHEELS) ./python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/*.whl
	@touch $@

$(VENV)/.demo: examples/demo/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(VENV)/.dev: python/pyproject.toml | $(VENV)/.package
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls $(WHEELS)/*.whl)[dev]"
	# The tests need its metrics only, which import no torch.
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchelastic==0.2.2
	@touch $@

$(VENV)/.clients: test/e2e/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error

## ---- change ----

.PHONY: check lint prose audit fix generate clean
check: setup lint ## lint and the quick tests, in at most 3 minutes
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-python check-go-web

.PHONY: check-python check-go-web # side by side: Python's tests mostly wait
check-python:
	$(VENV)/bin/python -m pytest python/tests

check-go-web:
	$(GO) test -short work
	cd web && npm test --silent

lint: $(TOOLS)/.installed $(VENV)/.dev $(VENV)/.package web/node_modules/.package-lock.json ## buf, prose, golangci-lint, ruff, mypy, biome, tsc
	buf lint
	$(GO) run ./test/prose
	golangci-lint run --allow-parallel-runners $(PACKAGES)
	$(VENV)/bin/ruff check python examples test
	$(VENV)/bin/ruff format --check python examples test
	cd python && ../$(VENV)/bin/mypy
	cd web && npm run --silent lint && npm run --silent types

prose: ## sentences that are too long and private words, in docs, help, messages and public comments
	@$(GO) run ./test/prose

audit: ## govulncheck over the five modules, with its own database, which not every machine reaches: CI leaves it out
	@tools/audit

fix: $(TOOLS)/.installed $(VENV)/.dev web/node_modules/.package-lock.json ## let the formatters and linters mend what they can
	golangci-lint run --allow-parallel-runners --fix $(PACKAGES)
	$(VENV)/bin/ruff check --fix python examples test
	$(VENV)/bin/ruff format python examples test
	cd web && npm run --silent format

generate: $(TOOLS)/.installed web/node_modules/.package-lock.json ## the Go code of api/, the page in web/dist and the signature of Python's init, all committed
	buf generate
	cd web && npm run --silent build
	$(PYTHON) python/arguments.py

clean: ## remove everything that was built (not the data of a demo)
	rm -rf bin dist $(VENV) $(FRAMES) .venv-pythons test-results python/build $(BINDIR) web/node_modules
	find python -name '*.egg-info' -o -name __pycache__ | xargs rm -rf

# All that the tests need; linters and generators take minutes to compile.
$(TOOLS)/gotestsum: tools/go.mod
	@mkdir -p $(TOOLS)
	cd tools && GOWORK=off GOBIN=$(TOOLS) $(GO) install gotest.tools/gotestsum
	@touch $@

.PHONY: influx
influx: ## InfluxDB 1.6 (Debian's package) and 1.8 (built from its Go module), for the tests of MetricsLogger that are skipped without them
	@tools/influxd/get $(TOOLS)

# An S3 that tests kill. Without it they are skipped, and say so.
$(TOOLS)/versitygw: tools/versitygw/go.mod
	@tools/versitygw/get $(TOOLS) || echo 'versitygw cannot be built: its tests are skipped' >&2

.PHONY: grafana
grafana: ## the code of Grafana's Prometheus data source, for the test that records its requests again; skipped without it
	npm install --prefix $(TOOLS)/grafana --legacy-peer-deps --ignore-scripts --no-audit --no-fund --loglevel=error @grafana/prometheus@13.2.3 @grafana/data@13.2.3

$(TOOLS)/.installed: tools/go.mod tools/gen/go.mod
	@mkdir -p $(TOOLS)
	cd tools && GOWORK=off GOBIN=$(TOOLS) $(GO) install tool
	cd tools/gen && GOWORK=off GOBIN=$(TOOLS) $(GO) install tool
	@touch $@

## ---- prove ----

.PHONY: test prepare stale test-go test-race test-web test-python test-adapters test-frameworks test-e2e test-wandb test-crash bench bench-client proof-client bench-scale bench-shared bench-reading bench-metrics bench-bounds bench-state bench-wandb bench-peers bench-small bench-shapes bench-promql bench-web bench-subnet bench-telemetry bench-console growth proof proof-engine proof-damage compat
test: ## every test: installs what it needs, builds, tests; CI runs lint and stale after it
	@tools/test

prepare: ## what `make test` needs on this machine
	@tools/prepare all
	@$(MAKE) $(TOOLS)/gotestsum setup $(VENV)/.dev $(VENV)/.demo $(VENV)/.clients web/node_modules/.package-lock.json

stale: $(TOOLS)/.installed web/node_modules/.package-lock.json ## fail when generated code is not what its source makes, or a go.mod not tidy
	@tools/stale

test-go: $(TOOLS)/gotestsum bin/kymogram ## Go tests
	@# What test/ starts is a program, whose changes Go's cache does not see.
	@code=0; set -x; \
	gotestsum --format pkgname --format-hide-empty-pkg -- -timeout 25m $(filter-out ./test/...,$(PACKAGES)) || code=1; \
	gotestsum --format pkgname --format-hide-empty-pkg -- -timeout 25m -count 1 $(filter-out %/test/growth,$(shell $(GO) list ./test/...)) || code=1; \
	gotestsum --format pkgname --format-hide-empty-pkg -- -short ./test/growth || code=1; \
	exit $$code

test-race: $(TOOLS)/gotestsum ## Go tests under the race detector, where goroutines meet
	CGO_ENABLED=1 gotestsum --format pkgname --format-hide-empty-pkg -- -race -short -timeout 25m $(RACE)

test-web: setup $(VENV)/.dev web/node_modules/.package-lock.json ## tests of the page: units, and in Chromium
	cd web && npm test --silent && npm run --silent test:browser

test-python: $(VENV)/.dev $(VENV)/.package ## tests of the Python package; under others with PYTHONS="python3.12 /opt/3.13t/bin/python3"
	$(if $(PYTHONS),tools/pythons $(PYTHONS) $(if $(ARGS),-- $(ARGS)),$(VENV)/bin/python -m pytest python/tests)

test-adapters: bin/kymogram ## adapters with the real frameworks that install within two minutes
	@tools/adapters

test-frameworks: bin/kymogram $(FRAMES)/.installed ## adapters, imports and the example of GoMLX with the real frameworks, in an environment of 6.5 GB
	cd python && PYTHONPATH=src KYMOGRAM_BINARY=$(or $(KYMOGRAM_BINARY),$(CURDIR)/bin/kymogram) \
		../$(FRAMES)/bin/python -m pytest -p no:cacheprovider tests/frameworks tests/test_adapters.py tests/test_query.py tests/test_query_fork.py tests/test_guides.py $(ARGS)
	cd examples/gomlx && KYMOGRAM_BINARY=$(or $(KYMOGRAM_BINARY),$(CURDIR)/bin/kymogram) $(GO) test -count 1 .

$(FRAMES)/.light: python/tests/frameworks/light.txt
	@tools/prepare venv
	@test -x $(FRAMES)/bin/python || $(PYTHON) -m venv $(FRAMES)
	$(FRAMES)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(FRAMES)/.installed: python/tests/frameworks/requirements.txt $(FRAMES)/.light
	$(FRAMES)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	$(FRAMES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(FRAMES)/wandb-0.19 wandb==0.19.11 # the last reader of its files in Python
	# TensorFlow and torch cannot be in one process: each brings an LLVM of its own.
	$(FRAMES)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target $(FRAMES)/tensorflow tensorflow-cpu==2.21.0
	@touch $@

test-e2e: setup $(TOOLS)/gotestsum $(VENV)/.demo $(VENV)/.clients web/node_modules/.package-lock.json ## real binary, real package, real browser
	gotestsum --format testname -- -tags e2e -count 1 -timeout 12m ./test/e2e

test-wandb: setup $(TOOLS)/gotestsum ## the real SDKs of W&B against the server, in short; WANDB_SDKS=0.17.9,0.16.6 names others
	gotestsum --format testname -- -tags e2e -short -count 1 -parallel 3 -timeout 20m ./test/wandb

.PHONY: test-cluster
test-cluster: $(TOOLS)/versitygw ## what lies in databases and buckets, with all random histories, and random faults of a cluster: ROUNDS=30; POSTGRES_URL, CLICKHOUSE_ADDRS and S3_URL name services of your own
	@tools/prepare cluster
	cd server && CLUSTER=1 ROUNDS=$(or $(ROUNDS),30) $(GO) test -count 1 -timeout 60m ./internal/catalog/postgres ./internal/data ./internal/store/clickhouse/... ./internal/blob/s3 ./internal/statelog
	cd server && CLUSTER=1 ROUNDS=$(or $(ROUNDS),30) $(GO) test -count 1 -timeout 60m -run 'TestServersOfAStore|TestRecords|TestMoveOfAServer|TestEverythingFails|TestRollingUpgrade|TestAnUploadWhoseBucketDies|TestDoctorNamesAClock|TestScrapeDoesNotGrow' ./cmd/kymogram
	cd test && NETSTATE_STORE=1 $(GO) test -count 1 -timeout 30m ./netstate

test-crash: setup $(TOOLS)/gotestsum ## SIGKILL of the loop, the agent and the server; KILLS=20 SERVER_KILLS=20
	gotestsum --format standard-verbose -- -tags e2e -count 1 -timeout $(or $(CRASH_TIMEOUT),18m) ./test/crash -kills $(or $(KILLS),20) -server-kills $(or $(SERVER_KILLS),$(KILLS),20) $(CRASH)

# How long the proofs are; each figure can be given by itself.
KILLED ?= 1000
CLONES ?= 10000
SCRIPT ?= 400
DAMAGES ?= 5000
proof-engine: ## crash clones, an I/O error at every operation, bit flips: CLONES=10000 SCRIPT=400
	$(GO) test -count 1 -timeout 60m -v -run 'TestCrash|TestErrorAtEveryOperation|TestDamage|TestInspect|TestCopy' ./server/internal/store/local -clones $(CLONES) -script-ops $(SCRIPT)

growth: ## each call at n and at 8 n of each dimension of its input: CPU, allocated bytes, bytes on disk; on an idle machine. ARGS='-only TEXT'
	$(GO) test -count 1 -timeout 60m -v ./test/growth -args -processor $(ARGS)

proof-damage: ## damages of every file of a data folder, each named or without an effect: DAMAGES=5000
	$(GO) test -count 1 -timeout 120m -v -run 'TestDamage$$' ./server/cmd/kymogram -damages $(DAMAGES)

proof: ## the crash tests much longer (the server is killed KILLED=1000 times and must be ready in 2 s), proof-engine, proof-damage, what each call allocates as its input grows, and the fuzzers for a minute each
	@$(MAKE) test-crash KILLS=200 SERVER_KILLS=$(KILLED) CRASH="-ready 2s" CRASH_TIMEOUT=60m
	@$(MAKE) proof-engine
	@$(MAKE) proof-damage
	$(GO) test -count 1 -timeout 60m ./test/growth
	NETSTATE_KILLS=$(KILLED) $(GO) test ./test/netstate -run Killed -count 1 -timeout 60m -v
	@tools/fuzz 60s

METRANA := $(VENV)/metrana-0.5.2
compat: setup $(METRANA)/.installed $(VENV)/.dev ## the same points, written by Go and by Python, read by the other; names as in metrana 0.5.2; agent and server of an older commit; four versions of W&B's SDK
	$(GO) test -count 1 -run 'Golden|Compat' ./internal/spool/... .
	$(GO) test -tags e2e -count 1 -timeout 15m -v ./test/compat
	$(GO) test -tags e2e -count 1 -parallel 4 -timeout 60m -v ./test/wandb
	COMPAT_PYTHON=$(abspath $(METRANA))/bin/python $(VENV)/bin/python -m pytest python/tests -k 'golden or compat'

$(METRANA)/.installed: | $(VENV)/bin/python
	$(PYTHON) -m venv $(METRANA)
	$(METRANA)/bin/python -m pip install --quiet --disable-pip-version-check metrana==0.5.2 metrana-logging-engine==0.0.4
	@touch $@

bench: setup $(VENV)/.dev ## what a user feels: log(), start, sizes, latency; and the server: CPU and bytes a point, reads
	@$(VENV)/bin/python test/bench/bench.py $(ARGS)
	@$(VENV)/bin/python test/bench/fair.py
	@$(GO) run ./test/bench/engine

bench-client: setup $(VENV)/.dev ## what a call of the client costs, beside metrana, wandb, tensorboard, trackio and mlflow
	@$(VENV)/bin/python test/peers/bench.py $(ARGS)

proof-client: setup ## what the client and others lose when a training ends badly; its small disks need root
	@$(VENV)/bin/python test/peers/proof.py $(ARGS)

bench-scale: bin/kymogram ## 100,000 runs, a run of 1,000,000 series, a series of 100 M points; ARGS=-quick for a hundredth
	$(GO) run ./test/bench/scale -binary bin/kymogram $(ARGS)

bench-shared: bin/kymogram ## what points cost servers that share ClickHouse and PostgreSQL; POINTS=2000000, which takes 8 minutes
	$(GO) test -count 1 -timeout 2h -run TestShared -v ./test/bench/scale -figures $(or $(POINTS),2000000)

bench-bounds: ## processor time of what is bounded: a second writer into a wide run, hostile bodies of 16 MiB, refused requests
	@$(GO) test -run NONE -bench SecondWriter -benchtime 20x ./server/internal/store/local
	@$(GO) test -run NONE -bench Hostile -benchtime 3x ./server/internal/receiver/influx
	@$(GO) test -run NONE -bench Refused ./server/cmd/kymogram

bench-state: bin/kymogram ## signed records: verifications a second, records on disk, when another reader sees one; ARGS='-records 100000'
	@$(GO) run ./test/bench/state -binary bin/kymogram $(ARGS)

bench-wandb: bin/kymogram ## the server behind W&B's SDK: processor time and memory of ingest, lists, long and wide runs; WANDB_BENCH_SDKS names environments of the SDK; ARGS='-what values -part 10'
	@$(GO) run ./test/bench/wandb -binary bin/kymogram $(ARGS)

bench-reading: setup $(VENV)/.dev ## what it costs to fetch a million points, in Python and in Go; ARGS='--rounds 9'
	@$(VENV)/bin/python test/bench/reading.py $(ARGS)

bench-metrics: setup ## put_metric() to each handler, in Python and in Go
	@$(VENV)/bin/python test/bench/metrics.py
	@$(GO) test -run NONE -bench PutMetric ./metrics

bench-netstate: setup ## reads of a network's state, and verifications a second in Go and Python
	@NETSTATE_FIGURES=1 $(GO) test ./test/netstate -run TestFigures -count=1 -v | grep -v '^='
	@$(GO) test ./internal/state -run NONE -bench Open
	@$(GO) test ./server/internal/network -run NONE -bench FirstNetwork -benchtime 2x
	@$(VENV)/bin/python test/bench/netstate.py

bench-peers: bin/kymogram ## the server beside Debian's VictoriaMetrics in every shape, in the same rounds; ARGS='-what ml -size d20' or long
	@tools/prepare peers
	@$(GO) run ./test/bench/engine -what ml,small,shapes -servers kymogram,victoria-metrics $(ARGS)

bench-small: bin/kymogram influx ## small requests, short runs, wide rows and a long series: CPU, memory and bytes beside VictoriaMetrics, InfluxDB 1.6 and a bare HTTP server that syncs; ARGS='-only short -times 5'
	@tools/prepare peers
	@$(GO) run ./test/bench/engine -what small -servers kymogram,victoria-metrics,influxdb,floor $(ARGS)

bench-shapes: bin/kymogram ## bytes a point of what foreign clients send, beside VictoriaMetrics; ARGS='-seed 7'
	@tools/prepare peers
	@$(GO) run ./test/bench/engine -what shapes -servers kymogram,victoria-metrics $(ARGS)

bench-promql: bin/kymogram ## Grafana's usual PromQL, beside VictoriaMetrics and Prometheus on the same samples
	@tools/prepare peers
	@$(GO) run ./test/bench/engine -what promql -servers kymogram,victoria-metrics,prometheus $(ARGS)

bench-web: setup web/node_modules/.package-lock.json ## the page in Chromium: first chart, bytes, requests, tasks, scrolling, beside TensorBoard; ARGS='--sets A,B --alone'
	@$(VENV)/bin/python test/bench/web.py $(ARGS)

bench-subnet: setup influx $(VENV)/.clients ## 30 days of a subnet of 256 nodes, beside InfluxDB 1.6: series, bytes a point, InfluxQL; needs 3 GB and 8 GB of memory; ARGS='--days 1'
	@$(VENV)/bin/python test/bench/subnet.py --validators 2 $(ARGS)

bench-telemetry: setup $(VENV)/.dev ## a call of MetricsLogger.log, beside the way of Templar's original
	@$(VENV)/bin/python test/bench/telemetry.py $(ARGS)

bench-console: setup $(VENV)/.dev ## a print with capture_console and without
	@$(VENV)/bin/python test/bench/console.py $(ARGS)

## ----

.PHONY: help
help:
	@awk 'BEGIN{FS=":.*## "} /^## ---- [a-z]+/{print "\n" $$2 toupper(substr($$0,9,1)) substr($$0,10)} /^[a-z0-9-]+:.*## /{printf "  \033[1m%-12s\033[0m %s\n",$$1,$$2}' $(MAKEFILE_LIST) | sed 's/ ----$$//'
