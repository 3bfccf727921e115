# Outrigger. "make help" lists the targets.
include versions.mk
export VERSION OS_BASE
export GOWORK := off
# go-nvml wraps functions that NVML calls deprecated.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
export MAKECMDGOALS

STEP    := tools/step.sh
MODULES := $(shell tools/modules.sh)

.DEFAULT_GOAL := help
.PHONY: help build demo demo-down test check e2e bench soak sim charts images sync setup root free tools components libs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

## What everything else stands on.

setup:
	@tools/preflight.sh
	@$(STEP) "install Debian packages" tools/packages.sh

root:
	@tools/preflight.sh root

tools: setup
	@$(STEP) "build helm and gotestsum" tools/tool.sh helm gotestsum

components: setup
	@for part in kubernetes containerd runc cni nfd pause; do \
	  $(STEP) "build $$part" test/cluster/build.sh bin/cluster-components $$part || exit 1; done

libs: setup
	@$(STEP) "build the simulator's libraries" $(MAKE) -C sim/lib OUT=$(CURDIR)/bin/lib

## The targets for people.

build: setup libs ## build all binaries into bin/
	@$(STEP) "build the binaries" tools/build.sh

sim: setup libs ## build the simulated GPU node: bin/gpu-sim and its libraries
	@$(STEP) "build gpu-sim" tools/build.sh sim

images: build ## write the container images as OCI archives into out/images
	@$(STEP) "write the images" bin/images build

charts: tools ## check and package the charts into out/charts
	@$(STEP) "package the charts" tools/charts.sh

demo: root build tools components images ## schedule a GPU pod on a real Kubernetes with simulated GPUs
	@bin/demo

demo-down: root ## remove everything that the demo started
	@[ -x bin/cluster ] || $(STEP) "build the cluster program" tools/build.sh test/cluster
	@bin/cluster down

# The cluster's tests have the machine to themselves. What a cluster that died
# has left is cleared away.
free: build
	@! bin/cluster status >/dev/null 2>&1 || { \
	  echo "outrigger: a cluster is up on this machine; run first: make demo-down" >&2; exit 1; }
	@bin/cluster down >/dev/null

test: root build tools components images free ## run all tests: unit, ABI, cluster
	@tools/test.sh -tags e2e

check: build tools ## lint and unit tests, quick
	@$(STEP) "build golangci-lint" tools/tool.sh golangci-lint
	@tools/lint.sh
	@tools/test.sh

e2e: root build tools components images free ## run the cluster tests alone
	@tools/test.sh -tags e2e test/cluster test/e2e

bench: root build ## measure; our figures beside their targets
	@bin/bench

soak: root build tools components images free ## fuzz for SOAK (2m) each; agents at work, and at rest for IDLE (10m)
	@tools/soak.sh

sync: ## tidy every module and the workspace
	@GOWORK= go work sync
	@for module in $(MODULES) $(wildcard test/cluster/components/*) tools; do \
	  echo "tidy $$module"; (cd $$module && go mod tidy) || exit 1; done

clean: ## remove everything that was built
	@[ ! -e /run/outrigger-cluster ] || { echo "outrigger: a cluster runs from bin/; run first: make demo-down" >&2; exit 1; }
	rm -rf bin out
