package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// server serves HTTP for an agent, on up to two addresses.
type server struct{ ports []port }

// port is one address of a server.
type port struct {
	listener net.Listener
	http     *http.Server
	// serve is HTTP.Serve, or nil.
	serve func(*http.Server, net.Listener) error
}

// metricsServer returns the server of --listen.
func metricsServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       5 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// Only a server of HTTP.Serve has HTTP/2.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 8},
		ErrorLog: slog.NewLogLogger(serverLog{log.Handler()}, slog.LevelWarn),
	}
}

// probeServer returns the server of --probe-address. A connection has one request, and ends soon.
func probeServer(a *Agent, log *slog.Logger) *http.Server {
	srv := &http.Server{
		Handler:        newProbes(a),
		ReadTimeout:    2 * time.Second,
		WriteTimeout:   2 * time.Second,
		MaxHeaderBytes: 4 << 10,
		ErrorLog:       slog.NewLogLogger(serverLog{log.Handler()}, slog.LevelWarn),
	}
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// serverLog is the handler for the log of net/http. It logs messages that a client can cause
// without limit, such as failed handshakes, at level debug.
type serverLog struct{ slog.Handler }

func (h serverLog) Handle(ctx context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "http: panic serving") && !strings.HasPrefix(r.Message, "http: Accept error") {
		r.Level = slog.LevelDebug
	}
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (s *server) add(l net.Listener, srv *http.Server, serve func(*http.Server, net.Listener) error) {
	if serve == nil {
		serve = (*http.Server).Serve
	}
	s.ports = append(s.ports, port{listener: l, http: srv, serve: serve})
}

// close closes a server that does not run.
func (s *server) close() error {
	var errs []error
	for _, p := range s.ports {
		errs = append(errs, p.listener.Close())
	}
	return errors.Join(errs...)
}

// run serves until ctx ends.
func (s *server) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range s.ports {
		g.Go(func() error { return p.run(ctx) })
	}
	return g.Wait()
}

// stopServing is the time that a request in progress may delay the exit.
const stopServing = 500 * time.Millisecond

func (p port) run(ctx context.Context) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopServing)
		defer cancel()
		_ = p.http.Shutdown(soon)
		_ = p.http.Close()
	})
	err := p.serve(p.http, p.listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", p.listener.Addr(), err)
}
