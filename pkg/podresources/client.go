package podresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/hostfs"
)

// The defaults of Config.
const (
	Socket  = "/var/lib/kubelet/pod-resources/kubelet.sock"
	timeout = 2 * time.Second
	// most is 16 MiB, as in Kubernetes' own clients of this API. Nodes with answers of 6 MB exist.
	most = 16 << 20
	// mostUses is twice the number of pods on the largest nodes. Each use costs an exporter up to 100
	// metrics.
	mostUses = 1000
	// mostHeaders is the largest size of the headers of an answer, in bytes.
	mostHeaders = 64 << 10
)

// Config configures a Client. The zero value is for the kubelet of this node.
type Config struct {
	// Socket is the path of the PodResources API's socket for this process. If empty,
	// it is the constant Socket.
	Socket string
	// Timeout is the time limit of a refresh. If 0, it is 2 s.
	Timeout time.Duration
	// Most is the size of the largest accepted answer, in bytes. If 0, it is 16 MiB.
	Most int
	// MostUses is the largest accepted number of users of devices, and of unknown devices. If 0, it
	// is 1000.
	MostUses int
}

// Client asks the kubelet which containers use which devices. It keeps one connection, and connects
// again after each failure. It only starts the goroutines of the connection.
//
// It needs the permission to connect to the socket, which belongs to root on most nodes: user 0
// without capabilities is enough.
type Client struct {
	cfg  Config
	last atomic.Pointer[State]

	// mu is held by Refresh, Pod and Close.
	mu   sync.Mutex
	conn *grpc.ClientConn
	// dialed is the error of the last failed connection to the socket.
	dialed atomic.Pointer[error]
}

// State holds the known users of devices. A State does not change.
type State struct {
	// Map and Unknown are from the last answer of the kubelet; nil before the first answer.
	Map     Map
	Unknown []Unknown
	// Uses counts the users of all devices of Map.
	Uses int
	// At is the time of the last answer. It is zero before the first answer.
	At time.Time
	// Err is the error of the last refresh, nil if it succeeded. It is an *Error.
	Err error
	// Failures counts the failed refreshes since the start, by class. It has an entry for each
	// class.
	Failures map[Class]uint64
}

// New returns a Client, which does not connect yet.
func New(cfg Config) (*Client, error) {
	cfg.Socket = cmp.Or(cfg.Socket, Socket)
	cfg.Timeout, cfg.Most, cfg.MostUses = cmp.Or(cfg.Timeout, timeout), cmp.Or(cfg.Most, most), cmp.Or(cfg.MostUses, mostUses)
	if err := hostfs.CheckSocketPath(cfg.Socket); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg}
	failures := map[Class]uint64{}
	for _, class := range Classes() {
		failures[class] = 0
	}
	c.last.Store(&State{Failures: failures})
	return c, nil
}

// Last returns the last State. It never blocks.
func (c *Client) Last() State { return *c.last.Load() }

// Refresh asks the kubelet once, and derives the State that Last returns from then on. If it fails,
// it returns an *Error, and the Map does not change. If ctx ends first, it returns the error of
// ctx, which does not count as a failure of the kubelet.
func (c *Client) Refresh(ctx context.Context, o Options) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	var users Map
	var unknown []Unknown
	err := c.list(limited, func(from pods) (err error) {
		users, unknown, err = derive(from, o, c.cfg.MostUses)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	next := c.Last()
	if err != nil {
		failed := c.classify(err)
		next.Failures = maps.Clone(next.Failures)
		next.Failures[failed.Class]++
		next.Err = failed
		c.last.Store(&next)
		return failed
	}
	next.Map, next.Unknown, next.Uses = users, unknown, users.uses()
	next.At, next.Err = time.Now(), nil
	c.last.Store(&next)
	return nil
}

// Allocation is a device of a device plugin.
type Allocation struct {
	// Resource is the extended resource that the container requested: "nvidia.com/gpu".
	Resource string
	// ID is the ID of the device in the list of its plugin.
	ID string
}

// Pod has the devices of the containers that the kubelet lists, by the container's name. The
// kubelet lists no ephemeral containers, and no init containers except sidecars.
type Pod map[string][]Allocation

// Pod asks the kubelet for the devices that are allocated to the containers of a pod. It returns
// nil if the kubelet does not know the pod. The kubelet allocates the devices of a pod before it
// creates the first container of the pod. If the kubelet does not answer, the error is an *Error.
//
// The API identifies a pod only by its name. Pod returns an error if the kubelet lists two pods
// with the name, for example while a static pod is replaced.
func (c *Client) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	var found Pod
	err := c.list(limited, func(from pods) (err error) {
		found, err = find(from, namespace, name)
		return err
	})
	switch {
	case errors.Is(err, errTwice):
		return nil, fmt.Errorf("the kubelet lists two pods %s/%s: wait until the older one is gone", namespace, name)
	case err != nil:
		return nil, c.classify(err)
	}
	return found, nil
}

var errTwice = errors.New("two pods have the name")

// find returns the devices of a pod, or nil if there is no such pod.
func find(from pods, namespace, name string) (Pod, error) {
	var found Pod
	for p, err := range from {
		switch {
		case err != nil:
			return nil, err
		case p.GetNamespace() != namespace || p.GetName() != name:
			continue
		case found != nil:
			return nil, errTwice
		}
		found = podOf(p)
	}
	return found, nil
}

func podOf(p *kubelet.PodResources) Pod {
	out := Pod{}
	for _, c := range p.GetContainers() {
		var devices []Allocation
		for _, d := range c.GetDevices() {
			for _, id := range d.GetDeviceIds() {
				devices = append(devices, Allocation{Resource: d.GetResourceName(), ID: id})
			}
		}
		out[c.GetName()] = devices
	}
	return out
}

// Close ends the connection. A later question connects again.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disconnect()
}

// list passes the pods of the kubelet's answer to read, and returns its error. It asks a second time
// if the kubelet has restarted since the last request.
func (c *Client) list(ctx context.Context, read func(pods) error) error {
	kept := c.conn != nil
	err := c.request(ctx, read)
	if kept && status.Code(err) == codes.Unavailable && ctx.Err() == nil {
		err = c.request(ctx, read)
	}
	return err
}

func (c *Client) request(ctx context.Context, read func(pods) error) error {
	c.dialed.Store(nil)
	if c.conn == nil {
		conn, err := c.connect()
		if err != nil {
			return err
		}
		c.conn = conn
	}
	answer := &reader{read: read}
	err := c.conn.Invoke(ctx, kubelet.PodResourcesLister_List_FullMethodName, &kubelet.ListPodResourcesRequest{}, answer)
	if answer.err != nil {
		return answer.err
	}
	if err != nil {
		// The next request then connects at once, and not after the delay that gRPC chooses. Until
		// then, no connection is attempted.
		_ = c.disconnect()
	}
	return err
}

func (c *Client) connect() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(mostHeaders),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(c.cfg.Most), grpc.ForceCodecV2(codec{encoding.GetCodecV2("proto")})),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.cfg.Socket)
			if err != nil {
				c.dialed.Store(&err)
			}
			return conn, err
		}))
}

func (c *Client) disconnect() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}
