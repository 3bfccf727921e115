package server

import (
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// unusedLimit is how long a connection to the kubelet stays open without a call.
const unusedLimit = 10 * time.Second

// Connection is a connection to the kubelet that is made before there is a resource to
// register, while the GPUs are read. The first registration takes it. That of a kubelet
// that went away meanwhile is not used.
type Connection struct {
	conn atomic.Pointer[grpc.ClientConn]
}

// Connect begins to connect to the kubelet's registration socket. It does not block, and
// the kubelet need not be there. The caller has to call Close.
func Connect(socket string) *Connection {
	c := &Connection{}
	if conn, err := dial(socket); err == nil { // the registration reports the error
		conn.Connect()
		c.conn.Store(conn)
	}
	return c
}

// Close closes the connection unless a registration has taken it.
func (c *Connection) Close() {
	if conn := c.conn.Swap(nil); conn != nil {
		_ = conn.Close() // nothing was sent
	}
}

// take returns the connection, or nil if it is taken, or not of use.
func (c *Connection) take() *grpc.ClientConn {
	if c == nil {
		return nil
	}
	conn := c.conn.Swap(nil)
	if conn == nil {
		return nil
	}
	if state := conn.GetState(); state == connectivity.Ready || state == connectivity.Connecting {
		return conn
	}
	_ = conn.Close() // nothing was sent
	return nil
}

// dial returns a connection to the kubelet's registration socket, which connects with the
// first call.
func dial(socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10), grpc.WithIdleTimeout(unusedLimit))
	if err != nil {
		return nil, fmt.Errorf("connect to the kubelet at %s: %w", socket, err)
	}
	return conn, nil
}
