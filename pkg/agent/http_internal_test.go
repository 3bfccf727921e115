package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
)

// The agent starts first: its server makes the handler a moment later.
func TestAnAgentThatStopsAtOnceMakesNoHandler(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	made := false
	s := &server{listener: l, handler: func() (http.Handler, error) {
		made = true
		return nil, errors.New("made")
	}}
	if err := s.run(ctx); err != nil || made {
		t.Errorf("run() = %v, made a handler: %v", err, made)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is not closed: %v", err)
	}
}
