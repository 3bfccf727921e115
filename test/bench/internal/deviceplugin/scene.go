package deviceplugin

import (
	"fmt"

	"outrigger.dev/test/bench/internal/report"
)

// scene is a node and a config of the plugin, with its targets. Figures without a goal are not
// measured.
type scene struct {
	name string
	// args are the plugin's arguments, and config is the content of its config file, or empty.
	args   []string
	config string
	// gpus is the number of GPUs, and entries is the number of devices at the kubelet.
	gpus, entries int

	starts []variant
	// calls and cpu are the goals for the NVML calls and the processor time of a start.
	calls, cpu report.Goal
	back       report.Goal
	// requests are requests for a preferred allocation.
	requests []request
	allocate report.Goal
	hits     []hit
	memory   report.Goal
	peak     report.Goal
}

// variant is a way to start the plugin.
type variant struct {
	name string
	args []string
	goal report.Goal
}

// request is a series of requests for a preferred allocation, one per size. The result is the time
// of the slowest size.
type request struct {
	name  string
	sizes []int
	goal  report.Goal
}

// hit is an XID of a GPU or of one of its GPU instances. entries is the number of affected devices.
type hit struct {
	name     string
	instance bool
	entries  int
	goal     report.Goal
}

// The targets for every node, in ms and MiB.
func goalStart(peer string) report.Goal { return report.Goal{Peer: peer, Target: 20} }

// goalStop has the peer's figures from a busy machine with two cores. A process with an inotify
// watch waits in its exit until the kernel has removed the watch, for about 13 ms there.
func goalStop() report.Goal { return report.Goal{Peer: "11–18 ms", Target: 20} }

func goalBack() report.Goal                 { return report.Goal{Peer: "5 ms to 1.0 s", Target: 50} }
func goalXID(peer string) report.Goal       { return report.Goal{Peer: peer, Target: 3} }
func goalPreferred(peer string) report.Goal { return report.Goal{Peer: peer, Target: 1} }
func goalAllocate() report.Goal             { return report.Goal{Peer: "0.11–0.18 ms", Target: 1} }
func goalMemory(peer string) report.Goal    { return report.Goal{Peer: peer, Target: 6} }

func upTo(n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = i + 1
	}
	return sizes
}

func starts(plain, cdi report.Goal) []variant {
	return []variant{
		{"plain", nil, plain},
		{"CDI", []string{"--device-list-strategy", "cdi-cri"}, cdi},
	}
}

// replicated returns a config that advertises each device n times.
func replicated(n int) string {
	return fmt.Sprintf(`version: v1
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: %d}
`, n)
}

// eight returns the scenes of a node with 8 whole GPUs.
func eight() []scene {
	return []scene{
		{
			name: "8 GPUs", gpus: 8, entries: 8,
			starts: starts(goalStart("9–13 ms without latency"), goalStart("235–303 ms")),
			calls:  report.Goal{Peer: "158", Target: 157},
			cpu:    report.Goal{Peer: "11–13 ms without latency"},
			back:   goalBack(),
			requests: []request{
				{"sizes 1 to 8", upTo(8), report.Goal{Peer: "1.5–3.0 ms, 2835 calls", Target: 0.3}},
			},
			allocate: goalAllocate(),
			hits:     []hit{{"XID", false, 1, goalXID("1.6–2.9 ms")}},
			memory:   goalMemory("3.5 MiB"), peak: report.Goal{Peer: "26–27 MB"},
		},
		{
			name: "8 GPUs × 10 replicas", config: replicated(10), gpus: 8, entries: 80,
			requests: []request{
				{"sizes 1 to 80", []int{1, 2, 4, 8, 16, 40, 80}, goalPreferred("0.4–5.5 ms")},
			},
			allocate: goalAllocate(),
			hits:     []hit{{"XID", false, 10, goalXID("1.6–2.9 ms, 1 of 10")}},
		},
	}
}

// eightPartitioned returns the scene of a node with 8 GPUs of 7 MIG devices.
func eightPartitioned() []scene {
	return []scene{{
		name: "8 GPUs × 7 MIG", args: []string{"--mig-strategy", "single"}, gpus: 8, entries: 56,
		starts:   starts(goalStart("1.0–1.2 s"), goalStart("1.0–1.2 s")),
		back:     goalBack(),
		requests: []request{{"sizes 1 to 56", []int{1, 2, 4, 8, 28, 56}, goalPreferred("")}},
		allocate: goalAllocate(),
		hits: []hit{
			{"XID of the GPU", false, 7, goalXID("")},
			{"XID of an instance", true, 1, goalXID("missed")},
		},
		memory: goalMemory(""), peak: report.Goal{},
	}}
}

// sixteen returns the scenes of a node with 16 whole GPUs.
func sixteen() []scene {
	return []scene{
		{
			name: "16 GPUs", gpus: 16, entries: 16,
			starts: starts(goalStart(""), goalStart("")),
			requests: []request{
				{"size 3", []int{3}, goalPreferred("66 s")},
				{"sizes 1 to 16", upTo(16), goalPreferred("66 s")},
			},
			memory: goalMemory(""),
		},
		{
			name: "16 GPUs × 10 replicas", config: replicated(10), gpus: 16, entries: 160,
			requests: []request{
				{"sizes 1 to 160", []int{1, 2, 4, 8, 16, 80, 160}, goalPreferred("0.7–19 ms")},
			},
			hits: []hit{{"XID", false, 10, goalXID("1 of 10")}},
		},
	}
}

// dense returns the scene of the largest node, which has to perform like any other.
func dense() []scene {
	return []scene{{
		name: denseName, args: []string{"--mig-strategy", "single"}, config: replicated(100), gpus: 16, entries: 11200,
		starts:   starts(report.Goal{}, report.Goal{}),
		back:     goalBack(),
		requests: []request{{"sizes 1 to 112", []int{1, 8, 112}, report.Goal{Target: 10}}},
		allocate: goalAllocate(),
		hits: []hit{
			{"XID of the GPU", false, 700, goalXID("")},
			{"XID of an instance", true, 100, goalXID("")},
		},
		memory: report.Goal{Target: 12}, peak: report.Goal{},
	}}
}

const denseName = "16 GPUs × 7 MIG × 100 replicas"
