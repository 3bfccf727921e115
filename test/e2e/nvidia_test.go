//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/nvidia"
	"outrigger.dev/test/e2e/stack"
)

// TestNVIDIAsManifestsRunWithThisImage swaps nothing but the image.
func TestNVIDIAsManifestsRunWithThisImage(t *testing.T) {
	name, err := shared.Image("device-plugin")
	if err != nil {
		t.Fatal(err)
	}
	image := nvidia.Image{Name: name, StandIn: true}
	for _, agent := range []string{"device-plugin", "feature-discovery"} {
		if err := shared.Uninstall(t.Context(), agent); err != nil {
			t.Fatal(err)
		}
	}
	// To delete it takes longer than to delete what it holds.
	t.Cleanup(func() {
		kubectlCleanup(t, "delete", "namespace", nvidia.Namespace, "--ignore-not-found", "--wait", "--timeout=4m")
	})
	const shared4 = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
	// The manifests of the versions between differ only in names.
	versions := nvidia.Versions()
	for _, version := range []string{versions[0], versions[len(versions)-1]} {
		t.Run("static manifests of "+version, func(t *testing.T) {
			plugin, err := nvidia.StaticPlugin(version, image)
			install(t, plugin, err)
			discovery, err := nvidia.StaticDiscovery(image)
			install(t, discovery, err)
			allocatable(t, gpus, limit)
			features(t, "nvidia.com/gpu.count=8", "nvidia.com/gpu.replicas=1")
		})
		t.Run("chart "+version, func(t *testing.T) {
			chart, err := nvidia.Chart(version, image, shared4)
			install(t, chart, err)
			allocatable(t, 4*gpus, limit)
			features(t, "nvidia.com/gpu.count=8", "nvidia.com/gpu.replicas=4")
		})
	}
}

// install applies a manifest until the test ends.
func install(t *testing.T, manifest string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			pods, _ := shared.Kubectl(ctx, "-n", nvidia.Namespace, "describe", "pods")
			t.Log(pods)
		}
		kubectlCleanup(t, "-n", nvidia.Namespace, "delete", "daemonsets,configmaps,serviceaccounts,roles,rolebindings", "--all",
			"--cascade=foreground", "--wait", "--timeout=4m")
		kubectlCleanup(t, "delete", "clusterrole,clusterrolebinding", nvidia.Account, "--ignore-not-found")
		// The folders of MPS stay where a test of MPS has used them.
		const clear = "rm -rf " + nfdFolder + "; rmdir /run/nvidia/mps/shm /run/nvidia/mps 2>/dev/null; true"
		if _, err := shared.Exec(ctx, gpuNode(), "sh", "-c", clear); err != nil {
			t.Error(err)
		}
		// The names of the plugin's resources stay, without devices.
		if err := shared.WaitAllocatable(ctx, gpuNode(), stack.GPU, 0, limit); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// features waits until the features file of the GPU node has these lines.
func features(t *testing.T, lines ...string) {
	t.Helper()
	eventually(t, "the features file has "+strings.Join(lines, " and "), func() bool {
		file, err := shared.Exec(t.Context(), gpuNode(), "cat", nfdFolder+"/gfd")
		for _, line := range lines {
			if err != nil || !strings.Contains("\n"+file, "\n"+line+"\n") {
				return false
			}
		}
		return true
	})
}
