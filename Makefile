# Cardquota. `make help` lists what there is; the README tells which to try first.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)
LDFLAGS = -s -w -X cardquota.dev/operator/internal/build.Version=$(VERSION)
# All builds use the same flags, so that no package is compiled twice: static, and without the paths
# of this clone, so that other clones share the build cache. Only the race detector needs C.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
# Temporary files of killed builds do not stay in /tmp.
GO_BUILD = hack/in-temporary.sh go build -ldflags "$(LDFLAGS)"
GO_RUN = hack/in-temporary.sh go run

## General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2} /^## / {printf "\n%s\n", substr($$0, 4)}' $(MAKEFILE_LIST)

# The build reports its progress itself.
.PHONY: demo-duration
demo-duration:
	@echo "demo: builds Kubernetes, Volcano and Cardquota (six to twelve minutes on two cores the first time, seconds afterwards), then plays for half a minute"

.PHONY: demo
demo: demo-duration controlplane build ## Run the tour on a local cluster (KEEP=1 leaves it running)
	@KEEP=$(KEEP) $(BIN)/demo

.PHONY: tide
tide: controlplane build ## Show how inference reclaims cards from training, on 500 nodes (fails when a check fails)
	@$(GO_BUILD) -o $(BIN)/tide ./test/tide/cmd/tide
	@$(BIN)/tide

.PHONY: cluster
cluster: controlplane build ## Start a local cluster with Cardquota and a policy, and keep it until Ctrl-C
	@$(BIN)/cluster up --cardquota --fleet test/cluster/fleets/mixed.yaml

## Build

.PHONY: build
build: programs kubectl-cardquota ## Build the operator, the scheduler, the kubectl plugin and the demo into ./bin
	@$(GO_BUILD) -o $(BIN)/ ./test/cluster/cmd/cluster ./test/demo

define BUILD_PROGRAMS
@mkdir -p $(BIN)
@$(GO_BUILD) -o $(BIN)/manager ./cmd/manager
@$(GO_BUILD) -o $(BIN)/cardquota-scheduler ./cmd/scheduler
endef

.PHONY: programs
programs: ## Build the operator and the scheduler as they are shipped into ./bin
	@echo "build: manager and scheduler (minutes when cold, seconds when cached)"
	$(BUILD_PROGRAMS)

.PHONY: kubectl-cardquota
kubectl-cardquota: ## Build the kubectl plugin for this machine into ./bin
	@mkdir -p $(BIN)
	@$(GO_BUILD) -o $(BIN)/kubectl-cardquota ./cmd/kubectl-cardquota

PLATFORMS := $(foreach os,linux darwin windows,$(os)_amd64 $(os)_arm64)
.PHONY: kubectl-cardquota-all $(PLATFORMS:%=kubectl-cardquota_%)
kubectl-cardquota-all: $(PLATFORMS:%=kubectl-cardquota_%) ## Build the kubectl plugin for every platform into dist/kubectl-cardquota, with checksums (URL=https://… also writes a krew manifest)
	@rm -f dist/kubectl-cardquota/*.*
	@$(GO_RUN) ./hack/krew -dist dist/kubectl-cardquota -version $(VERSION) -url '$(URL)'

$(PLATFORMS:%=kubectl-cardquota_%): kubectl-cardquota_%:
	@mkdir -p dist/kubectl-cardquota/build/$*
	@GOOS=$(firstword $(subst _, ,$*)) GOARCH=$(lastword $(subst _, ,$*)) $(GO_BUILD) -o dist/kubectl-cardquota/build/$*/ ./cmd/kubectl-cardquota

# Tests run them unless CLOCKS=shipped. Their timeouts are a quarter as long: see internal/build.
.PHONY: test-programs
test-programs: VERSION := v0.0.0-test
test-programs: LDFLAGS += -X cardquota.dev/operator/internal/build.testClocks=cardquota-test-clocks:4
test-programs: BIN := $(BIN)/test
test-programs: ## Build the operator and the scheduler for tests into ./bin/test
	$(BUILD_PROGRAMS)

.PHONY: controlplane
controlplane: ## Build etcd, Kubernetes, Volcano and kwok for the local cluster into ./bin
	@hack/build-controlplane.sh

