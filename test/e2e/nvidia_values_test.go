//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
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

// TestValuesFilesOfNVIDIAsChart installs the device plugin as somebody does who comes
// from NVIDIA's chart.
func TestValuesFilesOfNVIDIAsChart(t *testing.T) {
	pluginWith(t)
	release, err := shared.Agent("device-plugin")
	if err != nil {
		t.Fatal(err)
	}
	release.File = "../../charts/testdata/device-plugin/nvidia-0.20.values.yaml"
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	allocatable(t, gpus, limit)
	result, err := shared.RunVectorAdd(t.Context(), "with-their-values", limit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(result.Log, "Test PASSED") {
		t.Errorf("the log lacks that the test passed:\n%s", result.Log)
	}
	// The config says envvar, which takes precedence over the chart's default.
	pluginWith(t, readmeExample)
	allocatable(t, gpus, limit)
}
