package live

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"gotest.tools/v3/assert"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/pkg/agent/agenttest"
)

// listen listens on a socket, which it returns.
func listen(t *testing.T) (net.Listener, string) {
	socket := filepath.Join(agenttest.ShortDir(t), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	assert.NilError(t, err)
	return l, socket
}

// serve answers requests for a path on a socket, which it returns.
func serve(t *testing.T, path, answer string) string {
	l, socket := listen(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(answer)) // the client reports what it misses
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
		"an answer that is not TOML": {engine: engine.CRIO, path: "/config", answer: "<html>", err: "toml: "},
		"another server":             {engine: engine.Docker, path: "/else", answer: "{}", err: "404 Not Found"},
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

// status is a containerd with this status.
type status struct {
	cri.UnimplementedRuntimeServiceServer
	info map[string]string
}

func (s status) Status(_ context.Context, req *cri.StatusRequest) (*cri.StatusResponse, error) {
	if !req.GetVerbose() {
		return &cri.StatusResponse{}, nil
	}
	return &cri.StatusResponse{Info: s.info}, nil
}

func TestAskContainerd(t *testing.T) {
	for name, tc := range map[string]struct {
		info map[string]string
		want engine.Live
		err  string
	}{
		"with CDI": {
			info: map[string]string{"config": `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"nvidia":{"options":{"BinaryName":"/n"}}}},"enableCDI":true}`},
			want: engine.Live{Programs: map[string]string{"nvidia": "/n"}, Default: "runc", CDI: true},
		},
		"without the config": {err: "the answer has no config"},
	} {
		t.Run(name, func(t *testing.T) {
			l, socket := listen(t)
			srv := grpc.NewServer()
			cri.RegisterRuntimeServiceServer(srv, status{info: tc.info})
			done := make(chan struct{})
			go func() { defer close(done); _ = srv.Serve(l) }() // it ends with the test
			defer func() { srv.Stop(); <-done }()
			got, err := Ask(t.Context(), engine.Containerd, socket)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
}
