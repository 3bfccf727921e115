package live

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/engine"
)

// serve answers requests for a path on a socket, which it returns.
func serve(t *testing.T, path, answer string) string {
	dir, err := os.MkdirTemp("", "live") //nolint:usetesting // paths of sockets are short
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	assert.NilError(t, err)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write([]byte(answer)) // the client reports what it misses
		w.Header().Set("Grpc-Status", "0")
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }() // it ends with the test
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return socket
}

func TestAsk(t *testing.T) {
	for name, tc := range map[string]struct {
		engine       engine.Name
		path, answer string
		want         engine.Live
		err          string
	}{
		"CRI-O": {
			engine: engine.CRIO, path: "/config",
			answer: "[crio]\n[crio.runtime]\ndefault_runtime = \"nvidia\"\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"/n\"\n",
			want:   engine.Live{Programs: map[string]string{"nvidia": "/n"}, Default: "nvidia", CDI: true},
		},
		"Docker without CDI": {
			engine: engine.Docker, path: "/info",
			answer: `{"Runtimes":{"runc":{"path":"runc"}},"DefaultRuntime":"runc","ServerVersion":"27.1.0"}`,
			want:   engine.Live{Programs: map[string]string{"runc": "runc"}, Default: "runc"},
		},
		"Docker before it had CDI": {
			engine: engine.Docker, path: "/info", answer: `{"ServerVersion":"20.10.24+dfsg1"}`,
			want: engine.Live{Programs: map[string]string{}, CDI: true},
		},
		"an answer that is not TOML":     {engine: engine.CRIO, path: "/config", answer: "<html>", err: "toml: "},
		"another server":                 {engine: engine.Docker, path: "/else", answer: "{}", err: "404 Not Found"},
		"an answer that is cut off":      {engine: engine.Containerd, path: "/runtime.v1.RuntimeService/Status", answer: "\x00\x00\x00\x00\x09x", err: "the answer is cut off"},
		"an answer without the config":   {engine: engine.Containerd, path: "/runtime.v1.RuntimeService/Status", answer: "\x00\x00\x00\x00\x00", err: `the answer has no "config"`},
		"an answer that is not protobuf": {engine: engine.Containerd, path: "/runtime.v1.RuntimeService/Status", answer: "\x00\x00\x00\x00\x01\xff", err: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Ask(context.Background(), tc.engine, serve(t, tc.path, tc.answer))
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func FuzzInfoOf(f *testing.F) {
	f.Add([]byte("\x12\x0c\x0a\x06config\x12\x02{}"))
	f.Fuzz(func(t *testing.T, message []byte) {
		text, err := infoOf(message, "config")
		if err == nil && len(text) > len(message) {
			t.Fatalf("%q is longer than the message", text)
		}
	})
}
