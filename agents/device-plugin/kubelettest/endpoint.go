package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/pace"
)

// endpoint is the connection to one plugin. Kubelet.mu guards last and forgotten.
type endpoint struct {
	path   string
	conn   *grpc.ClientConn
	client pluginapi.DevicePluginClient

	last *Update
	// forgotten is set if the kubelet will not disconnect the plugin when its stream ends.
	forgotten bool
}

// registrar is the Registration service of one run.
type registrar struct {
	pluginapi.UnimplementedRegistrationServer
	kubelet *Kubelet
	run     *run
}

// Register accepts a plugin, and follows its devices from then on. As in a kubelet before
// 1.37, it replaces a registered plugin, whose stream stays open.
func (r *registrar) Register(ctx context.Context, req *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k := r.kubelet
	at := time.Now()
	if req.GetVersion() != pluginapi.Version {
		return nil, fmt.Errorf("requested API version %q is not supported by kubelet", req.GetVersion())
	}
	if err := k.rejected(); err != nil {
		return nil, err
	}
	path := filepath.Join(k.dir, req.GetEndpoint())
	conn, err := grpc.NewClient("unix://"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	e := &endpoint{path: path, conn: conn, client: pluginapi.NewDevicePluginClient(conn)}
	if _, err := e.client.GetDevicePluginOptions(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true)); err != nil {
		return nil, errors.Join(fmt.Errorf("get device plugin options: %w", err), conn.Close())
	}
	name := req.GetResourceName()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.checkOnePerSocket(name, path); err != nil {
		k.rejections++
		k.notify()
		return nil, errors.Join(err, conn.Close())
	}
	r.run.conns = append(r.run.conns, conn)
	k.endpoints[name] = e
	k.registrations = append(k.registrations, Registration{Request: req, At: at})
	k.notify()
	r.run.done.Go(func() { k.follow(r.run.ctx, name, e) })
	return &pluginapi.Empty{}, nil
}

// checkOnePerSocket rejects a second connection to a socket, like a kubelet of 1.37. Such a
// kubelet then does not disconnect the first connection when its stream ends. The caller holds the
// lock.
func (k *Kubelet) checkOnePerSocket(name, path string) error {
	e := k.endpoints[name]
	if !k.onePerSocket || e == nil || e.path != path {
		return nil
	}
	e.forgotten = true
	return fmt.Errorf("device plugin already connected: %s", path)
}

// rejected returns the error that Reject has set, and counts the rejection.
func (k *Kubelet) rejected() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rejection != nil {
		k.rejections++
		k.notify()
	}
	return k.rejection
}

// follow receives the lists of one stream until it ends.
func (k *Kubelet) follow(ctx context.Context, name string, e *endpoint) {
	k.addStreams(name, 1)
	defer k.streamEnded(ctx, name)
	stream, err := e.client.ListAndWatch(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return
		}
		u := &Update{Resource: name, Devices: list.GetDevices(), At: time.Now()}
		k.mu.Lock()
		k.lists[name]++
		k.newest[name] = u
		// The list belongs to the resource, even if it came through an older stream.
		if e := k.endpoints[name]; e != nil {
			e.last = u
		}
		k.notify()
		k.mu.Unlock()
	}
}

func (k *Kubelet) addStreams(name string, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.streams[name] += n
	k.notify()
}

// streamEnded handles the end of a stream like the kubelet: it disconnects the plugin that is
// registered now, even if the stream belongs to an earlier registration.
func (k *Kubelet) streamEnded(ctx context.Context, name string) {
	k.addStreams(name, -1)
	k.mu.Lock()
	cleanUp := k.cleanUp
	k.mu.Unlock()
	pace.Pause(ctx, cleanUp)
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.endpoints[name]; e != nil && !e.forgotten {
		delete(k.endpoints, name)
		_ = e.conn.Close()
	}
	k.notify()
}
