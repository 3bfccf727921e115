package agent_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
)

// TestProbesOfASaturatedServer: three neighbours use all connections of --listen, and have more in
// the queue, with requests that are slow, unfinished or pipelined and whose answers nobody reads.
func TestProbesOfASaturatedServer(t *testing.T) {
	const most = 16
	app := testApp()
	create := app.New
	slow := make(chan struct{}, 3*most)
	app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		a, err := create(c, log)
		a.HTTP.Routes = map[string]http.Handler{"GET /slow": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			slow <- struct{}{}
			<-r.Context().Done()
		})}
		return a, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	logs, done := newBuffer(), make(chan int)
	go func() {
		done <- agent.Exec(ctx, app, []string{"x", "--listen=127.0.0.1:0", "--probe-address=127.0.0.1:0"}, io.Discard, logs)
	}()
	addr, probes := logs.wait(t, "msg=serving address="), logs.wait(t, `msg="serving probes" address=`)
	for i := range most {
		send(t, addr, i, "GET /slow HTTP/1.1\r\nHost: agent\r\n\r\n")
		<-slow
	}
	for i := range most {
		send(t, addr, i, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n", 100))
		send(t, addr, i, "GET /metrics HTTP/1.1\r\n")
		send(t, addr, i, "GET /slow HTTP/1.1\r\nHost: agent\r\n\r\n")
	}
	if len(slow) > 0 {
		t.Errorf("more than %d connections are served", most)
	}
	for page, want := range map[string]string{"healthz": "inotify: ok\nnvml: ok\nok\n", "readyz": "ok\n"} {
		if code, body := fetch(t, "http://"+probes+"/"+page); code != http.StatusOK || body != want {
			t.Errorf("%s answers %d %q, want %q", page, code, body, want)
		}
		code, out, errs := run(t, "probe", page, "--listen", addr, "--probe-address", probes)
		if code != 0 || out != want {
			t.Errorf("probe %s: exit code %d, %q, %q, want %q", page, code, out, errs, want)
		}
	}
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("want exit code 0, got %d: %s", code, logs)
	}
}

// send sends a request as one of three neighbours, over a connection that stays open.
func send(t *testing.T, addr string, neighbour int, request string) {
	t.Helper()
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+neighbour%3))}
	conn, err := (&net.Dialer{LocalAddr: from}).DialContext(t.Context(), "tcp", addr)
	assert.NilError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, request)
	assert.NilError(t, err)
}

// TestProbesOnly: the address for probes has nothing but probes, over HTTP, for one request each.
func TestProbesOnly(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue(t, certFile, keyFile, 1)
	ctx, cancel := context.WithCancel(t.Context())
	logs, done := newBuffer(), make(chan int)
	go func() {
		done <- agent.Exec(ctx, testApp(), []string{
			"x", "--listen=", "--probe-address=127.0.0.1:0", "--tls-cert-file", certFile, "--tls-private-key-file", keyFile,
		}, io.Discard, logs)
	}()
	addr := logs.wait(t, `msg="serving probes" address=`)
	for path, want := range map[string]int{"/readyz": 200, "/healthz": 200, "/metrics": 404, "/": 404} {
		if code, body := fetch(t, "http://"+addr+path); code != want {
			t.Errorf("%s answers %d %q, want %d", path, code, body, want)
		}
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	assert.NilError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, strings.Repeat("GET /readyz HTTP/1.1\r\nHost: agent\r\n\r\n", 3))
	assert.NilError(t, err)
	answers, _ := io.ReadAll(conn) // the server resets the connection, because it does not read all of it
	if n := strings.Count(string(answers), "HTTP/1.1 200 OK"); n != 1 {
		t.Errorf("%d answers in one connection, want 1: %q", n, answers)
	}
	cancel()
	if code := <-done; code != 0 || strings.Contains(logs.String(), "msg=serving ") {
		t.Errorf("want exit code 0 and no other address, got %d: %s", code, logs)
	}
}

func TestScrapesAtATimeAreLimited(t *testing.T) {
	const most = 16
	running, end := make(chan struct{}, most), make(chan struct{})
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow", Help: "Slow."}, func() float64 {
		running <- struct{}{}
		<-end
		return 1
	}))
	h := agent.MetricsHandler(reg, promhttp.HandlerOpts{}, slog.New(slog.DiscardHandler))
	scrape := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		return w.Code
	}
	var scraping sync.WaitGroup
	for range most {
		scraping.Go(func() {
			if code := scrape(); code != http.StatusOK {
				t.Errorf("/metrics answers %d", code)
			}
		})
	}
	for range most {
		<-running
	}
	if code := scrape(); code != http.StatusServiceUnavailable {
		t.Errorf("while %d scrapes run, another one gets %d, want 503", most, code)
	}
	close(end)
	scraping.Wait()
	if code := scrape(); code != http.StatusOK {
		t.Errorf("/metrics answers %d afterwards", code)
	}
}

func TestMoreScrapesThanConnections(t *testing.T) {
	url, stop := serve(t)
	defer stop()
	var scraping sync.WaitGroup
	for range 200 {
		scraping.Go(func() {
			if code, _ := fetch(t, url+"/metrics"); code != http.StatusOK {
				t.Errorf("/metrics answers %d", code)
			}
		})
	}
	scraping.Wait()
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
	assert.NilError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	assert.NilError(t, err)
	// The first frame of the server has its settings (RFC 9113, 3.4 and 6.5).
	head := make([]byte, 9)
	_, err = io.ReadFull(conn, head)
	assert.NilError(t, err)
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(conn, settings)
	assert.NilError(t, err)
	limits := map[uint16]uint32{}
	for ; len(settings) >= 6; settings = settings[6:] {
		limits[binary.BigEndian.Uint16(settings)] = binary.BigEndian.Uint32(settings[2:])
	}
	const maxConcurrentStreams = 3
	if got := limits[maxConcurrentStreams]; head[3] != 4 || got != 8 {
		t.Errorf("the frame of type %d limits requests in one connection to %d, want 8", head[3], got)
	}
}
