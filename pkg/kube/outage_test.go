package kube_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/kubetest"
)

// outside runs functions on a goroutine outside of the bubble of a test: what belongs to the
// network must not be in the bubble, whose clock stands still while a goroutine waits for it.
type outside chan func()

func newOutside(t *testing.T) outside {
	t.Helper()
	o := make(outside)
	var running sync.WaitGroup
	running.Go(func() {
		for f := range o {
			f()
		}
	})
	t.Cleanup(func() {
		close(o)
		running.Wait()
	})
	return o
}

// run returns when f has.
func (o outside) run(f func()) {
	o <- f
	o <- func() {}
}

// gate passes connections on to a server while it is open. While it is shut, nobody listens
// at its address.
type gate struct {
	t        *testing.T
	addr, to string
	passing  func()
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	g := &gate{t: t, addr: "127.0.0.1:0", to: to}
	g.open()
	t.Cleanup(func() { g.passing() })
	return g
}

func (g *gate) open() {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", g.addr)
	if err != nil {
		g.t.Error(err)
		return
	}
	g.addr, g.passing = listener.Addr().String(), pass(listener, g.to)
}

func (g *gate) shut() {
	g.passing()
	g.passing = func() {}
}

// pass passes connections on until the function that it returns is called, which ends them.
func pass(listener net.Listener, to string) (stop func()) {
	var passing sync.WaitGroup
	var mu sync.Mutex
	ends := []io.Closer{listener}
	passing.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			on, err := net.Dial("tcp", to) //nolint:noctx // on this machine
			if err != nil {
				from.Close()
				continue
			}
			mu.Lock()
			ends = append(ends, from, on)
			mu.Unlock()
			for _, way := range [][2]net.Conn{{from, on}, {on, from}} {
				passing.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
				})
			}
		}
	})
	return func() {
		mu.Lock()
		for _, end := range ends {
			_ = end.Close()
		}
		mu.Unlock()
		passing.Wait()
	}
}

// TestAWatchIsBackAMinuteAfterALongOutage has a clock of its own, so ten minutes pass at
// once.
func TestAWatchIsBackAMinuteAfterALongOutage(t *testing.T) {
	for name, outage := range map[string]struct{ begin, end func(*kubetest.Server, *gate) }{
		"nobody listens": {
			begin: func(_ *kubetest.Server, g *gate) { g.shut() },
			end:   func(_ *kubetest.Server, g *gate) { g.open() },
		},
		"the API server is unavailable": {
			begin: func(s *kubetest.Server, _ *gate) {
				s.Answer("list nodes", http.StatusServiceUnavailable, "not now")
				s.Answer("watch nodes", http.StatusServiceUnavailable, "not now")
				s.EndWatches()
			},
			end: func(s *kubetest.Server, _ *gate) {
				s.Answer("list nodes", 0, "")
				s.Answer("watch nodes", 0, "")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t, "node1", map[string]string{"a": "before"})
			g := newGate(t, strings.TrimPrefix(s.URL(), "https://"))
			dir, out := s.Dir(t), newOutside(t)
			synctest.Test(t, func(t *testing.T) {
				c, err := kube.New(kube.Config{
					Server: "https://" + g.addr, Dir: dir, Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				states := follow(t, c, kube.Query{Object: c.Node()})
				want(t, state{"node1": "before"}, states)
				out.run(func() { outage.begin(s, g) })
				<-time.After(10 * time.Minute)
				if c.Failing() == nil {
					t.Error("the watch works during the outage")
				}
				out.run(func() {
					s.SetLabels(map[string]string{"a": "after"})
					outage.end(s, g)
				})
				back := time.Now()
				want(t, state{"node1": "after"}, states)
				if took := time.Since(back); took > time.Minute {
					t.Errorf("the change was seen %v after the outage, want a minute at most", took)
				}
				out.run(g.shut) // ends the connections in the bubble
			})
		})
	}
}
