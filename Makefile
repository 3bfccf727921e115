# Outrigger. "make help" lists the targets.
include versions.mk
# The version of a nightly has the date of its commit, and sorts before the release.
export CHANNEL ?= stable
ifeq ($(CHANNEL),nightly)
VERSION := $(VERSION)-nightly.$(shell TZ=UTC0 git log -1 --date=format-local:%Y%m%d --format=%cd)
endif
export VERSION OS_BASE REVISION GO_VERSION GOLANG_IMAGE DEBIAN_IMAGE
export GOWORK := off
# One step downloads the modules that a target needs. The later steps are offline.
export DOWNLOAD_GOPROXY := $(GOPROXY)
export GOPROXY := off
# The first go command of a download gets this toolchain, if it is not installed.
export GOTOOLCHAIN := go$(GO_VERSION)
# go-nvml wraps functions that NVML calls deprecated.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
export MAKECMDGOALS

MODULES := $(shell tools/modules.sh)
# Check the registry before anything is built for it. The dry run below does not have it.
ifndef STEPS
ifneq ($(filter push push-charts publish,$(MAKECMDGOALS)),)
ifeq ($(REGISTRY),)
$(error outrigger: no registry: set REGISTRY, for example: make $(MAKECMDGOALS) REGISTRY=registry.example.org/gpu)
endif
ifneq ($(findstring ://,$(REGISTRY)),)
$(error outrigger: the registry has a scheme: make $(MAKECMDGOALS) REGISTRY=$(lastword $(subst ://, ,$(REGISTRY))))
endif
endif
endif
# A dry run of make counts the steps of the goals.
ifndef STEPS
export STEPS := $(shell $(MAKE) --dry-run STEPS=0 $(or $(MAKECMDGOALS),help) 2>/dev/null | grep -o tools/step.sh | wc -l)
endif
# Each use of STEP has the next number.
STEP = $(eval taken += .)STEP=$(words $(taken)) tools/step.sh

# The programs of a cluster, and the programs that tests also use.
CLUSTER := kubernetes containerd runc cni pause
TESTED := $(CLUSTER) nfd docker crio
# The programs of a cluster with thousands of nodes that run no pods.
SCALE := kubernetes kwok
# The tools that package a release. A test also makes one.
PACKAGERS := tools/helm tools/nfpm
# The commands and images that the demo runs. They include all agents, but not the DRA plugin.
AGENTS := $(filter agents/%,$(MODULES))
DEMO := $(addsuffix /...,$(filter-out agents/device-plugin,$(AGENTS))) agents/device-plugin agents/device-plugin/mps-control-daemon \
        images orchestrator samples/vectoradd sim/cmd/gpu-sim test/cluster test/e2e/demo
DEMO_IMAGES := $(notdir $(AGENTS)) orchestrator vectoradd

# $(call download,FOLDER…): downloads the modules that each folder requires, in one step.
download = $(STEP) "download Go modules" tools/download.sh $(sort $(1))
# $(call components,NAME…): builds each of these programs of a cluster, in one step each.
components = $(foreach part,$(1),$(STEP) "build $(part)" test/cluster/build.sh bin/cluster-components $(part) &&) :
# Do not use $(MAKE): make runs such lines even in a dry run.
libs = $(STEP) "build the simulator's libraries" make -C sim/lib OUT=$(CURDIR)/bin/lib
# The folders below test/cluster/components that pin the programs $(1). pause is our own program.
pins = $(addprefix test/cluster/components/,$(filter-out pause,$(1)))
# The modules that contain the folders $(1).
owners = $(foreach module,$(MODULES),$(if $(filter $(module) $(module)/%,$(1)),$(module)))

# The program that pushes.
pusher = tools/preflight.sh && $(call download,images) && $(STEP) "build the program images" tools/build.sh images

.DEFAULT_GOAL := help
.PHONY: help build cluster demo demo-down test check e2e bench soak sim charts packages images push push-charts publish pins bump sync setup root everything \
        free clean release

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

## Targets that other targets need.

setup:
	@tools/preflight.sh
	@$(STEP) "install Debian packages" tools/packages.sh

root:
	@tools/preflight.sh root

# All programs and files that the tests on a cluster use.
everything: root setup
	@$(STEP) "install packages of the tests" tools/packages.sh packages-test.txt
	@$(STEP) "get the kernel of guests" test/qemu/kernel.sh bin/qemu
	@$(call download,$(MODULES) $(call pins,$(TESTED)) tools/gotestsum $(PACKAGERS))
	@$(libs)
	@$(STEP) "build the binaries" tools/build.sh
	@$(STEP) "write the images" tools/images.sh
	@$(call components,$(TESTED))
	@$(STEP) "build gotestsum" tools/tool.sh gotestsum

# The cluster tests need the whole machine. Fail if a cluster runs, and remove the remains of a dead
# one.
free: everything
	@! bin/cluster status >/dev/null 2>&1 || { \
	  echo "outrigger: a cluster is up on this machine; run first: make demo-down" >&2; exit 1; }
	@bin/cluster down >/dev/null

## The targets for people.

build: setup ## build all binaries into bin/
	@$(call download,$(MODULES))
	@$(libs)
	@$(STEP) "build the binaries" tools/build.sh

sim: setup ## build the simulated GPU node: bin/gpu-sim and its libraries
	@$(call download,sim)
	@$(libs)
	@$(STEP) "build gpu-sim" tools/build.sh sim/...

images: build ## write the container images as OCI archives into out/images
	@$(STEP) "write the images" tools/images.sh

push: $(filter images,$(MAKECMDGOALS)) ## push the images of out/images to REGISTRY
	@$(pusher)
	@bin/images push --from out/images "$(REGISTRY)"

pins: ## write the base images of versions.mk into images/Dockerfile and the workflow of releases
	@tools/pins.sh

bump: ## write the next version, TO=YY.MM.PATCH, wherever the version stands
	@tools/bump.sh $(TO)

cluster: setup ## build what a test cluster runs: bin/cluster and bin/cluster-components
	@$(call download,$(call pins,$(CLUSTER)) sim test/cluster)
	@$(libs)
	@$(call components,$(CLUSTER))
	@$(STEP) "build cluster and gpu-sim" tools/build.sh test/cluster sim/cmd/gpu-sim

charts: setup ## check and package the charts into out/charts, also as an OCI layout
	@$(call download,tools/helm images)
	@$(STEP) "build helm" tools/tool.sh helm
	@$(STEP) "get Node Feature Discovery's chart" tools/nfd-chart.sh get out/nfd-chart
	@$(STEP) "build the program images" tools/build.sh images
	@$(STEP) "package the charts" tools/charts.sh

push-charts: charts ## package the charts, and push them to REGISTRY/charts
	@bin/images push --from out/charts/oci "$(REGISTRY)"

# The architectures of packages and releases, and the modules that have their programs.
ARCHS ?= amd64 arm64
TOOLKIT := agents/container-toolkit/tools agents/container-toolkit/toolkit-gpus
RELEASED := $(filter-out charts images pkg test/%,$(MODULES))
packages: setup ## write the .deb and .rpm packages of the container toolkit into out/packages
	@tools/cross.sh -- $(ARCHS)
	@$(call download,tools/nfpm agents/container-toolkit)
	@$(STEP) "build nfpm" tools/tool.sh nfpm
	@$(STEP) "build nvidia-ctk" tools/build.sh agents/container-toolkit/tools/nvidia-ctk
	@$(STEP) "build the programs for each architecture" tools/cross.sh $(addsuffix /...,$(TOOLKIT)) -- $(ARCHS)
	@$(STEP) "write the packages" tools/nfpm.sh out/packages $(ARCHS)

release: setup ## write a release into out/release/CHANNEL (stable, nightly) for ARCHS (amd64 arm64)
	@tools/release.sh check $(ARCHS)
	@$(call download,$(RELEASED) images $(PACKAGERS))
	@$(STEP) "get libc6 of other architectures" images/base/libc6.sh out/libc6 $(ARCHS)
	@$(STEP) "get Node Feature Discovery's chart" tools/nfd-chart.sh get out/nfd-chart
	@$(STEP) "build helm and nfpm" tools/tool.sh helm nfpm
	@$(STEP) "build the program images and nvidia-ctk" tools/build.sh images agents/container-toolkit/tools/nvidia-ctk
	@$(STEP) "build the programs for each architecture" tools/cross.sh $(addsuffix /...,$(RELEASED)) -- $(ARCHS)
	@$(STEP) "write the release" tools/release.sh write $(ARCHS)
	@echo "out/release/$(CHANNEL) has version $(VERSION); docs/releases.md says how to check and publish it"

publish: $(filter release,$(MAKECMDGOALS)) ## push the images and charts of out/release/CHANNEL to REGISTRY, and write out/release/assets
	@tools/release.sh assets
	@$(pusher)
	@bin/images push --record out/release/assets/images.txt --from out/release/$(CHANNEL)/images --from out/release/$(CHANNEL)/charts/oci "$(REGISTRY)"

demo: root setup ## schedule a GPU pod on a real Kubernetes with simulated GPUs
	@$(call download,$(call pins,$(CLUSTER)) charts $(call owners,$(DEMO)))
	@$(libs)
	@$(call components,$(CLUSTER))
	@$(STEP) "build the binaries" tools/build.sh $(DEMO)
	@$(STEP) "write the images" tools/images.sh $(DEMO_IMAGES)
	@bin/demo

demo-down: root ## remove everything that the demo started
	@[ -x bin/cluster ] || { $(call download,test/cluster) && $(STEP) "build the cluster program" tools/build.sh test/cluster; }
	@bin/cluster down

test: free ## run all tests: unit, ABI, cluster
	@tools/test.sh --complete -tags e2e

check: setup ## lint, known vulnerabilities and unit tests, quick
	@$(call download,$(MODULES) tools/gotestsum tools/golangci-lint tools/actionlint tools/govulncheck)
	@$(STEP) "download what go mod tidy reads" tools/download.sh --tidy $(MODULES)
	@$(libs)
	@$(STEP) "build the binaries" tools/build.sh
	@$(STEP) "build gotestsum and the linters" tools/tool.sh gotestsum golangci-lint actionlint govulncheck
	@tools/lint.sh
	@tools/vulncheck.sh
	@tools/test.sh

e2e: free ## run the cluster tests alone
	@tools/test.sh --complete -tags e2e test/cluster test/e2e

# Within 15 minutes on two processors.
bench: export BENCH_RESULTS ?= out/bench
bench: export BENCH_RUNS ?= 3
bench: export BENCH_REST ?= 20s
bench: root build ## measure, and write docs/benchmarks.md: our figures beside their targets
	@$(call download,$(call pins,$(SCALE)))
	@$(call components,$(SCALE))
	@bin/bench
	@$(call download,$(call pins,$(CLUSTER)))
	@$(call components,$(CLUSTER))
	@$(STEP) "write the images" tools/images.sh
	@bin/demo measure
	@bin/bench page --from $(BENCH_RESULTS)

soak: free ## fuzz for SOAK (2m) each; agents at work, at rest for IDLE (10m), in CHAOS (30m)
	@$(call download,$(call pins,kwok))
	@$(call components,kwok)
	@tools/soak.sh

sync: ## tidy every module and the workspace
	@$(if $(DOWNLOAD_GOPROXY),export GOPROXY=$(DOWNLOAD_GOPROXY),unset GOPROXY); GOWORK= go work sync && \
	for module in $(MODULES) $(patsubst %/go.mod,%,$(wildcard test/cluster/components/*/go.mod tools/*/go.mod)); do \
	  echo "tidy $$module"; (cd $$module && go mod tidy) || exit 1; done

clean: ## remove everything that was built
	@[ ! -e /run/outrigger-cluster ] || { echo "outrigger: a cluster runs from bin/; run first: make demo-down" >&2; exit 1; }
	rm -rf bin out
