package agent

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

// pipe is a listener of connections whose peers have the addresses in from.
type pipe struct {
	net.Listener
	from []string
}

type piped struct {
	net.Conn
	from   string
	closed bool
}

func (p *piped) RemoteAddr() net.Addr {
	addr := net.UnixAddr{Name: p.from}
	return &addr
}

func (p *piped) Close() error { p.closed = true; return nil }

func (p *pipe) Accept() (net.Conn, error) {
	c := &piped{from: p.from[0]}
	p.from = p.from[1:]
	return c, nil
}

func TestConnectionsThatAreClosedForOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		from, open string
	}{
		"few":                                {"a:1 b:1", "a:1 b:1"},
		"the oldest of a flood":              {"a:1 a:2 a:3 a:4 a:5", "a:3 a:4 a:5"},
		"a peer with one connection stays":   {"k:1 a:1 a:2 a:3 a:4", "k:1 a:3 a:4"},
		"a probe during a flood":             {"a:1 a:2 a:3 k:1 a:4 a:5", "k:1 a:4 a:5"},
		"of many peers, the oldest":          {"a:1 b:1 c:1 d:1", "b:1 c:1 d:1"},
		"a peer that has no port":            {"a a a a:9", "a a a:9"},
		"the flood of one of several peers ": {"a:1 b:1 b:2 c:1", "a:1 b:2 c:1"},
		"addresses of IPv6":                  {"[::1]:1 [::2]:1 [::2]:2 [::3]:1", "[::1]:1 [::2]:2 [::3]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			from := strings.Fields(tc.from)
			l := &limitedListener{Listener: &pipe{from: from}, most: 3, log: slog.New(slog.DiscardHandler)}
			var all []net.Conn
			for range from {
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, c)
				if len(l.open) > l.most {
					t.Fatalf("%d connections are open", len(l.open))
				}
			}
			var open []string
			for _, c := range all {
				inner := c.(*limitedConn).Conn.(*piped)
				if !inner.closed {
					open = append(open, inner.from)
				}
			}
			if got := strings.Join(open, " "); got != tc.open {
				t.Errorf("open are %s, want %s", got, tc.open)
			}
			for _, c := range all {
				_ = c.Close()
			}
			if len(l.open) > 0 {
				t.Errorf("%d connections count after they were closed", len(l.open))
			}
		})
	}
}
