// Package kubelettest has a kubelet that speaks the device plugin API over real sockets,
// for tests and benchmarks. It accepts registrations, follows ListAndWatch, and makes the
// calls of the kubelet's device manager.
package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Registration is one accepted call of Register.
type Registration struct {
	Request *pluginapi.RegisterRequest
	At      time.Time
}

// Update is a list of devices that a plugin sent. At is the time when the kubelet received it.
type Update struct {
	Resource string
	Devices  []*pluginapi.Device
	At       time.Time
}

// Kubelet accepts registrations in a folder until Stop.
type Kubelet struct {
	dir string

	mu            sync.Mutex
	running       *run
	registrations []Registration
	endpoints     map[string]*endpoint // by resource
	streams       map[string]int       // by resource
	lists         map[string]int       // by resource
	newest        map[string]*Update   // by resource, even after its plugin has gone
	rejection     error
	rejections    int
	onePerSocket  bool
	cleanUp       time.Duration
	changed       chan struct{} // closed and replaced at every change
}

// run is the kubelet from one start to the next stop.
type run struct {
	server *grpc.Server
	ctx    context.Context //nolint:containedctx // a grpc.Server has no context
	cancel context.CancelFunc
	done   sync.WaitGroup
	// conns are the connections to plugins, guarded by Kubelet.mu.
	conns []*grpc.ClientConn
}

// Start starts a kubelet with its sockets in dir.
func Start(dir string) (*Kubelet, error) {
	k := New(dir)
	if err := k.Start(); err != nil {
		return nil, err
	}
	return k, nil
}

// New returns a kubelet that is not running.
func New(dir string) *Kubelet {
	return &Kubelet{
		dir: dir, endpoints: map[string]*endpoint{}, streams: map[string]int{},
		lists: map[string]int{}, newest: map[string]*Update{}, changed: make(chan struct{}),
	}
}

// Socket returns the path of the registration socket.
func (k *Kubelet) Socket() string { return filepath.Join(k.dir, "kubelet.sock") }

// Start empties the folder, as the kubelet does, and creates the socket.
func (k *Kubelet) Start() error {
	if err := removeContents(k.dir); err != nil {
		return fmt.Errorf("start kubelet: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: k.Socket(), Net: "unix"})
	if err != nil {
		return fmt.Errorf("start kubelet: %w", err)
	}
	r := &run{server: grpc.NewServer(grpc.WaitForHandlers(true))}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	pluginapi.RegisterRegistrationServer(r.server, &registrar{kubelet: k, run: r})
	r.done.Go(func() { _ = r.server.Serve(l) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = r
	k.notify()
	return nil
}

// Stop ends the kubelet and its connections to plugins. Like a killed kubelet, it does not
// remove the plugins' sockets.
func (k *Kubelet) Stop() {
	k.mu.Lock()
	r := k.running
	k.running = nil
	k.mu.Unlock()
	if r == nil {
		return
	}
	r.cancel()
	r.server.Stop()
	r.done.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close() // the connection may have been closed when its stream ended
	}
	clear(k.endpoints)
	k.notify()
}

// Restart stops the kubelet and starts it again.
func (k *Kubelet) Restart() error {
	k.Stop()
	return k.Start()
}

// Reject makes Register return err until Reject is called with nil.
func (k *Kubelet) Reject(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rejection = err
}

// OnePerSocket makes the kubelet reject a plugin if it is already connected to the plugin's
// socket, as kubelets do since 1.37. After the end of the plugin's stream, the kubelet stays
// connected for the duration cleanUp.
func (k *Kubelet) OnePerSocket(cleanUp time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onePerSocket, k.cleanUp = true, cleanUp
}

// Registrations returns all accepted registrations.
func (k *Kubelet) Registrations() []Registration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Registration(nil), k.registrations...)
}

// Lists returns the number of lists that the kubelet has received for the resource.
func (k *Kubelet) Lists(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists[resource]
}

// WaitRegistrations waits until n registrations were accepted, and returns the n-th.
func (k *Kubelet) WaitRegistrations(ctx context.Context, n int) (Registration, error) {
	var reg Registration
	err := k.wait(ctx, fmt.Sprintf("registration %d", n), func() bool {
		if len(k.registrations) < n {
			return false
		}
		reg = k.registrations[n-1]
		return true
	})
	return reg, err
}

// WaitRejections waits until n registrations were rejected.
func (k *Kubelet) WaitRejections(ctx context.Context, n int) error {
	return k.wait(ctx, fmt.Sprintf("rejection %d", n), func() bool { return k.rejections >= n })
}

// WaitDevices waits until the function ok accepts the newest list of the resource, and returns
// the list.
func (k *Kubelet) WaitDevices(ctx context.Context, resource string, ok func([]*pluginapi.Device) bool) (Update, error) {
	var last Update
	err := k.wait(ctx, "devices of "+resource, func() bool {
		e := k.endpoints[resource]
		if e == nil || e.last == nil {
			return false
		}
		last = *e.last
		return ok(last.Devices)
	})
	if err != nil {
		return last, fmt.Errorf("%w; the last list was %v", err, last.Devices)
	}
	return last, nil
}

// Streams returns the number of open streams of the resource. It is more than one if a plugin
// registered again while it was still connected.
func (k *Kubelet) Streams(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.streams[resource]
}

// WaitUnlisted waits until no plugin of the resource is connected.
func (k *Kubelet) WaitUnlisted(ctx context.Context, resource string) error {
	return k.wait(ctx, "the end of "+resource, func() bool { return k.endpoints[resource] == nil })
}

// WaitWithdrawn waits until a plugin has withdrawn the resource: the last list has no
// devices, and no plugin is connected.
func (k *Kubelet) WaitWithdrawn(ctx context.Context, resource string) error {
	return k.wait(ctx, "the withdrawal of "+resource, func() bool {
		u := k.newest[resource]
		return u != nil && len(u.Devices) == 0 && k.endpoints[resource] == nil
	})
}

// Plugin returns a client of the plugin that serves the resource.
func (k *Kubelet) Plugin(resource string) (pluginapi.DevicePluginClient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.endpoints[resource]
	if e == nil {
		return nil, fmt.Errorf("call plugin: %s is not registered", resource)
	}
	return e.client, nil
}

// Disconnect closes the connection to the plugin of the resource.
func (k *Kubelet) Disconnect(resource string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.endpoints[resource]; e != nil {
		_ = e.conn.Close() // streamEnded then disconnects the plugin
	}
}

// Allocate calls Allocate of the plugin for one container with the devices.
func (k *Kubelet) Allocate(ctx context.Context, resource string, ids ...string) (*pluginapi.ContainerAllocateResponse, error) {
	client, err := k.Plugin(resource)
	if err != nil {
		return nil, err
	}
	resp, err := client.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, err
	}
	if n := len(resp.GetContainerResponses()); n != 1 {
		return nil, fmt.Errorf("allocate %v: %d answers for one container", ids, n)
	}
	return resp.GetContainerResponses()[0], nil
}

func (k *Kubelet) wait(ctx context.Context, what string, ok func() bool) error {
	for {
		k.mu.Lock()
		done, changed := ok(), k.changed
		k.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s at the kubelet: %w", what, context.Cause(ctx))
		case <-changed:
		}
	}
}

// notify needs the lock.
func (k *Kubelet) notify() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}
