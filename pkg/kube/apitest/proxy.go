package apitest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Proxy forwards requests to an API server, counts them, and can make them fail. A kind of request
// has a name in the terms of RBAC: "patch nodes/status".
type Proxy struct {
	http *httptest.Server

	mu          sync.Mutex
	requests    map[string]int
	unavailable int
	answers     map[string]metav1.Status
	hooks       map[string]func()
}

// newProxy returns a Proxy that ends with the test.
func newProxy(t testing.TB, host string, transport http.RoundTripper) *Proxy {
	t.Helper()
	to, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{requests: map[string]int{}, answers: map[string]metav1.Status{}, hooks: map[string]func(){}}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1, ErrorLog: quiet,
	}
	p.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failed := p.admit(kindOf(r)); failed != nil {
			writeStatus(w, failed)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	p.http.Config.ErrorLog, p.http.EnableHTTP2 = quiet, true
	p.http.StartTLS()
	t.Cleanup(func() {
		p.Cut()
		p.http.Close()
	})
	return p
}

// Cut closes the connections, which ends the open watches.
func (p *Proxy) Cut() { p.http.CloseClientConnections() }

// kindOf returns the kind of a request. For a request that concerns no resource, it is the method
// and the path.
func kindOf(r *http.Request) string {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	path = path[min(map[string]int{"api": 2, "apis": 3}[path[0]], len(path)):]
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	verb := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
	switch {
	case len(path) == 0:
		return r.Method + " " + r.URL.Path
	case r.URL.Query().Get("watch") == "true":
		verb = "watch"
	case len(path) == 1 && verb == "get":
		verb = "list"
	case len(path) > 2:
		path[0] += "/" + path[2]
	}
	return verb + " " + path[0]
}

// admit counts a request. It returns the failure to answer, or nil to forward the request.
func (p *Proxy) admit(kind string) *metav1.Status {
	p.mu.Lock()
	p.requests[kind]++
	hook := p.hooks[kind]
	delete(p.hooks, kind)
	p.mu.Unlock()
	if hook != nil {
		hook()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unavailable > 0 {
		p.unavailable--
		return &metav1.Status{Code: http.StatusServiceUnavailable, Message: "not now"}
	}
	if failed, fails := p.answers[kind]; fails {
		return &failed
	}
	return nil
}

func writeStatus(w http.ResponseWriter, failed *metav1.Status) {
	failed.TypeMeta, failed.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure
	if failed.Details != nil {
		w.Header().Set("Retry-After", fmt.Sprint(failed.Details.RetryAfterSeconds))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(failed.Code))
	_ = json.NewEncoder(w).Encode(failed) //nolint:errchkjson // a client that is gone
}

// Requests returns the number of requests of each kind. It includes requests that failed.
func (p *Proxy) Requests() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.requests)
}

// Unavailable answers the next n requests with 503.
func (p *Proxy) Unavailable(n int) { p.set(func() { p.unavailable = n }) }

// Answer answers all requests of a kind with a code and a message. A call with the code 0 ends
// this.
func (p *Proxy) Answer(kind string, code int32, message string) {
	p.set(func() {
		delete(p.answers, kind)
		if code != 0 {
			p.answers[kind] = metav1.Status{Code: code, Message: message}
		}
	})
}

// Overload answers all requests of a kind with 429, like an API server with too many requests. The
// client is told to retry after a time. A call of Answer ends this.
func (p *Proxy) Overload(kind string, after time.Duration) {
	p.set(func() {
		p.answers[kind] = metav1.Status{
			Code: http.StatusTooManyRequests, Message: "too many requests", Details: &metav1.StatusDetails{RetryAfterSeconds: int32(after.Seconds())},
		}
	})
}

// Forbid rejects all requests of a kind, as RBAC does.
func (p *Proxy) Forbid(kind string) {
	verb, resource, _ := strings.Cut(kind, " ")
	p.Answer(kind, http.StatusForbidden, fmt.Sprintf(`%s is forbidden: User "system:serviceaccount:gpu:agent" cannot %s resource %q in API group "" at the cluster scope`,
		resource, verb, resource))
}

// Before runs hook once, before the next request of a kind is forwarded. It simulates another
// client that writes at that moment.
func (p *Proxy) Before(kind string, hook func()) { p.set(func() { p.hooks[kind] = hook }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}
