# Every target works on a fresh Debian machine with Go and root, and needs no
# flags. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# go.mod asks for a newer toolchain than a distribution ships. Where it cannot
# be had (offline, or GOTOOLCHAIN=local), the installed one builds and tests.
ifneq ($(shell go version >/dev/null 2>&1 && echo ok),ok)
export GOTOOLCHAIN := local
endif

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X tallystick/internal/cli.version=$(VERSION)
BINARIES := $(notdir $(wildcard cmd/*))
TOOLS := $(CURDIR)/bin/tools
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT := mvdan.cc/gofumpt@v0.12.0

# The race detector needs a C compiler; without one the tests still run.
RACE = $(shell command -v "$$(go env CC)" >/dev/null 2>&1 && echo -race)

# Packages share the machine's cores with the servers they start.
TESTFLAGS ?= -shuffle=on -timeout 15m -p 2

.PHONY: help deps deps-test deps-lint build demo example-pipeline test test-short sim lint fmt bench bench-once fuzz verify clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

deps: ## install redis-server through the package manager where it is missing
	@deploy/install-deps redis

deps-test: deps
	@deploy/install-deps cc
	@deploy/install-deps python3

deps-lint:
	@deploy/install-deps luacheck

build: ## build every binary into bin/
	@mkdir -p bin
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: deps build ## the story of the README, in under a minute
	bin/tallystick demo

example-pipeline: deps build ## three stages over kept decisions, one of them killed and restarted
	go run ./examples/pipeline --tallystick bin/tallystick

test: deps-test ## all tests, with the race detector, on real servers
	go test $(RACE) $(TESTFLAGS) ./...

test-short: deps ## the quick tests, without the race detector
	go test -short $(TESTFLAGS) ./...

sim: deps ## a long run of the scripts against the model (TALLY_SIM_CHECKS, TALLY_SIM_SEED)
	TALLY_SIM_CHECKS=$${TALLY_SIM_CHECKS:-5000} go test -timeout 2h -count=1 -v ./test/sim

$(TOOLS)/staticcheck:
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= go install $(STATICCHECK)

$(TOOLS)/gofumpt:
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= go install $(GOFUMPT)

lint: deps-lint $(TOOLS)/staticcheck $(TOOLS)/gofumpt ## gofumpt, go vet, staticcheck, luacheck
	@unformatted=$$($(TOOLS)/gofumpt -l cmd examples internal lua pkg test); \
	  if [ -n "$$unformatted" ]; then echo "run make fmt for:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(TOOLS)/staticcheck ./...
	luacheck --quiet lua

fmt: $(TOOLS)/gofumpt ## format the Go code
	$(TOOLS)/gofumpt -w cmd examples internal lua pkg test

bench: deps build ## the table of the README: raw Redis, both doors, the ledger, one run
	bin/tallystick bench $(BENCHFLAGS)

bench-once: deps ## each benchmark once, so that none rots
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m -p 1 ./...

fuzz: ## each fuzz target for 20 seconds
	@grep -rln --include='*_test.go' '^func Fuzz' pkg internal | while read -r file; do \
	  for name in $$(grep -oP '^func \KFuzz\w+' "$$file"); do \
	    go test -run '^$$' -fuzz "^$$name\$$" -fuzztime 20s "./$$(dirname "$$file")"; done; done

verify: build ## generated files are current, modules tidy and unaltered
	go mod verify
	go mod tidy -diff
	go test -count=1 -run 'Golden|Schema|AsyncAPI|Architecture|Tidy' ./pkg/... ./internal/archtest

clean: ## remove what make has built
	rm -rf bin
