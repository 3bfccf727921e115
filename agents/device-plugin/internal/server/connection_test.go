package server_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/server"
)

// kubeletAt accepts registrations, and counts connections.
type kubeletAt struct {
	pluginapi.UnimplementedRegistrationServer
	connected  chan struct{}
	registered chan struct{}
}

// startKubelet starts a kubelet at a socket, until the returned function is called.
func startKubelet(t *testing.T, socket string) (*kubeletAt, func()) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	k := &kubeletAt{connected: make(chan struct{}, 10), registered: make(chan struct{}, 10)}
	s := grpc.NewServer(grpc.StatsHandler(k))
	pluginapi.RegisterRegistrationServer(s, k)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			s.Stop()
			<-served
		}
	}
	t.Cleanup(stop)
	return k, stop
}

func (k *kubeletAt) Register(context.Context, *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.registered <- struct{}{}
	return &pluginapi.Empty{}, nil
}

func (k *kubeletAt) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, begins := s.(*stats.ConnBegin); begins {
		k.connected <- struct{}{}
	}
}

func (*kubeletAt) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*kubeletAt) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*kubeletAt) HandleRPC(context.Context, stats.RPCStats)                         {}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-limit(t).Done():
		t.Fatalf("the kubelet has no %s after 10 s", what)
	}
}

// newConnectionRig returns a rig without a kubelet, and the socket of one.
func newConnectionRig(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t)
	r.kubelet.Stop()
	socket := filepath.Join(filepath.Dir(r.kubelet.Socket()), "other.sock")
	r.cfg.KubeletSocket = socket
	return r, socket
}

// register runs a server with this connection.
func (r *rig) register(t *testing.T, c *server.Connection) {
	t.Helper()
	t.Cleanup(c.Close)
	r.cfg.Connection = c
	r.server = server.New(r.cfg)
	r.server.Publish(gpus(1, 1), options())
	r.run(t)
}

func TestTheFirstRegistrationTakesTheConnection(t *testing.T) {
	r, socket := newConnectionRig(t)
	kubelet, _ := startKubelet(t, socket)
	connection := server.Connect(socket)
	await(t, kubelet.connected, "connection before there is a resource")
	r.register(t, connection)
	await(t, kubelet.registered, "registration")
	if n := len(kubelet.connected); n != 0 {
		t.Errorf("the registration made %d connections more", n)
	}
}

func TestAConnectionToAnEarlierKubeletIsNotInTheWay(t *testing.T) {
	r, socket := newConnectionRig(t)
	before, stop := startKubelet(t, socket)
	connection := server.Connect(socket)
	await(t, before.connected, "connection")
	stop()
	kubelet, _ := startKubelet(t, socket)
	r.register(t, connection)
	await(t, kubelet.registered, "registration")
}

func TestAKubeletThatWasNotThereToConnectToIsRegisteredWith(t *testing.T) {
	r, socket := newConnectionRig(t)
	connection := server.Connect(socket)
	r.register(t, connection)
	kubelet, _ := startKubelet(t, socket)
	r.server.Wake()
	await(t, kubelet.registered, "registration")
}
