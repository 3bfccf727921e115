package main

import (
	"log/slog"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
)

// TestLabelsFollowTheConfigOfThePlugin has a device plugin whose config feature
// discovery finds on the node: what is advertised and what is labelled agree.
func TestLabelsFollowTheConfigOfThePlugin(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	run := t.TempDir()
	p := start(t, n, "--run-root", run)
	own := start(t, n, "--run-root", run, "--mig-strategy=none")
	unshared := map[string]string{"gpu.replicas": "1", "gpu.sharing-strategy": "none"}
	p.has(unshared)

	shared := func(replicas int) config.Config {
		c := config.Default()
		c.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{
			{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu", Replicas: replicas},
		}}
		return c
	}
	publisher := gpuconfig.NewPublisher(contract.Dir{Root: run}, "device-plugin", shared(4), slog.New(slog.DiscardHandler))
	agenttest.Run(t, publisher.Run)
	p.has(map[string]string{"gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing", "gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"})
	publisher.Follow(configfile.Follower[config.Config]{Configure: func(config.Config) {}}).Configure(shared(8))
	p.has(map[string]string{"gpu.replicas": "8"})
	own.has(unshared)

	later := start(t, n, "--run-root", run)
	later.has(map[string]string{"gpu.replicas": "8"})
	later.Said("using the config of the device plugin")
}