.PHONY: controlplane-full
controlplane-full: ## Build also the programs for tests and benchmarks: kubelet, kube-proxy, other schedulers
	@hack/build-controlplane.sh full

.PHONY: olm-tools
olm-tools: ## Build OLM's operators and opm into ./bin/olm, for the catalog and test/olm
	@hack/build-olm.sh

.PHONY: certmanager
certmanager: ## Build cert-manager's controllers into ./bin/certmanager, for test/docs
	@hack/build-certmanager.sh

.PHONY: prometheus
prometheus: ## Put Prometheus of Debian's package into ./bin/prometheus, for test/monitoring
	@hack/build-prometheus.sh

.PHONY: images
images: ## Build the images of both programs as OCI archives, with an SBOM each, into dist/images (needs root)
	@VERSION=$(VERSION) hack/images.sh

.PHONY: node-tools
node-tools: ## Install the tools for images and for the local cluster's real node, such as containerd and buildah (needs root)
	@hack/install-node-tools.sh

.PHONY: tools
TOOLS := controller-gen crd-ref-docs kustomize golangci-lint
tools: $(TOOLS:%=$(BIN)/%) ## Build the pinned tools into ./bin

$(BIN)/controller-gen: TOOL := sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/crd-ref-docs: TOOL := github.com/elastic/crd-ref-docs
$(BIN)/kustomize: TOOL := sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/golangci-lint: TOOL := sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter
.PHONY: $(TOOLS:%=$(BIN)/%)
$(TOOLS:%=$(BIN)/%):
	@hack/build-tools.sh $(@F)=$(TOOL)

## Generate and check

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/crd-ref-docs ## Generate deepcopy code, CRDs, the operator's RBAC and docs/api.md
	@$(BIN)/controller-gen object paths=./api/...
	@$(BIN)/controller-gen crd:maxDescLen=1000000 paths=./api/... output:crd:dir=config/crd/bases
	@$(BIN)/controller-gen rbac:roleName=cardquota-manager,fileName=manager_role.yaml paths=./internal/controller/... paths=./internal/webhook/... output:rbac:dir=config/rbac
	@$(BIN)/crd-ref-docs --config hack/crd-ref-docs.yaml --source-path api --renderer markdown --output-path docs/api.md --log-level ERROR

.PHONY: verify
verify: verify-generated verify-bundle verify-alerts ## Check generated files, that manifests render and fit together, the bundle and the alerts

