package server

import (
	"sync"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/wire"
	"outrigger.dev/pkg/resource"
)

// state is what is served at one moment. It is never changed.
type state struct {
	allocator *allocate.Allocator
	list      wire.List
	// number grows with each new list.
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
		state:   state{allocator: allocate.New(resource.Resource{}, allocate.Options{})},
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

// put makes r the newest state, and wakes the readers if its list changed. Only one
// goroutine may call it: readers do not wait while it works.
func (f *feed) put(r resource.Resource, opts allocate.Options) {
	before, _ := f.get()
	next := state{allocator: allocate.New(r, opts), number: before.number}
	var changed bool
	if next.list, changed = before.list.Next(r.Devices); changed {
		next.number++
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = next
	if !changed {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
}
