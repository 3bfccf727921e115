package agent_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// hold opens connections that stay open: each has got an answer, and could send the
// next request for minutes. It returns how many of them are open.
func hold(t *testing.T, addr string, number int) (open func() int) {
	t.Helper()
	var left atomic.Int64
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	for range number {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
			continue // closed already
		}
		left.Add(1)
		reading.Go(func() {
			_, _ = io.Copy(io.Discard, bufio.NewReader(conn)) // until it is closed
			left.Add(-1)
		})
	}
	return func() int { return int(left.Load()) }
}

func TestAFloodOfConnections(t *testing.T) {
	logs := newBuffer()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		done <- agent.Exec(ctx, testApp(), []string{"x", "--listen=127.0.0.1:0"}, io.Discard, logs)
	}()
	addr := logs.wait(t, "msg=serving address=")
	open := hold(t, addr, 600)
	late := time.After(patience)
	for open() > 64 {
		select {
		case <-late:
			t.Fatalf("%d connections are open, want 64 at most", open())
		case <-time.After(time.Millisecond):
		}
	}
	if code, body := fetch(t, "http://"+addr+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d %q", code, body)
	}
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("want exit code 0, got %d: %s", code, logs)
	}
	if n := strings.Count(logs.String(), "too many connections"); n != 1 {
		t.Errorf("%d warnings about 500 connections, want one", n)
	}
}

func TestAFloodOfRequests(t *testing.T) {
	app := testApp()
	create := app.New
	running, end := make(chan struct{}, 100), make(chan struct{})
	app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		a, err := create(c, log)
		a.HTTP.Routes = map[string]http.Handler{"GET /slow": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			running <- struct{}{}
			select {
			case <-end:
			case <-time.After(patience): // nothing limits the requests
			}
		})}
		return a, err
	}
	url, stop := serveApp(t, app)
	defer stop()
	var asking sync.WaitGroup
	for range 16 {
		asking.Go(func() {
			if code, _ := fetch(t, url+"/slow"); code != http.StatusOK {
				t.Errorf("/slow answers %d", code)
			}
		})
	}
	for range 16 {
		<-running
	}
	for path, want := range map[string]int{"/slow": 503, "/metrics": 503, "/healthz": 200, "/readyz": 200} {
		if code, body := fetch(t, url+path); code != want {
			t.Errorf("%s answers %d %q, want %d", path, code, body, want)
		}
	}
	close(end)
	asking.Wait()
	if code, _ := fetch(t, url+"/metrics"); code != http.StatusOK {
		t.Errorf("/metrics answers %d afterwards", code)
	}
}

// A connection of HTTP/2 has many requests at once: without a limit on them, the limit on
// connections would limit nothing.
func TestRequestsInOneConnectionAreLimited(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue(t, certFile, keyFile, 1)
	app := testApp()
	create := app.New
	app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		a, err := create(c, log)
		a.HTTP.Serve = func(s *http.Server, l net.Listener) error { return s.ServeTLS(l, certFile, keyFile) }
		return a, err
	}
	url, stop := serveApp(t, app)
	defer stop()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "http://"), //nolint:noctx // the server answers at once
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // a test
	must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	must(t, err)
	// The first frame of the server has its settings (RFC 9113, 3.4 and 6.5).
	head := make([]byte, 9)
	_, err = io.ReadFull(conn, head)
	must(t, err)
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(conn, settings)
	must(t, err)
	limits := map[uint16]uint32{}
	for ; len(settings) >= 6; settings = settings[6:] {
		limits[binary.BigEndian.Uint16(settings)] = binary.BigEndian.Uint32(settings[2:])
	}
	const maxConcurrentStreams = 3
	if got := limits[maxConcurrentStreams]; head[3] != 4 || got != 8 {
		t.Errorf("the frame of type %d limits requests in one connection to %d, want 8", head[3], got)
	}
}
