package charts

import (
	"slices"
	"strings"
	"testing"
)

// TestSimulatedGPUsComeFirst enables the simulator: the agents that need GPUs come after it, and use its driver.
func TestSimulatedGPUsComeFirst(t *testing.T) {
	const values = "{sim: {enabled: true}, draPlugin: {enabled: true}}"
	stages, err := Stages(installed(valuesFrom(t, values)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stages {
		names = append(names, s.Name)
		if s.Name == "driver-loader" {
			t.Error("the driver loader is installed on simulated nodes")
		}
		for _, root := range driverRoots(s.Manifest) {
			if root != "/run/nvidia/driver" {
				t.Errorf("%s uses the driver in %s", s.Name, root)
			}
		}
	}
	first := slices.Index(names, "gpu-sim")
	for _, name := range []string{"container-toolkit", "dcgm-exporter", "mig-manager", "device-plugin", "dra-plugin"} {
		at := slices.Index(names, name)
		if first < 0 || at < first || !slices.Contains(stages[at].Needs, "gpu-sim") || len(driverRoots(stages[at].Manifest)) == 0 {
			t.Errorf("%s does not need gpu-sim, does not come after it, or has no driver root: %v", name, names)
		}
	}
}

// TestADriverRootTakesPrecedenceOverTheSimulators sets the driver root of all agents, as for a pool with real GPUs.
func TestADriverRootTakesPrecedenceOverTheSimulators(t *testing.T) {
	stages, err := Stages(installed(valuesFrom(t, "{sim: {enabled: true}, global: {nvidiaDriverRoot: /opt/driver}}")))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		for _, root := range driverRoots(s.Manifest) {
			if root != "/opt/driver" {
				t.Errorf("%s uses the driver in %s", s.Name, root)
			}
		}
	}
}

// driverRoots returns the driver roots of the containers in a manifest.
func driverRoots(manifest string) []string {
	var roots []string
	for _, part := range strings.Split(manifest, "name: NVIDIA_DRIVER_ROOT\n")[1:] {
		_, value, _ := strings.Cut(part, "value: ")
		value, _, _ = strings.Cut(value, "\n")
		roots = append(roots, strings.Trim(value, `"`))
	}
	return roots
}

// TestNothingOfTheSimulatorIsInstalledUnasked renders the chart with and without the orchestrator: without
// sim.enabled, a release has no object of the simulator, not even its rights.
func TestNothingOfTheSimulatorIsInstalledUnasked(t *testing.T) {
	const object = "app.kubernetes.io/name: gpu-sim"
	for values, want := range map[string]bool{
		"{}": false, "{orchestrator: {enabled: false}}": false, "{sim: null}": false, "{sim: {enabled: null}}": false,
		"{sim: {enabled: true}}": true, "{sim: {enabled: true}, orchestrator: {enabled: false}}": true,
	} {
		c, err := LoadFolder(umbrella)
		if err != nil {
			t.Fatal(err)
		}
		text, err := Render(c, installed(valuesFrom(t, values)))
		if err != nil {
			t.Fatalf("%s: %v", values, err)
		}
		if got := strings.Contains(text, object); got != want {
			t.Errorf("%s: the release has objects of the simulator: %t, want %t", values, got, want)
		}
	}
}
