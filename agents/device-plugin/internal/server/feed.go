package server

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"sync"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/resource"
)

// state is what is served at one moment. It is never changed.
type state struct {
	resource  resource.Resource
	allocator *allocate.Allocator
	list      *pluginapi.ListAndWatchResponse
}

// feed hands the newest state to any number of readers.
type feed struct {
	mu      sync.Mutex
	state   state
	changed chan struct{}
}

func newFeed() feed {
	return feed{
		state: state{
			allocator: allocate.New(resource.Resource{}, allocate.Options{}),
			list:      &pluginapi.ListAndWatchResponse{},
		},
		changed: make(chan struct{}),
	}
}

// get returns the newest state, and a channel that is closed when its list is
// no longer the newest.
func (f *feed) get() (state, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.changed
}

func (f *feed) put(r resource.Resource, opts allocate.Options) {
	next := state{resource: r, allocator: allocate.New(r, opts), list: list(r)}
	f.mu.Lock()
	defer f.mu.Unlock()
	same := reflect.DeepEqual(f.state.resource, r)
	f.state = next
	if same {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func list(r resource.Resource) *pluginapi.ListAndWatchResponse {
	resp := &pluginapi.ListAndWatchResponse{Devices: make([]*pluginapi.Device, 0, len(r.Devices))}
	for _, d := range r.Devices {
		state := pluginapi.Unhealthy
		if d.Health.Healthy {
			state = pluginapi.Healthy
		}
		var topology *pluginapi.TopologyInfo
		if d.NUMANode >= 0 {
			topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(d.NUMANode)}}}
		}
		for n := range d.Replicas {
			resp.Devices = append(resp.Devices, &pluginapi.Device{ID: d.ID(n), Health: state, Topology: topology})
		}
	}
	return resp
}

// newToken returns what makes the CDI annotation of one container unlike that
// of any other: a random UUID, as NVIDIA's device plugin takes. The library for
// it links database/sql, which is a lot for these lines.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])  // it never fails, see its documentation
	b[6] = b[6]&0x0f | 0x40 // version 4
	b[8] = b[8]&0x3f | 0x80 // variant of RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
