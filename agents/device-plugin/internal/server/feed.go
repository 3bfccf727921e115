package server

import (
	"crypto/rand"
	"fmt"
	"sync"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/resource"
)

// state is what is served at one moment. It is never changed.
type state struct {
	allocator *allocate.Allocator
	list      list
	// number tells lists apart: a later one has a higher.
	number uint64
}

// feed hands the newest state to any number of readers.
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

// put makes r the newest state. Readers hear of it if its list says anything
// new. Only one goroutine may call it: readers do not wait while it works.
func (f *feed) put(r resource.Resource, opts allocate.Options) {
	before, _ := f.get()
	next := state{allocator: allocate.New(r, opts), number: before.number}
	var changed bool
	if next.list, changed = before.list.next(r.Devices); changed {
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
