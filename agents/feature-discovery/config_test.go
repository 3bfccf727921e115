package main

import (
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/gpu/simtest"
)

const (
	whole = "version: v1\n"
	four  = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
	eight = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}}\n"
)

func TestConfigFile(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=l4")
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, whole)
	p := start(t, n, "--config-file", path)
	unshared := simulated(t, n)
	unshared["gpu.sharing-strategy"] = "none"
	p.has(unshared)

	shared := simulated(t, n)
	shared["gpu.product"] += "-SHARED"
	shared["gpu.sharing-strategy"], shared["gpu.replicas"] = "time-slicing", "4"
	write(t, path, four)
	p.has(shared)
	p.Said("config has changed")
	before, _ := content(t, p.file)

	write(t, path, "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: none}]}}\n")
	p.Said("level=ERROR", "new config rejected, keeping the previous one", path, "replicas")
	p.metric("config_refused{reason=")
	p.metric(`config_loads_total{result="error"} `)
	p.Hangup(1) // a refresh with the previous config
	p.ready()
	if after, _ := content(t, p.file); after != before {
		t.Errorf("a config that is rejected has changed the labels to %s", after)
	}

	shared["gpu.replicas"] = "8"
	write(t, path, eight)
	p.has(shared)
	if p.hasMetric("config_refused{") {
		t.Error("/metrics has a rejection, although the config is in effect")
	}
	write(t, path, whole)
	p.has(unshared)
}
