package nri_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/nri"
	"outrigger.dev/pkg/nri/nritest"
)

// plugin sets a variable of each container.
type plugin struct{ *nri.Session }

func (plugin) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a := &api.ContainerAdjustment{}
	a.AddEnv("BY", "plugin")
	return a, nil, nil
}

// rig is a plugin and the reports about its connection.
type rig struct {
	socket  string
	reports *agenttest.Lines
}

// start runs a plugin until the test ends.
func start(t *testing.T) rig {
	t.Helper()
	r := rig{filepath.Join(t.TempDir(), "nri", "nri.sock"), agenttest.NewLines()}
	cfg := nri.Config{
		Name: "test", Index: "10", Socket: r.socket, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Plugin: func(s *nri.Session) any { return plugin{s} },
		Report: func(err error) {
			text := "asked"
			if err != nil {
				text = err.Error()
			}
			_, _ = io.WriteString(r.reports, text+"\n")
		},
	}
	agenttest.Run(t, func(ctx context.Context) error { return nri.Run(ctx, cfg) })
	return r
}

// reported waits until the text was reported a number of times.
func (r rig) reported(t *testing.T, text string, times int) {
	t.Helper()
	agenttest.Poll(t, "reports of "+text, func() bool { return strings.Count(r.reports.String(), text) >= times })
}

func TestEngineThatRestarts(t *testing.T) {
	r := start(t)
	r.reported(t, "connect to the container engine's NRI: dial unix "+r.socket, 1)
	for i := range 3 {
		e := nritest.Start(t, r.socket)
		e.Await(t)
		r.reported(t, "asked", i+1)
		got, err := e.Create(t.Context(), "ns", "pod", &api.Container{Name: "main"})
		assert.NilError(t, err)
		assert.Equal(t, len(got.GetEnv()), 1)
		e.Stop()
		r.reported(t, "the container engine closed the connection to the NRI plugin", i+1)
	}
}

// registrar is an engine that goes away when it has registered a plugin.
type registrar struct {
	net.Conn
	gone chan struct{}

	mu         sync.Mutex
	registered bool
}

func (r *registrar) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registered = true
	return &api.Empty{}, nil
}

func (r *registrar) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return nil, errors.ErrUnsupported
}

// Write ends the connection after the answer to the registration.
func (r *registrar) Write(b []byte) (int, error) {
	n, err := r.Conn.Write(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered && len(b) > multiplexHeader {
		r.registered = false
		err = errors.Join(err, r.Close())
		close(r.gone)
	}
	return n, err
}

// multiplexHeader is the size of what a connection of NRI writes before each message.
const multiplexHeader = 8

func TestEngineThatEndsAfterTheRegistration(t *testing.T) {
	r := start(t)
	assert.NilError(t, os.Mkdir(filepath.Dir(r.socket), 0o700))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", r.socket)
	assert.NilError(t, err)
	raw, err := listener.Accept()
	assert.NilError(t, err)
	engine := &registrar{Conn: raw, gone: make(chan struct{})}
	mux := multiplex.Multiplex(engine)
	services, err := mux.Listen(multiplex.RuntimeServiceConn)
	assert.NilError(t, err)
	server, err := ttrpc.NewServer()
	assert.NilError(t, err)
	api.RegisterRuntimeService(server, engine)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(t.Context(), services) })
	<-engine.gone
	_, _, _ = server.Close(), mux.Close(), listener.Close()
	serving.Wait()
	nritest.Start(t, r.socket).Await(t)
}
