package agent

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// requests are the connections on which a request is being read or answered. The server
// of net/http knows them too, but its Shutdown asks at growing intervals, and waits for
// peers that have only connected.
type requests struct {
	mu     sync.Mutex
	active map[net.Conn]bool
	// ending is set by wait; after that, done is closed when no request is left.
	ending bool
	done   chan struct{}
}

// track returns the requests of a server that has not begun to serve.
func track(srv *http.Server) *requests {
	r := &requests{active: map[net.Conn]bool{}, done: make(chan struct{})}
	srv.ConnState = r.note
	return r
}

func (r *requests) note(c net.Conn, s http.ConnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == http.StateActive {
		r.active[c] = true
		return
	}
	delete(r.active, c)
	r.check()
}

// check needs the lock.
func (r *requests) check() {
	if r.ending && len(r.active) == 0 {
		r.ending = false
		close(r.done)
	}
}

// wait waits until no request is in progress, for at most limit. It is called once.
func (r *requests) wait(limit time.Duration) {
	r.mu.Lock()
	r.ending = true
	r.check()
	r.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-r.done:
	case <-t.C:
	}
}
