package nodeinit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"golang.org/x/sys/unix"
)

// Client sends commands to the first process of a node.
type Client struct {
	node   string
	socket string
	http   http.Client
}

// NewClient returns a client of the node that s describes.
func NewClient(s Spec) *Client {
	c := &Client{node: s.Name, socket: s.Socket()}
	c.http.Transport = &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.socket)
		},
	}
	return c
}

// Start starts a component of the node.
func (c *Client) Start(ctx context.Context, component string) error {
	_, err := c.do(ctx, http.MethodPost, "/components/"+component+"/start")
	return err
}

// Stop stops a component of the node and returns when it has ended.
func (c *Client) Stop(ctx context.Context, component string) error {
	_, err := c.do(ctx, http.MethodPost, "/components/"+component+"/stop")
	return err
}

// Restart stops and starts a component of the node.
func (c *Client) Restart(ctx context.Context, component string) error {
	if err := c.Stop(ctx, component); err != nil {
		return err
	}
	return c.Start(ctx, component)
}

// Status returns the status of the node's components.
func (c *Client) Status(ctx context.Context) ([]Status, error) {
	b, err := c.do(ctx, http.MethodGet, "/components")
	if err != nil {
		return nil, err
	}
	var all []Status
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("decode status of %s: %w", c.node, err)
	}
	return all, nil
}

func (c *Client) do(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.node+path, nil)
	if err != nil {
		return nil, fmt.Errorf("create request to %s: %w", c.node, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the first process of %s: %w", c.node, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", c.node, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s on %s: %s", method, path, c.node, strings.TrimSpace(string(b)))
	}
	return b, nil
}

// PID returns the ID of the node's first process in the caller's PID namespace. The kernel reports
// the listener of the socket, so the ID is never outdated.
func (c *Client) PID(ctx context.Context) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return 0, fmt.Errorf("reach the first process of %s: %w", c.node, err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reach the first process of %s: %w", c.node, err)
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, fmt.Errorf("identify the first process of %s: %w", c.node, err)
	}
	if peerErr != nil {
		return 0, fmt.Errorf("identify the first process of %s: %w", c.node, peerErr)
	}
	return int(peer.Pid), nil
}
