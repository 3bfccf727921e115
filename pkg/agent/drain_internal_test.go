package agent

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// The end of a server waits for requests in progress, and for nothing else.
func TestWaitForRequests(t *testing.T) {
	for name, states := range map[string][]http.ConnState{
		"nothing":                   nil,
		"a peer that has connected": {http.StateNew},
		"an idle peer":              {http.StateNew, http.StateActive, http.StateIdle},
		"a peer that is gone":       {http.StateNew, http.StateActive, http.StateClosed},
	} {
		t.Run(name, func(*testing.T) {
			r, c := track(&http.Server{}), &net.TCPConn{}
			for _, s := range states {
				r.note(c, s)
			}
			r.wait(time.Hour)
		})
	}
	t.Run("a request in progress", func(t *testing.T) {
		r, a, b := track(&http.Server{}), &net.TCPConn{}, &net.UnixConn{}
		r.note(a, http.StateActive)
		r.note(b, http.StateActive)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.wait(time.Hour)
		}()
		r.note(a, http.StateIdle)
		select {
		case <-done:
			t.Error("a request was left behind")
		default:
		}
		r.note(b, http.StateClosed)
		<-done
	})
	t.Run("a request that takes too long", func(*testing.T) {
		r := track(&http.Server{})
		r.note(&net.TCPConn{}, http.StateActive)
		r.wait(time.Millisecond)
	})
}
