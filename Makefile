# Cardquota. `make help` lists what there is; the README tells which to try first.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)
LDFLAGS := -s -w -X cardquota.dev/operator/internal/version.Version=$(VERSION)
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)"
# The suites under test/ start control planes of their own; two at a time, as they mostly wait.
UNIT := ./api/... ./cmd/... ./internal/...
E2E := ./test/...
E2E_TIMEOUT ?= 25m
# The race detector needs a C compiler; without one the tests run without it and say so.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),$(if $(shell command -v $$(go env CC)),-race))

## General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2} /^## / {printf "\n%s\n", substr($$0, 4)}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build controlplane ## Run the tour on a local cluster (KEEP=1 leaves it running)
	@KEEP=$(KEEP) $(BIN)/demo

.PHONY: tide
tide: build controlplane ## Show inference taking cards back from training, on 500 nodes (fails when something does not hold)
	@$(GO_BUILD) -o $(BIN)/tide ./test/tide/cmd/tide
	@$(BIN)/tide

.PHONY: cluster
cluster: build controlplane ## Start a local cluster with Cardquota and keep it until Ctrl-C
	@$(BIN)/cluster up --fleet test/cluster/fleets/mixed.yaml

## Build

.PHONY: build
build: ## Build the operator, the scheduler and the demo into ./bin
	@echo "build: manager, scheduler and demo (minutes when cold, seconds when cached)"
	@mkdir -p $(BIN)
	@$(GO_BUILD) -o $(BIN)/manager ./cmd/manager
	@$(GO_BUILD) -o $(BIN)/cardquota-scheduler ./cmd/scheduler
	@$(GO_BUILD) -o $(BIN)/cluster ./test/cluster/cmd/cluster
	@$(GO_BUILD) -o $(BIN)/demo ./test/demo

.PHONY: controlplane
controlplane: ## Build etcd, Kubernetes, Volcano and kwok for the local cluster into ./bin
	@hack/build-controlplane.sh

.PHONY: olm-tools
olm-tools: ## Build OLM's operators and opm into ./bin/olm, for the catalog and test/olm
	@hack/build-olm.sh

.PHONY: certmanager
certmanager: ## Build cert-manager's controllers into ./bin/certmanager, for test/handbook
	@hack/build-certmanager.sh

.PHONY: images
images: ## Build the images of both programs as OCI archives, with an SBOM each, into dist/images (needs root)
	@VERSION=$(VERSION) hack/images.sh

.PHONY: node-tools
node-tools: ## Install containerd, buildah and what else the images and the local cluster's real node need (needs root)
	@hack/install-node-tools.sh

TOOLS := controller-gen crd-ref-docs kustomize golangci-lint gotestsum
.PHONY: tools
tools: $(TOOLS:%=$(BIN)/%) ## Build the pinned tools into ./bin

$(BIN)/controller-gen: TOOL := sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/crd-ref-docs: TOOL := github.com/elastic/crd-ref-docs
$(BIN)/kustomize: TOOL := sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/golangci-lint: TOOL := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/gotestsum: TOOL := gotest.tools/gotestsum
$(TOOLS:%=$(BIN)/%): hack/tools/go.sum
	@echo "build: $(@F)"
	@mkdir -p $(BIN)
	@cd hack/tools && CGO_ENABLED=0 go build -trimpath -o $@ $(TOOL)
	@touch $@

## Generate and check

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/crd-ref-docs ## Generate deepcopy code, CRDs, the operator's RBAC and docs/api.md
	@$(BIN)/controller-gen object paths=./api/...
	@$(BIN)/controller-gen crd:maxDescLen=1000000 paths=./api/... output:crd:dir=config/crd/bases
	@$(BIN)/controller-gen rbac:roleName=cardquota-manager,fileName=manager_role.yaml paths=./internal/controller/... paths=./internal/webhook/... output:rbac:dir=config/rbac
	@$(BIN)/crd-ref-docs --config hack/crd-ref-docs.yaml --source-path api --renderer markdown --output-path docs/api.md --log-level ERROR

.PHONY: verify
verify: $(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/kustomize verify-bundle verify-alerts ## Check generated files, that manifests render and fit together, the bundle and the alerts
	@hack/verify-generated.sh

.PHONY: bundle
bundle: ## Generate the OLM bundle from config/
	@cd hack/bundle && go run . -root ../..

.PHONY: catalog
catalog: olm-tools ## Write a catalog with the OLM bundle to dist/catalog (BUNDLES='dist/bundles/*' for others)
	@rm -rf dist/catalog dist/catalog.Dockerfile # opm overwrites neither
	@cd hack/bundle && go run ./catalog -opm $(BIN)/olm/opm -out $(CURDIR)/dist/catalog $(abspath $(or $(BUNDLES),bundle))

.PHONY: verify-bundle
verify-bundle: ## Check that the OLM bundle is up to date and passes the validators
	@cd hack/bundle && go test -count=1 ./...

.PHONY: verify-alerts
verify-alerts: ## Check by Prometheus' own engine that the alerts fire when they shall
	@cd hack/alerts && go test -count=1 ./...

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters
	@$(BIN)/golangci-lint run ./...
	@for module in alerts bundle certmanager sbom; do (cd hack/$$module && $(BIN)/golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || exit 1; done

## Test

GOTESTSUM := $(BIN)/gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg

.PHONY: test
test: controlplane olm-tools certmanager tools build ## Run everything: generated files, lint, unit, envtest and e2e tests
	@hack/install-node-tools.sh || echo "test: what needs real containers will be skipped, by name"
	@hack/test.sh verify lint test-unit test-e2e

.PHONY: test-unit
test-unit: controlplane $(BIN)/gotestsum ## Run unit and envtest tests with the race detector
	@$(if $(RACE),,echo "test: no C compiler, so the race detector is off: apt-get install gcc")
	@mkdir -p dist && KUBEBUILDER_ASSETS=$(BIN)/controlplane $(GOTESTSUM) --jsonfile dist/unit.json -- $(RACE) -timeout 20m -p 2 $(UNIT)

.PHONY: test-e2e
test-e2e: controlplane build $(BIN)/gotestsum ## Run the tests of test/ on local clusters
	@mkdir -p dist && $(GOTESTSUM) --jsonfile dist/e2e.json -- -count=1 -timeout $(E2E_TIMEOUT) -p 2 $(E2E)

.PHONY: bench-plugin
bench-plugin: ## Measure capacity-card against Volcano's capacity (fails when a limit is exceeded)
	@hack/bench-plugin.sh

.PHONY: bench-drain
bench-drain: build controlplane ## Race this scheduler against Volcano's: 4,000 pods on 500 nodes (RUNS=3; fails when ours is slower)
	@$(GO_BUILD) -o $(BIN)/bench ./test/bench
	@$(BIN)/bench -runs $(or $(RUNS),3)

.PHONY: bench-tide
bench-tide: build controlplane ## Race cardreclaim against Volcano's reclaim on 500 nodes (RUNS=3; fails when a limit is exceeded)
	@$(GO_BUILD) -o $(BIN)/bench-tide ./test/tide/cmd/bench-tide
	@$(BIN)/bench-tide -runs $(or $(RUNS),3)

.PHONY: clean
clean: ## Remove what was built
	@rm -rf $(BIN) dist
