package featurediscovery

import (
	"outrigger.dev/pkg/kube"
	"outrigger.dev/test/bench/internal/report"
)

// scene is a node with which feature discovery is measured.
type scene struct {
	name string
	// part is that of feature discovery that is measured.
	part string
	// args are those of the agent.
	args []string
	// label is one that tells the hardware, and value what it is.
	label, value string
	// changes are made in turn, and each starts with the GPUs as the one before has
	// left them.
	changes []change
	// most bounds how often they are measured, 0 for as often as all.
	most int

	oneshot, rss report.Goal
}

// change is something that happens to the GPUs.
type change struct {
	// name says what.
	name, command string
	// value is what the scene's label is then.
	value string
	note  string
}

const (
	labelsPart   = "feature discovery"
	presencePart = "presence part"

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
		name: "8 GPUs", part: labelsPart, label: countLabel, value: "8",
		changes: []change{
			{"GPU plugged in", "plug", "9", "NVML does not tell of it"},
			{"GPU unplugged", "unplug 8", "8", ""},
		},
		most:    3, // a plug waits for the next look at the bus
		oneshot: goalOneshot("275 ms"), rss: goalRSS("52 MB"),
	}
}

func eightDivided() scene {
	return scene{
		name: "8 GPUs × 7 MIG", part: labelsPart, args: []string{"--mig-strategy", "mixed"}, label: sliceLabel, value: "56",
		changes: []change{
			// A100 GPUs number the GPU instances of one slice from 7 on.
			{"MIG device ended", "mig destroy 0 8", "55", ""},
			{"MIG device made", "mig create 0 1g.5gb", "56", ""},
		},
		oneshot: goalOneshot("241 ms"), rss: goalRSS(""),
	}
}

func sixteen() scene {
	return scene{name: "16 GPUs", part: labelsPart, label: countLabel, value: "16", oneshot: goalOneshot("487 ms"), rss: goalRSS("")}
}

// presence is the part that runs on every node, without a driver.
func presence() scene {
	return scene{name: "8 GPUs", part: presencePart, args: []string{"--presence"}, label: "nvidia.com/gpu.present", value: "true"}
}
