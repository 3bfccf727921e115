package reader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"outrigger.dev/pkg/gpu"
)

// TestAGPUWithoutProperUUIDIsFaulty holds that such a GPU costs nobody else.
func TestAGPUWithoutProperUUIDIsFaulty(t *testing.T) {
	for name, id := range map[string]string{
		"a line break":           "GPU-1\nGPU-2",
		"bytes that are no text": "GPU-\xff\xfe",
		"a separator of CDI":     "GPU-1=all",
		"a path":                 "../../etc",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=1", "--model=l4")
			s.run("plug", "--model=l4", "--uuid="+id)
			src := s.source(nil)
			defer closeSource(t, src)
			node := snapshot(t, src)
			for _, g := range node.GPUs {
				if bad := g.Index == 1; bad != (g.Fault != nil) || (!bad || g.UUID != "") && !g.UUID.Valid() {
					t.Errorf("GPU %d = %+v with the fault %v", g.Index, g, g.Fault)
				}
			}
			first, posted, closed := node.GPUs[0].UUID, false, make(chan error, 1)
			err := src.Watch(t.Context(), func(e gpu.Event) {
				switch {
				case e.Kind == gpu.EventTopologyChanged && !posted:
					posted = true
					s.run("xid", "1", "48")
					s.run("xid", "0", "79")
				case e.Kind == gpu.EventXID:
					if e.GPU != first || e.XID != 79 {
						t.Errorf("event = %+v, want none but that of GPU 0: without a name it counts against all", e)
					}
					go func() { closed <- src.Close() }()
				}
			})
			if !errors.Is(err, gpu.ErrClosed) {
				t.Errorf("Watch() = %v, want %v", err, gpu.ErrClosed)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGPUsThatRejectEventsAreNotLost holds that they are registered once they accept it,
// and do not cause refreshes of the node until then.
func TestGPUsThatRejectEventsAreNotLost(t *testing.T) {
	for _, symbol := range []string{"nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes", "nvmlEventSetCreate"} {
		t.Run(symbol, func(t *testing.T) {
			s := newSim(t, "--gpus=2", "--model=l4")
			s.run("set", symbol+".return=999")
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var events []gpu.Event
			var accepted sync.WaitGroup
			defer accepted.Wait()
			err := src.Watch(ctx, func(e gpu.Event) {
				events = append(events, e)
				switch e.Kind {
				case gpu.EventTopologyChanged:
					s.calls()
					accepted.Go(func() {
						s.inFlight(symbol) // it is tried again
						s.run("set", symbol+".return=0")
						s.inFlight("nvmlEventSetWait_v2")
						s.run("xid", "1", "48")
					})
				default:
					cancel()
				}
			})
			if err != nil || len(events) != 2 || events[1].Kind != gpu.EventXID {
				t.Errorf("Watch() = %v after %+v, want the start of the watch and an XID", err, events)
			}
		})
	}
}

func TestAPluggedGPUIsReported(t *testing.T) {
	for name, gpus := range map[string]string{"to others": "1", "into an empty node": "0"} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus="+gpus, "--model=l4")
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			reported := 0
			err := src.Watch(ctx, func(e gpu.Event) {
				if e.Kind != gpu.EventTopologyChanged {
					t.Errorf("event = %+v, want %s", e, gpu.EventTopologyChanged)
				}
				if reported++; reported == 1 {
					s.run("plug", "--model=l4")
					return
				}
				snapshot(t, src)
			})
			if !errors.Is(err, gpu.ErrClosed) || reported != 2 {
				t.Errorf("Watch() = %v after %d events, want %v after 2", err, reported, gpu.ErrClosed)
			}
		})
	}
}

// A GPU that is lost is noticed without an XID, also by a watch that gets no events.
func TestAGPUThatIsLostWithoutAnXIDIsReported(t *testing.T) {
	for name, c := range map[string]struct{ events, symbol, code string }{
		"of a driver that reports changes of MIG devices": {"0", "nvmlDeviceGetMemoryInfo", "15"},
		"that has to be reset":                            {"0", "nvmlDeviceGetMemoryInfo", "16"},
		"of a driver without events":                      {"3", "nvmlDeviceGetMigMode", "15"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=8", "--model=h100-80")
			s.run("set", "nvmlDeviceGetSupportedEventTypes.return="+c.events)
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var begun, again bool
			lost := map[gpu.UUID]bool{}
			err := src.Watch(ctx, func(e gpu.Event) {
				switch {
				case e.Kind == gpu.EventLost:
					if lost[e.GPU] = true; len(lost) == 8 {
						s.run("set", c.symbol+".return=0")
					}
				case !begun:
					begun = true
					s.run("set", c.symbol+".return="+c.code)
				default:
					again = true
					cancel()
				}
			})
			if err != nil || len(lost) != 8 || !again {
				t.Errorf("Watch() = %v, %d GPUs are reported as lost, and as working again: %v; want all 8", err, len(lost), again)
			}
		})
	}
}
