package reader_test

import (
	"context"
	"errors"
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

// TestGPUsThatRefuseEventsAreNotLost holds that they are not asked again and
// again, each time with a look at the whole node.
func TestGPUsThatRefuseEventsAreNotLost(t *testing.T) {
	s := newSim(t, "--gpus=2", "--model=l4")
	s.run("set", "nvmlDeviceRegisterEvents.return=999")
	src := s.source(nil)
	defer closeSource(t, src)
	var events []gpu.Event
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := src.Watch(ctx, func(e gpu.Event) {
		if events = append(events, e); len(events) > 2 {
			cancel()
		}
	})
	if err == nil || errors.Is(err, gpu.ErrWatchUnsupported) || len(events) > 0 {
		t.Errorf("Watch() = %v after %+v, want an error at once, after which it is worth to try again", err, events)
	}
}

func TestAPluggedGPUIsTold(t *testing.T) {
	for name, gpus := range map[string]string{"to others": "1", "into an empty node": "0"} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus="+gpus, "--model=l4")
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			told := 0
			err := src.Watch(ctx, func(e gpu.Event) {
				if e.Kind != gpu.EventTopologyChanged {
					t.Errorf("event = %+v, want %s", e, gpu.EventTopologyChanged)
				}
				if told++; told == 1 {
					s.run("plug", "--model=l4")
					return
				}
				snapshot(t, src)
			})
			if !errors.Is(err, gpu.ErrClosed) || told != 2 {
				t.Errorf("Watch() = %v after %d events, want %v after 2", err, told, gpu.ErrClosed)
			}
		})
	}
}
