package server

import "time"

// cursor is one call of ListAndWatch.
type cursor struct {
	// over is closed to end the call.
	over <-chan struct{}
}

// sent notes that a call was sent a list.
func (s *Server) sent(c *cursor, number uint64) {
	wake := false
	s.update(func(st *Status) {
		_, known := s.streams[c]
		s.streams[c] = number
		st.Listed = true
		wake = !known || s.leaving
	})
	if wake {
		s.Wake()
	}
}

// closed notes the end of a call.
func (s *Server) closed(c *cursor) {
	s.update(func(st *Status) {
		if _, known := s.streams[c]; known {
			s.ended = time.Now()
		}
		delete(s.streams, c)
		st.Listed = len(s.streams) > 0
	})
	s.Wake()
}

// listed returns whether a stream is open, and when the last one ended.
func (s *Server) listed() (open bool, ended time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams) > 0, s.ended
}

// endStreams ends the streams that are open.
func (s *Server) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	s.over = make(chan struct{})
}
