//go:build e2e

package e2e_test

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// readmeExample is the config file of the README of NVIDIA's plugin.
const readmeExample = `config.map.config=
version: v1
flags:
  migStrategy: "none"
  failOnInitError: true
  nvidiaDriverRoot: "/"
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: envvar
    deviceIDStrategy: uuid
`

// TestValuesFilesOfNVIDIAsChart installs agents as somebody does who comes from NVIDIA's
// chart: with the values file that they have, for each minor version.
func TestValuesFilesOfNVIDIAsChart(t *testing.T) {
	t.Run("0.17 and 0.18", throughTheRuntime)
	t.Run("0.19 with MPS", withMPS)
	t.Run("0.20", func(t *testing.T) {
		withFile(t, "0.20", "device-plugin")
		allocatable(t, gpus, limit)
		result, err := shared.RunVectorAdd(t.Context(), "with-their-values", limit)
		if err != nil {
			t.Fatal(err)
		}
		usedOneGPU(t, result)
	})
	// The config says envvar, which takes precedence over the chart's default.
	pluginWith(t, readmeExample)
	allocatable(t, gpus, limit)
}

// throughTheRuntime installs the file of 0.17, and upgrades to that of 0.18: with the driver of
// a container, and GPUs by variables, for which the toolkit brings the runtime.
func throughTheRuntime(t *testing.T) {
	driverInContainer(t)
	api := bare(t)
	// Feature discovery takes its labels with it, and an agent that its DaemonSet does not want on
	// the node any more leaves what it has changed there. So no label selects the node.
	toolkit(t, "acceptVisibleDevicesEnvvar=true", "nvidiaDriverRoot="+containerDriver,
		"affinity=", `nodeSelector.kubernetes\.io/hostname=`+gpuNode())
	// Before the toolkit, whose tools stay while containers run that they started.
	t.Cleanup(func() {
		for _, chart := range []string{"device-plugin", featureDiscovery} {
			if err := shared.Uninstall(context.WithoutCancel(t.Context()), chart); err != nil {
				t.Error(err)
			}
		}
	})
	for _, version := range []struct{ name, migStrategy string }{{"0.17", "mixed"}, {"0.18", ""}} {
		t.Run(version.name, func(t *testing.T) {
			withFile(t, version.name, featureDiscovery, "device-plugin")
			allocatable(t, gpus, limit)
			nodeIs(t, api, gpuNode(), "it has the labels", func(n stack.Node) bool {
				return n.Labels["nvidia.com/mig.strategy"] == version.migStrategy && labelled(map[string]string{
					"nvidia.com/gpu.count": strconv.Itoa(gpus), "nvidia.com/gpu.replicas": "1",
				})(n)
			})
			eventually(t, "containers get the driver of the container", func() bool {
				return onGPUNode(t, `grep -qs '"hostPath": "`+containerDriver+`/' `+gpuSpec+" && echo found || true") == "found"
			})
			aPodThroughTheRuntime(t)
		})
	}
}

// withFile installs charts with a values file of NVIDIA's chart.
func withFile(t *testing.T, version string, charts ...string) {
	t.Helper()
	for _, chart := range charts {
		release, err := shared.Agent(chart)
		if err != nil {
			t.Fatal(err)
		}
		release.File = "../../charts/testdata/device-plugin/nvidia-" + version + ".values.yaml"
		release.NoWait = version == mpsVersion
		if err := shared.Install(t.Context(), release); err != nil {
			t.Fatal(err)
		}
	}
}

// containerDriver is where a driver is that a container brings.
const containerDriver = "/run/nvidia/driver"

// driverInContainer shows the driver of the GPU node where a container brings it, until the
// test ends.
func driverInContainer(t *testing.T) {
	t.Helper()
	dir, err := shared.GPUSim(gpuNode())
	if err != nil {
		t.Fatal(err)
	}
	cleanUpOnNode(t, "umount "+containerDriver+" && rmdir "+containerDriver)
	onGPUNode(t, "mkdir -p "+containerDriver+" && mount --bind "+dir+containerDriver+" "+containerDriver)
}

// mpsVersion is the version whose values file shares GPUs by MPS.
const mpsVersion = "0.19"

// withMPS installs the file that shares GPUs by MPS, with ten replicas of each.
func withMPS(t *testing.T) {
	removeMPSFolders(t)
	api := bare(t)
	withFile(t, mpsVersion, featureDiscovery, "device-plugin")
	eventually(t, "the plugin misses the hook of NVIDIA's packages", func() bool {
		return logs(t, "device-plugin", "find hook "+packagedHook+" on the host", "install it, or leave nvidia-cdi-hook-path empty")
	})
	installPackagedHook(t)
	nodeIs(t, api, gpuNode(), "its labels say that MPS shares its GPUs", labelled(map[string]string{
		"nvidia.com/gpu.count": strconv.Itoa(gpus), "nvidia.com/gpu.replicas": "10",
		"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true",
	}))
	allocatable(t, 10*gpus, limit)
	result, err := shared.RunVectorAdd(t.Context(), "by-mps", limit)
	if err != nil {
		t.Fatal(err)
	}
	usedOneGPU(t, result)
	mode := onGPUNode(t, "nvidia-smi --query-gpu=compute_mode --format=csv,noheader | sort -u")
	if mode != "Exclusive_Process" {
		t.Errorf("the compute modes of the GPUs are %q, want only MPS to use them", mode)
	}
	// The log of the server is of the daemon whose client has computed.
	served := onGPUNode(t, "grep -l connected /run/nvidia/mps/*/log/server.log | wc -l")
	if served != "1" {
		t.Errorf("%s daemons have served a client, want one", served)
	}
}

// logs reports whether the log of a DaemonSet's pod on the GPU node has texts.
func logs(t *testing.T, daemonSet string, texts ...string) bool {
	t.Helper()
	pod := podOf(t, daemonSet, gpuNode())
	if pod == "" {
		return false
	}
	log, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", pod)
	return err == nil && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(log, text) })
}

// packagedHook is where NVIDIA's packages have the hook of CDI specs.
const packagedHook = "/usr/bin/nvidia-cdi-hook"

// installPackagedHook gives the GPU node that hook until the test ends.
func installPackagedHook(t *testing.T) {
	t.Helper()
	built, err := filepath.Abs("../../bin/nvidia-cdi-hook")
	if err != nil {
		t.Fatal(err)
	}
	cleanUpOnNode(t, "rm -f "+packagedHook)
	onGPUNode(t, "cp "+built+" "+packagedHook+".new && mv "+packagedHook+".new "+packagedHook)
}

// removeMPSFolders removes the folders of the MPS daemons when the test ends. The supervisor
// leaves them mounted for the next one.
func removeMPSFolders(t *testing.T) {
	t.Helper()
	cleanUpOnNode(t, "cut -d' ' -f2 /proc/mounts | grep ^/run/nvidia/mps/ | sort -r | xargs -r umount; rm -rf /run/nvidia/mps")
}

// cleanUpOnNode runs a shell command on the GPU node when the test ends.
func cleanUpOnNode(t *testing.T, command string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := shared.Exec(context.WithoutCancel(t.Context()), gpuNode(), "sh", "-c", command); err != nil {
			t.Error(err)
		}
	})
}
