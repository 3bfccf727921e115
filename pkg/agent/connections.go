package agent

import (
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// maxConnections is the number of connections that the server keeps open. A node
	// has few clients: the kubelet, and some that read /metrics.
	maxConnections = 64
	// warnEvery is the least time between two warnings about too many connections.
	warnEvery = time.Minute
)

// limitedListener is a listener that keeps a limited number of connections open. For each one
// beyond that, it closes the oldest connection of the peer that has the most: neither
// an idle peer nor a flood of connections keeps the kubelet's probes waiting, as they
// would if the listener stopped to accept.
type limitedListener struct {
	net.Listener
	most int
	log  *slog.Logger

	mu sync.Mutex
	// open has the open connections, the oldest first.
	open []*limitedConn
	// warned is when the last warning was logged.
	warned time.Time
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	of *limitedListener
	// peer is the address of the peer, without the port.
	peer string
}

// Accept waits for the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: accepted, of: l, peer: withoutPort(accepted.RemoteAddr().String())}
	if victim := l.add(c); victim != nil {
		victim.reset()
		// Let the connections that were accepted before be read: a probe has sent its
		// request by now, and must be answered before its connection is the oldest.
		runtime.Gosched()
	}
	return c, nil
}

// withoutPort returns the address of a peer, without the port.
func withoutPort(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// add adds a connection, and returns the one to close for it, nil for none.
func (l *limitedListener) add(c *limitedConn) *limitedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) <= l.most {
		return nil
	}
	count := map[string]int{}
	for _, c := range l.open {
		count[c.peer]++
	}
	victim := l.open[0]
	for _, c := range l.open {
		if count[c.peer] > count[victim.peer] {
			victim = c
		}
	}
	l.remove(victim)
	if time.Since(l.warned) >= warnEvery {
		l.warned = time.Now()
		l.log.Warn("too many connections, closing the oldest ones of the peer with the most",
			"limit", l.most, "peer", victim.peer, "connections", count[victim.peer])
	}
	return victim
}

func (l *limitedListener) remove(c *limitedConn) {
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// reset closes the connection, and leaves nothing of it to the kernel.
func (c *limitedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise the kernel keeps the socket for a while
	}
	_ = c.Conn.Close() // the server notices when it reads
}
