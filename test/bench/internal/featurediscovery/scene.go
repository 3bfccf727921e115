package featurediscovery

import (
	"outrigger.dev/pkg/kube"
	"outrigger.dev/test/bench/internal/report"
)

// scene is a node with which feature discovery is measured.
type scene struct {
	name string
	// args are those of the agent.
	args []string
	// label is one that tells the hardware, and value what it is.
	label, value string
	// change is made and unmade.
	change change

	oneshot, rss report.Goal
}

// change is something that happens to the GPUs.
type change struct {
	// name says what, empty for nothing.
	name     string
	do, undo string
	// value is what the scene's label is while it is done.
	value string
	note  string
	// most bounds how often it is measured, 0 for as often as all.
	most int
}

const (
	countLabel  = "nvidia.com/gpu.count"
	sliceLabel  = "nvidia.com/mig-1g.5gb.count"
	oneshotPeak = 22
)

func goalOneshot(peer string) report.Goal { return report.Goal{Peer: peer, Target: 30} }
func goalRSS(peer string) report.Goal     { return report.Goal{Peer: peer, Target: 24} }

// shows tells whether a Node has the label of the scene with a value.
func (s scene) shows(value string) func(kube.Node) bool {
	return func(n kube.Node) bool { return n.Labels[s.label] == value }
}

func eight() scene {
	return scene{
		name: "8 GPUs", label: countLabel, value: "8",
		change: change{
			name: "GPU plugged in or out", do: "plug", undo: "unplug 8", value: "9",
			note: "NVML does not tell of it: the bus is looked at every 2 s", most: 3,
		},
		oneshot: goalOneshot("275 ms"), rss: goalRSS("52 MB"),
	}
}

func eightDivided() scene {
	return scene{
		name: "8 GPUs × 7 MIG", args: []string{"--mig-strategy", "mixed"}, label: sliceLabel, value: "56",
		// A100 GPUs number the GPU instances of one slice from 7 on.
		change:  change{name: "MIG device made or ended", do: "mig destroy 0 8", undo: "mig create 0 1g.5gb", value: "55"},
		oneshot: goalOneshot("241 ms"), rss: goalRSS(""),
	}
}

func sixteen() scene {
	return scene{name: "16 GPUs", label: countLabel, value: "16", oneshot: goalOneshot("487 ms"), rss: goalRSS("")}
}
