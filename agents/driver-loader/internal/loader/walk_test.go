package loader_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/pci"
)

// node is a node on which steps are taken. It checks that each may be taken.
type node struct {
	t *testing.T
	loader.Observation
	// broken are the versions whose modules load, and then fail; users is how many processes
	// have a device open, agents how many of them close it once NVML is claimed.
	broken        []string
	users, agents int
	// daemon is set while a daemon of the driver runs, which uses it too.
	daemon bool
}

func newNode(t *testing.T, versions ...string) *node {
	t.Helper()
	return &node{t: t, Observation: loader.Observation{
		Devices: []pci.Device{gpu("")}, Modules: map[string]kernel.Loaded{}, Payloads: stored(versions...),
	}}
}

// observe returns the observation of now.
func (n *node) observe() loader.Observation {
	o := n.Observation
	o.Modules = map[string]kernel.Loaded{}
	core, loaded := n.Modules[stack.Core]
	for name, m := range n.Modules {
		m.Holders = nil
		if name == stack.Core {
			for other := range n.Modules {
				if other != name {
					m.Holders = append(m.Holders, other)
				}
			}
			slices.Sort(m.Holders)
			m.RefCount = len(m.Holders) + n.users
			if !n.Claimed {
				m.RefCount += n.agents
			}
			if n.daemon {
				m.RefCount++
			}
		}
		o.Modules[name] = m
	}
	o.Running = loader.Driver{}
	if loaded && !n.daemon {
		o.Daemons = []string{"nvidia-persistenced"}
	}
	if loaded {
		o.Running = loader.Driver{Version: core.Version, Flavour: payload.Open, Digest: "d" + core.Version}
	}
	return o
}

// kill is what the end of the process takes with it.
func (n *node) kill() { n.Claimed, n.daemon, n.Validated = false, false, loader.Driver{} }

// reboot is what a reboot takes with it.
func (n *node) reboot() {
	n.kill()
	n.Modules, n.Shown, n.Published, n.users = map[string]kernel.Loaded{}, "", "", 0
}

// take takes a step, or a part of it if the process is killed meanwhile.
func (n *node) take(s loader.Step, killed bool) {
	fail := func() {
		if c := n.Change; c != nil && c.Failed == nil && c.To.Version == s.Driver.Version {
			copied := *c
			copied.Failed = &cause.Cause{Code: "Broken", Subject: "nvidia", Text: "does not work"}
			n.Change, n.daemon = &copied, false
		}
	}
	switch s.Kind {
	case loader.Build:
		if n.Published != "" && n.Running.Version == "" && len(n.Modules) == 0 {
			n.t.Error("a driver that is not loaded is published")
		}
		if !killed {
			n.Sets = append(n.Sets, built(s.Driver.Version)...)
		}
	case loader.Show:
		n.Shown = s.Driver.Digest
	case loader.Load:
		if core, ok := n.Modules[stack.Core]; ok && core.Version != s.Driver.Version {
			n.t.Errorf("%s is loaded into %s", s.Driver.Version, core.Version)
		}
		if n.Shown != s.Driver.Digest {
			n.t.Error("modules are loaded before their firmware is there")
		}
		for _, name := range s.Modules {
			n.Modules[name] = kernel.Loaded{Name: name, Version: s.Driver.Version}
			if killed {
				return
			}
		}
	case loader.Begin:
		n.Change = &loader.Change{From: n.observe().Running, To: s.Driver}
		if n.Change.From.Version == "" {
			n.Change.From = n.Before
		}
	case loader.Claim:
		n.Claimed, n.daemon, n.Published = true, false, ""
	case loader.Start:
		n.daemon = true
	case loader.Unload:
		if n.users > 0 || !n.Claimed {
			n.t.Errorf("unloaded below %d processes, claimed: %v", n.users, n.Claimed)
		}
		if n.Published != "" {
			n.t.Error("unloaded while it is published")
		}
		for _, name := range s.Modules {
			delete(n.Modules, name)
			if killed {
				return
			}
		}
	case loader.Rehearse:
		n.Rehearsed = s.Driver
	case loader.Nodes:
		n.MissingNodes = 0
	case loader.Validate:
		if slices.Contains(n.broken, s.Driver.Version) {
			fail()
			return
		}
		n.Validated = s.Driver
	case loader.Finish:
		n.Change = nil
	case loader.Publish:
		if slices.Contains(n.broken, s.Driver.Version) {
			n.t.Error("a driver that does not work is published")
		}
		n.Published, n.Before = s.Driver.Version, s.Driver
	case loader.Wait, loader.Done, loader.Import:
		n.Claimed = false
	}
}

// settle takes steps until there is nothing to do. With random, the process is killed now
// and then, and sometimes the node reboots.
func (n *node) settle(d loader.Desired, random *rand.Rand) loader.Step {
	var last loader.Step
	for range 200 {
		last = loader.Next(n.observe(), d)
		if last.Kind == loader.Done || last.Kind == loader.Wait {
			n.take(last, false)
			return last
		}
		killed := random != nil && random.IntN(4) == 0
		n.take(last, killed)
		switch {
		case killed && random.IntN(5) == 0:
			n.reboot()
		case killed:
			n.kill()
		}
	}
	n.t.Fatalf("no end after 200 steps: %s", last)
	return last
}

// TestEveryWayEndsReady walks nodes through changes of the desired driver, killed at any
// step. They end with the desired driver, or if that does not work, with the one before.
func TestEveryWayEndsReady(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		n := newNode(t, "1", "2", "3")
		works := ""
		for range 4 {
			want := []string{"1", "2", "3"}[random.IntN(3)]
			if n.Change != nil && n.Change.To.Version == want {
				// It has failed, and somebody asks to try again.
				n.Change = nil
			}
			n.agents, n.users = random.IntN(3), 0
			n.broken = nil
			if works != "" && want != works && random.IntN(2) == 0 {
				n.broken = []string{want}
			}
			desired := loader.Desired{Version: want, Flavour: payload.Open}
			if works != "" && want != works && random.IntN(3) == 0 {
				n.users = 1
				if s := n.settle(desired, random); n.users > 0 && s.Kind != loader.Wait && n.observe().Running.Version != "" {
					t.Fatalf("seed %d: %s while a process uses driver %s", seed, s, works)
				}
				n.users = 0
			}
			s := n.settle(desired, random)
			if len(n.broken) == 0 {
				works = want
			}
			if s.Kind != loader.Done || s.Driver.Version != works || n.Published != works || n.observe().Running.Version != works {
				t.Fatalf("seed %d: wanted %s (broken: %q), ended with %s, running %s, published %q, causes %v",
					seed, want, n.broken, s, n.observe().Running.Version, n.Published, s.Causes)
			}
			if (len(s.Causes) > 0) != (len(n.broken) > 0) {
				t.Fatalf("seed %d: causes %v, broken: %q", seed, s.Causes, n.broken)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			if again := loader.Next(n.observe(), desired); again.Kind != loader.Done {
				t.Fatalf("seed %d: at rest it would %s", seed, again)
			}
		}
	}
}
