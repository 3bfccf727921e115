package agent

import (
	"context"
	"net/http"
	"sync"
	"time"

	"outrigger.dev/pkg/pace"
)

const (
	// maxRequests is the number of requests that are answered at a time, without the
	// probes of the kubelet, which cost nothing.
	maxRequests = 16
	// maxStreams is the number of requests at a time in one connection of HTTP/2, which only a
	// server of HTTP.Serve has.
	maxStreams = 8
	// requestWait is how long a request waits for its turn: Prometheus gives a scrape 10 s by
	// default. Connections are limited, and with them the requests that wait.
	requestWait = 8 * time.Second
	// A peer has requestBurst requests at once, and then one in each requestEvery:
	// clients that read metrics all the time would delay the probes of the kubelet.
	requestBurst = 200
	requestEvery = 10 * time.Millisecond
	// maxPeers is the number of peers whose requests are counted.
	maxPeers = 1024
)

// requestLimit limits the requests to handlers that need time.
type requestLimit struct {
	running chan struct{}

	mu    sync.Mutex
	peers map[string]*pace.Budget
}

func newRequestLimit() *requestLimit {
	return &requestLimit{running: make(chan struct{}, maxRequests), peers: map[string]*pace.Budget{}}
}

// handler returns the handler h within the limit. Beyond it, it answers 429 to a peer
// with too many requests, and 503 to one that has waited while too many ran.
func (l *requestLimit) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.may(withoutPort(r.RemoteAddr), time.Now()) {
			reject(w, http.StatusTooManyRequests)
			return
		}
		if !l.turn(r.Context()) {
			reject(w, http.StatusServiceUnavailable)
			return
		}
		defer func() { <-l.running }()
		h.ServeHTTP(w, r)
	})
}

// turn waits until fewer than maxRequests run, and then counts as one of them. It returns false
// if that takes too long, and if the client leaves.
func (l *requestLimit) turn(ctx context.Context) bool {
	select {
	case l.running <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(requestWait)
	defer late.Stop()
	select {
	case l.running <- struct{}{}:
		return true
	case <-late.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// may reports whether a peer may send another request.
func (l *requestLimit) may(peer string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.peers[peer]
	if b == nil {
		if len(l.peers) == maxPeers {
			clear(l.peers)
		}
		b = &pace.Budget{Burst: requestBurst, Every: requestEvery}
		l.peers[peer] = b
	}
	return b.Spend(now)
}

func reject(w http.ResponseWriter, code int) {
	w.Header().Set("Retry-After", "1")
	answer(w, code, "too many requests, try again later\n")
}
