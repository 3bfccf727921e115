package server

import (
	"time"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/resource"
)

// leaveGrace is how long the kubelet has to take the empty list of a resource
// that is gone. One that does not take it finds out when its stream ends.
const leaveGrace = 2 * time.Second

// Leave is for a resource that is gone: the kubelet is sent a list without
// devices, so that it counts none from then on, and then Run ends. It does not
// block, and is called from the goroutine that calls Publish.
func (s *Server) Leave() {
	s.mu.Lock()
	already := s.leaving || s.gone
	s.mu.Unlock()
	if already {
		return
	}
	s.feed.put(resource.Resource{Name: s.cfg.Resource}, allocate.Options{})
	s.mu.Lock()
	s.leaving, s.leaveBy = true, time.Now().Add(leaveGrace)
	s.mu.Unlock()
	s.Wake()
}

// stay takes Leave back, and returns false if it is too late for that.
func (s *Server) stay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		s.leaving = false
		s.Wake()
	}
	return !s.gone
}

// parting returns how long the Server still waits for the kubelet to hear that
// the resource is gone: once that is not at all there is no way back.
func (s *Server) parting() (wait time.Duration, leaving bool) {
	st, _ := s.feed.get()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving {
		return 0, false
	}
	wait = time.Until(s.leaveBy)
	if wait <= 0 || s.told(st.number) {
		s.leaving, s.gone = false, true
		return 0, true
	}
	return wait, true
}

// told reports whether all who know of the resource were sent the list of this
// number. It needs the lock.
func (s *Server) told(number uint64) bool {
	for _, newest := range s.streams {
		if newest < number {
			return false
		}
	}
	// A kubelet that has just taken the registration is about to ask.
	return len(s.streams) > 0 || !s.status.Registered
}
