package migrate_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/migrate"
)

// transport answers a request, or returns nil for requests that the API server answers.
type transport struct {
	http.RoundTripper
	fault func(*http.Request) (*http.Response, error)
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer, err := t.fault(r); answer != nil || err != nil {
		return answer, err
	}
	return t.RoundTripper.RoundTrip(r)
}

// faulty returns a runner whose requests can fail.
func (w *world) faulty(fault func(*http.Request) (*http.Response, error)) *migrate.Runner {
	w.Helper()
	rc := rest.CopyConfig(w.REST)
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, fault} })
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		w.Fatal(err)
	}
	r := w.runner()
	r.Client, r.Explain = client, func(err error) error { return cluster.Explain(rc, err) }
	return r
}

// refusal is the answer of the API server to a request without the right.
func refusal() *http.Response {
	body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no right", "code": 403}`
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// TestMissingRights hands components over with an account that lacks a right. A repetition of the request cannot succeed.
func TestMissingRights(t *testing.T) {
	w := newWorld(t, "a")
	var refused atomic.Int32
	deny := func(method, part string) *migrate.Runner {
		refused.Store(0)
		r := w.faulty(func(r *http.Request) (*http.Response, error) {
			if r.Method != method || !strings.Contains(r.URL.Path, part) {
				return nil, nil
			}
			refused.Add(1)
			return refusal(), nil
		})
		r.Evict = true
		return r
	}
	check := func(r *migrate.Runner, component, want string) {
		t.Helper()
		if err := w.hand(r, component, false); err == nil || !strings.Contains(err.Error(), want) || refused.Load() != 1 {
			t.Errorf("%s: after %d requests: %v, want %q", component, refused.Load(), err, want)
		}
	}
	check(deny(http.MethodPatch, "/nodes/a"), "device-plugin", "change node a")
	w.onlyDriver()
	w.gpuPod("a")
	check(deny(http.MethodPost, "/eviction"), migrate.Driver, "evict pod default/training")
	if w.cordoned("a") {
		t.Error("the node is cordoned")
	}
}

// TestLostNetwork loses the network after the first change. The error has the cause and the state of the hand-over.
func TestLostNetwork(t *testing.T) {
	w := newWorld(t, "a")
	var lost atomic.Bool
	r := w.faulty(func(r *http.Request) (*http.Response, error) {
		if lost.Load() {
			return nil, errors.New("network is down")
		}
		lost.Store(r.Method == http.MethodPatch)
		return nil, nil
	})
	r.Progress = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "network is down") {
			r.Timeout = 0
		}
	}
	err := w.hand(r, "device-plugin", false)
	for _, want := range []string{"reach the API server", "network is down", "the hand-over of device-plugin is incomplete", "--undo --only device-plugin"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	lost.Store(false)
	r = w.runner()
	if err := w.hand(r, "device-plugin", false); err != nil {
		t.Error(err)
	}
}
