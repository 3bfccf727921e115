package server

import (
	"slices"
	"sync"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/resource"
)

// state is the served resource at one moment. It never changes.
type state struct {
	allocator *allocate.Allocator
	devices   []resource.Device
	list      *pluginapi.ListAndWatchResponse
	// number increases with each new list.
	number uint64
}

// feed delivers the newest state to any number of readers.
type feed struct {
	mu      sync.Mutex
	state   state
	changed chan struct{}
}

func newFeed() feed {
	return feed{
		state:   state{allocator: allocate.New(resource.Resource{}, allocate.Options{}), list: &pluginapi.ListAndWatchResponse{}},
		changed: make(chan struct{}),
	}
}

// get returns the newest state, and a channel that is closed when there is a newer list.
func (f *feed) get() (state, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.changed
}

// put makes r the newest state, and wakes the readers if the list changes.
func (f *feed) put(r resource.Resource, opts allocate.Options) {
	f.mu.Lock()
	defer f.mu.Unlock()
	same := slices.EqualFunc(f.state.devices, r.Devices, sameEntries)
	f.state.allocator, f.state.devices = allocate.New(r, opts), r.Devices
	if same {
		return
	}
	f.state.list = list(r.Devices)
	f.state.number++
	close(f.changed)
	f.changed = make(chan struct{})
}

// sameEntries reports whether two devices have the same entries in a list.
func sameEntries(a, b resource.Device) bool {
	return a.UUID == b.UUID && a.Replicas == b.Replicas && a.NUMANode == b.NUMANode && a.Health.Healthy == b.Health.Healthy
}

// list returns the list of the devices for the kubelet.
func list(devices []resource.Device) *pluginapi.ListAndWatchResponse {
	resp := &pluginapi.ListAndWatchResponse{}
	for _, d := range devices {
		health, topology := pluginapi.Unhealthy, (*pluginapi.TopologyInfo)(nil)
		if d.Health.Healthy {
			health = pluginapi.Healthy
		}
		if d.NUMANode >= 0 {
			topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(d.NUMANode)}}}
		}
		for n := range max(d.Replicas, 1) {
			resp.Devices = append(resp.Devices, &pluginapi.Device{ID: d.ID(n), Health: health, Topology: topology})
		}
	}
	return resp
}
