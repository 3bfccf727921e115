package reader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
)

// joined is the fabric of a new GPU of the simulator, which reports how it is with
// it: empty for a product that has none.
func joined(text string) *gpu.Fabric {
	if text == "" {
		return nil
	}
	return &gpu.Fabric{State: gpu.FabricState(text), Status: gpu.FabricSuccess}
}

func (s *sim) setFabric(id gpu.UUID, f gpu.Fabric) {
	s.t.Helper()
	text := string(f.State)
	if f.ClusterUUID != "" {
		text = fmt.Sprintf("%s:%s.%d", text, f.ClusterUUID, f.CliqueID)
	}
	s.run("set", string(id)+".fabric="+text)
}

func TestFabricIsShown(t *testing.T) {
	const cluster = "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21"
	for text, want := range map[string]*gpu.Fabric{
		"not-supported":               nil,
		"not-started":                 {State: gpu.FabricNotStarted},
		"in-progress":                 {State: gpu.FabricInProgress},
		"completed":                   {State: gpu.FabricCompleted, Status: gpu.FabricSuccess},
		"failed:999":                  {State: gpu.FabricCompleted, Status: "Unknown Error"},
		"completed:" + cluster + ".0": {State: gpu.FabricCompleted, Status: gpu.FabricSuccess, ClusterUUID: cluster},
	} {
		t.Run(text, func(t *testing.T) {
			s := newSim(t, "--gpus=1", "--model=h100-80")
			s.run("set", "0.fabric="+text)
			src := s.source(nil)
			defer closeSource(t, src)
			g := snapshot(t, src).GPUs[0]
			if d := cmp.Diff(want, g.Fabric); d != "" || g.Fault != nil {
				t.Errorf("fault %v, fabric (-want +got):\n%s", g.Fault, d)
			}
		})
	}
}

func TestFabricIsAskedForInOlderForms(t *testing.T) {
	const v, v1 = "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"
	board := &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess}
	for name, c := range map[string]struct {
		set   []string
		want  *gpu.Fabric
		calls map[string]int
	}{
		"of a driver of today":                 {nil, board, map[string]int{v: 1, v1: 0}},
		"by one that knows neither version":    {[]string{v + ".return=25"}, board, map[string]int{v: 2, v1: 1}},
		"by one that only has the name":        {[]string{v + ".return=13"}, board, map[string]int{v: 2, v1: 1}},
		"by one that knows nothing of fabrics": {[]string{v + ".return=13", v1 + ".return=13"}, nil, map[string]int{v: 2, v1: 1}},
		"of a GPU that has none":               {[]string{v + ".return=3"}, nil, map[string]int{v: 1, v1: 0}},
		"by one that fails":                    {[]string{v + ".return=999"}, nil, map[string]int{v: 1, v1: 0}},
		"by one that rejects it":               {[]string{v + ".return=4"}, nil, map[string]int{v: 1, v1: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=1", "--model=h100-80")
			for _, set := range c.set {
				s.run("set", set)
			}
			s.calls()
			src := s.source(nil)
			defer closeSource(t, src)
			g := snapshot(t, src).GPUs[0]
			if d := cmp.Diff(c.want, g.Fabric); d != "" || g.Fault != nil {
				t.Errorf("fault %v, want a GPU that works; fabric (-want +got):\n%s", g.Fault, d)
			}
			calls := s.calls()
			for symbol, want := range c.calls {
				if calls[symbol] != want {
					t.Errorf("%s was called %d times, want %d", symbol, calls[symbol], want)
				}
			}
		})
	}
}

// A GPU is asked while it is on its way, and no more once it is on the fabric of
// its board.
func TestFabricsAreAskedForUntilTheyAreJoined(t *testing.T) {
	const symbol = "nvmlDeviceGetGpuFabricInfoV"
	s := newSim(t, "--gpus=2", "--model=h100-80")
	s.run("set", "1.fabric=in-progress")
	src := s.source(nil)
	defer closeSource(t, src)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, ended := make(chan gpu.Event, 16), make(chan error, 1)
	go func() { ended <- src.Watch(ctx, func(e gpu.Event) { events <- e }) }()
	<-events
	snapshot(t, src)
	s.calls()
	if got := s.probes(symbol, 3); got < 2 {
		t.Errorf("%s was called %d times in 3 probes, want once in each for the GPU that has not joined", symbol, got)
	}
	s.run("set", "1.fabric=completed")
	select {
	case e := <-events:
		if e.Kind != gpu.EventTopologyChanged {
			t.Errorf("event = %+v, want %s", e, gpu.EventTopologyChanged)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the GPU has joined its fabric, and no event reports it")
	}
	s.calls()
	if got := s.probes(symbol, 3); got != 0 {
		t.Errorf("%s was called %d times by a watch at rest, want none", symbol, got)
	}
	cancel()
	if err := <-ended; err != nil || len(events) > 0 {
		t.Errorf("Watch() = %v, and %d events more", err, len(events))
	}
}

// probes returns how often a symbol was called while a watch made n probes, one
// after each wait.
func (s *sim) probes(symbol string, n int) int {
	s.t.Helper()
	tick := time.NewTicker(probe)
	defer tick.Stop()
	limit := time.After(5 * time.Minute)
	for waits, called := 0, 0; ; {
		calls := s.calls()
		waits, called = waits+calls["nvmlEventSetWait_v2"], called+calls[symbol]
		if waits > n {
			return called
		}
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("the watch waited %d times in 20 s", waits)
		}
	}
}
