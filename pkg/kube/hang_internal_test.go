package kube

import (
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// relay connects to a server until it hangs: it keeps its connections open, and
// passes nothing on any more.
type relay struct {
	net.Listener
	to    string
	hangs chan struct{}
}

func (r *relay) run(t *testing.T) {
	for {
		from, err := r.Accept()
		if err != nil {
			return
		}
		to, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.to)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { from.Close(); to.Close() })
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				buffer := make([]byte, 4096)
				for {
					n, err := way[0].Read(buffer)
					if err != nil {
						way[1].Close()
						return
					}
					select {
					case <-r.hangs:
					default:
						_, _ = way[1].Write(buffer[:n])
					}
				}
			}()
		}
	}
}

// podDir returns a folder with what a pod is given to reach the server.
func podDir(t *testing.T, server *httptest.Server) string {
	t.Helper()
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte("t"), "ca.crt": authority} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

// unconnected returns a client of no server.
func unconnected(t *testing.T) *Client {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	c, err := New(Config{Server: "https://api.invalid", Dir: podDir(t, server), Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	return c
}

type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// TestAWatchNoticesAServerThatHangs has shorter times than an agent.
func TestAWatchNoticesAServerThatHangs(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"node1"}}]}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close) // after the connections of the relay
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	r := &relay{Listener: listener, to: server.Listener.Addr().String(), hangs: make(chan struct{})}
	var relaying sync.WaitGroup
	relaying.Go(func() { r.run(t) })
	defer relaying.Wait()
	defer listener.Close()

	log := make(lines, 16)
	c, err := New(Config{
		Server: "https://" + listener.Addr().String(), Dir: podDir(t, server), Node: "node1", Agent: "test-agent", Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	assert.NilError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	known := make(chan struct{})
	watching.Go(func() { Watch(ctx, c, Query{Object: c.Node()}, func([]struct{}) { close(known) }) })
	<-known
	select {
	case line := <-log:
		t.Fatalf("log line %q", line)
	case <-time.After(3 * time.Second): // pings that are answered change nothing
	}
	if err := c.failing.errAt(time.Now().Add(failingAfter)); err != nil {
		t.Errorf("failing is %v while the watch works", err)
	}
	close(r.hangs)
	if line := <-log; !strings.Contains(line, "cannot watch objects, retrying") || !strings.Contains(line, "watch nodes") {
		t.Errorf("log line %q", line)
	}
	assert.ErrorContains(t, c.failing.errAt(time.Now().Add(failingAfter)), "watch nodes")
}