.PHONY: verify-generated
verify-generated: $(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/kustomize ## Check that generated files are up to date and that manifests render
	@hack/verify-generated.sh

.PHONY: bundle
bundle: ## Generate the OLM bundle from config/
	@cd hack/bundle && go run . -root ../..

.PHONY: catalog
catalog: olm-tools ## Write a catalog with the OLM bundle to dist/catalog (BUNDLES='dist/bundles/*' for others)
	@rm -rf dist/catalog dist/catalog.Dockerfile # opm does not overwrite them
	@cd hack/bundle && go run ./catalog -opm $(BIN)/olm/opm -out $(CURDIR)/dist/catalog $(abspath $(or $(BUNDLES),bundle))

# -count=1, because Go's test cache ignores files outside of the module, and these tests read them.
.PHONY: verify-bundle
verify-bundle: ## Check that the OLM bundle is up to date and passes the validators
	@hack/in-temporary.sh go -C hack/bundle test -count=1 -vet=off ./...

.PHONY: boards
boards: ## Write the Grafana boards of config/grafana
	@cd hack/boards && go run . ../../config/grafana

.PHONY: pictures
pictures: controlplane programs prometheus ## Draw the boards of docs/images from a day that a real Prometheus scrapes (four minutes)
	@mkdir -p dist/pictures
	@$(GO_BUILD) -o $(BIN)/record ./test/monitoring/cmd/record
	@$(BIN)/record -out dist/pictures/answers.json
	@cd hack/pictures && go run . ../../dist/pictures/answers.json ../../docs/images

.PHONY: verify-alerts
verify-alerts: ## Check with Prometheus' own engine when the alerts fire, and the boards with their pictures
	@hack/in-temporary.sh go -C hack/boards test -count=1 -vet=off ./...
	@hack/in-temporary.sh go -C hack/pictures test -count=1 -vet=off ./...
	@hack/in-temporary.sh go -C hack/alerts test -count=1 -vet=off ./...

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters
	@hack/in-temporary.sh hack/lint.sh

## Test

# hack/runtests defines stages, lanes and groups, and records what has passed. Its report is
# dist/report.txt.
.PHONY: test
test: runtests ## Run the tests for every change: all but the slow groups whose inputs have not changed
	@exec $(BIN)/runtests test

.PHONY: test-all
test-all: runtests ## Run all tests, including those that have passed before
	@exec $(BIN)/runtests all

.PHONY: quick
quick: runtests $(BIN)/golangci-lint ## Run unit tests and lint of what changed since the merge base (under a minute)
	@exec $(BIN)/runtests quick

.PHONY: test-unit
test-unit: runtests ## Run the tests that need no local cluster
	@exec $(BIN)/runtests test unit race

.PHONY: test-e2e
test-e2e: runtests ## Run the tests on local clusters, without the slow groups
	@exec $(BIN)/runtests test clusters

E2E_CLUSTER ?= $(CURDIR)/dist/e2e-cluster
.PHONY: e2e
e2e: ## Run scenes of test/e2e on a cluster that keeps running (RUN=TestRaising; make e2e-down stops it)
	@$(GO_BUILD) -o $(BIN)/cluster ./test/cluster/cmd/cluster
	@$(BIN)/cluster start --dir $(E2E_CLUSTER) --fleet test/e2e/testdata/fleet.yaml
	@E2E_CLUSTER=$(E2E_CLUSTER) CGO_ENABLED=0 go test -trimpath -vet=off -ldflags='-s -w' -count=1 -parallel 8 -timeout 30m $(if $(V),-v) ./test/e2e -run '$(RUN)'

.PHONY: e2e-down
e2e-down: ## Stop the cluster that make e2e has started
	@$(GO_BUILD) -o $(BIN)/cluster ./test/cluster/cmd/cluster
	@$(BIN)/cluster stop --dir $(E2E_CLUSTER)

.PHONY: runtests
runtests:
	@mkdir -p $(BIN) && $(GO_BUILD) -o $(BIN)/runtests ./hack/runtests

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s each); failing inputs are stored under testdata/fuzz
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh

.PHONY: mutants
mutants: ## Break the product's rules one at a time and count how many the tests notice (RUN=regexp; fails below 90 %)
	@CGO_ENABLED=0 GOFLAGS=-trimpath go run ./hack/mutants -run '$(RUN)'

.PHONY: bench-plugin
bench-plugin: ## Measure capacity-card against Volcano's capacity (fails when a limit is exceeded)
	@hack/bench-plugin.sh

.PHONY: bench-session
bench-session: ## Measure cardreclaim at 5,000 nodes: pods that cannot be served, large gangs (fails when a limit is exceeded)
	@hack/bench-session.sh

.PHONY: bench-drain
bench-drain: controlplane-full build ## Compare this scheduler with Volcano's: 4,000 pods on 500 nodes (RUNS=3; fails when ours is slower)
	@$(GO_BUILD) -o $(BIN)/bench ./test/bench
	@$(BIN)/bench -runs $(or $(RUNS),3)

.PHONY: bench-tide
bench-tide: controlplane build ## Compare cardreclaim with Volcano's reclaim on 500 nodes (RUNS=3; fails when a limit is exceeded)
	@$(GO_BUILD) -o $(BIN)/bench-tide ./test/tide/cmd/bench-tide
	@$(BIN)/bench-tide -runs $(or $(RUNS),3)

.PHONY: bench-operator
bench-operator: controlplane programs ## Measure the operator at 5,000 nodes, 50,000 pods and 1,000 CardQuotas (ARGS='-duration 10m'; fails when a limit is exceeded)
	@$(GO_BUILD) -o $(BIN)/bench-operator ./test/bench/cmd/bench-operator
	@$(BIN)/bench-operator $(ARGS)

.PHONY: clean
clean: ## Remove ./bin and dist; the cache shared by all clones stays in ~/.cache/cardquota
	@rm -rf $(BIN) dist
