package orchestrator

import "outrigger.dev/test/bench/internal/report"

// goals are the goals for one number of nodes.
type goals struct {
	rollout, requests, cpu, memory, rest, broken report.Goal
}

// goals returns the targets, and the figures of NVIDIA's gpu-operator v26.7 with seven pods
// on each node of kwok, on two shared processors.
func (b *Bench) goals() goals {
	switch b.Nodes {
	case 10:
		return goals{
			rollout:  report.Goal{Peer: "2.7 s"},
			requests: report.Goal{Peer: "304 calls"},
			cpu:      report.Goal{Peer: "0.5 s"},
			memory:   report.Goal{Peer: "75 MiB", Target: 64},
			rest:     report.Goal{Peer: "11 calls", Target: 11},
			broken:   report.Goal{Peer: "1703 calls", Target: 10},
		}
	case 1000:
		return goals{
			rollout:  report.Goal{Peer: "262 s, bound by the machine"},
			requests: report.Goal{Peer: "7907 calls"},
			cpu:      report.Goal{Peer: "22.9 s"},
			memory:   report.Goal{Peer: "582 MiB, peak 643", Target: 64},
			rest:     report.Goal{Peer: "1000 calls", Target: 11},
			broken:   report.Goal{Peer: "2619 calls", Target: 10},
		}
	case 5000:
		return goals{
			rollout: report.Goal{Peer: "never"},
			cpu:     report.Goal{Peer: "217 s, not ready", Target: 60},
			memory:  report.Goal{Peer: "2122 MiB and rising", Target: 96},
			rest:    report.Goal{Target: 11},
			broken:  report.Goal{Target: 10},
		}
	}
	return goals{}
}
