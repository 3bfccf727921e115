package kubelettest

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// endpoint is the connection to one plugin. Its last list is guarded by
// Kubelet.mu.
type endpoint struct {
	conn   *grpc.ClientConn
	client pluginapi.DevicePluginClient
	cancel context.CancelFunc
	last   *Update
}

func (e *endpoint) close() {
	e.cancel()
	_ = e.conn.Close()
}

// registrar is the service of one run.
type registrar struct {
	pluginapi.UnimplementedRegistrationServer
	kubelet *Kubelet
	run     *run
}

// Register takes a plugin in, and follows its devices from then on.
func (r *registrar) Register(_ context.Context, req *pluginapi.RegisterRequest) (*pluginapi.Empty, error) { //nolint:contextcheck // the stream outlives the call
	k := r.kubelet
	at := time.Now()
	if req.GetVersion() != pluginapi.Version {
		return nil, fmt.Errorf("requested API version %q is not supported by kubelet", req.GetVersion())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		k.refusals++
		k.notify()
		return nil, k.refuse
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, req.GetEndpoint()),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.run.ctx)
	e := &endpoint{conn: conn, client: pluginapi.NewDevicePluginClient(conn), cancel: cancel}
	name := req.GetResourceName()
	if old := k.endpoints[name]; old != nil {
		old.close()
	}
	k.endpoints[name] = e
	k.registrations = append(k.registrations, Registration{Request: req, At: at})
	k.notify()
	r.run.done.Go(func() { k.follow(ctx, name, e) })
	return &pluginapi.Empty{}, nil
}

// follow collects the lists of one endpoint until its stream ends.
func (k *Kubelet) follow(ctx context.Context, name string, e *endpoint) {
	defer k.drop(name, e)
	stream, err := e.client.ListAndWatch(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return
		}
		u := Update{Resource: name, Devices: resp.GetDevices(), At: time.Now()}
		k.mu.Lock()
		e.last = &u
		k.updates = append(k.updates, u)
		k.notify()
		k.mu.Unlock()
	}
}

func (k *Kubelet) drop(name string, e *endpoint) {
	e.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.endpoints[name] == e {
		delete(k.endpoints, name)
	}
	k.notify()
}
