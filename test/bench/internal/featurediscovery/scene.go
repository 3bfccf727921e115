package featurediscovery

import (
	"outrigger.dev/test/bench/internal/report"
)

// scene is a node, with the targets of feature discovery.
type scene struct {
	name string
	// part is the measured part of feature discovery.
	part string
	// args are the agent's arguments.
	args []string
	// label is a label that shows the hardware, and value its value.
	label, value string
	// changes are applied in turn, each to the result of the one before.
	changes []change
	// polled says that the agent finds the first change of a run by polling. The number of runs is then limited to
	// polledRuns.
	polled bool

	oneshot, memory report.Goal
	// calls and rest are the goals for the NVML calls of a one-shot run, and of a minute at rest.
	calls, rest report.Goal
}

// change is one change of the GPUs.
type change struct {
	// name is the name in the table, and command is a command of gpu-sim.
	name, command string
	// value is the value of the scene's label after the change.
	value string
	note  string
}

const (
	labelsPart   = "feature discovery"
	presencePart = "presence part"

	countLabel  = "nvidia.com/gpu.count"
	sliceLabel  = "nvidia.com/mig-1g.5gb.count"
	oneshotPeak = 22

	polledRuns = 3
)

func goalOneshot(peer string) report.Goal { return report.Goal{Peer: peer, Target: 30} }
func goalMemory(peer string) report.Goal  { return report.Goal{Peer: peer, Target: 12} }

// shows returns a function that reports whether a Node has the label of the scene with
// a value.
func (s scene) shows(value string) func(node) bool {
	return func(n node) bool { return n.Labels[s.label] == value }
}

func eight() scene {
	return scene{
		name: "8 GPUs", part: labelsPart, label: countLabel, value: "8",
		changes: []change{
			{"GPU plugged in", "plug", "9", "NVML does not report it"},
			{"GPU unplugged", "unplug 8", "8", ""},
		},
		polled:  true, // a plugged GPU is found at the next poll of the bus
		oneshot: goalOneshot("275 ms"), memory: goalMemory("52 MB of RSS"),
		calls: report.Goal{Peer: "135", Target: 134}, rest: report.Goal{Target: 12},
	}
}

func eightPartitioned() scene {
	return scene{
		name: "8 GPUs × 7 MIG", part: labelsPart, args: []string{"--mig-strategy", "mixed"}, label: sliceLabel, value: "56",
		changes: []change{
			// A100 GPUs number GPU instances of one slice from 7.
			{"MIG device ended", "mig destroy 0 8", "55", ""},
			{"MIG device made", "mig create 0 1g.5gb", "56", ""},
		},
		oneshot: goalOneshot("241 ms"), memory: goalMemory(""),
	}
}

func sixteen() scene {
	return scene{name: "16 GPUs", part: labelsPart, label: countLabel, value: "16", oneshot: goalOneshot("487 ms"), memory: goalMemory("")}
}

// presence returns the scene of the part that runs on every node, without a driver.
func presence() scene {
	return scene{name: "8 GPUs", part: presencePart, args: []string{"--presence"}, label: "nvidia.com/gpu.present", value: "true"}
}
