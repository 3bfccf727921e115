package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/lease"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// process is one that wants the Lease.
type process struct {
	log   *agenttest.Lines
	works chan struct{}
	// resign ends it, and returns what it ended with.
	resign func() error
}

func start(t *testing.T, rc *rest.Config, id string) *process {
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{log: agenttest.NewLines(), works: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- lease.Run(ctx, rc, id, slog.New(slog.NewTextHandler(p.log, nil)), func(ctx context.Context) error {
			close(p.works)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	p.resign = func() error {
		cancel()
		return <-ended
	}
	return p
}

func (p *process) getsIt(t *testing.T, what string) {
	t.Helper()
	select {
	case <-p.works:
	case <-agenttest.Deadline(t).Done():
		t.Fatal(what)
	}
}

func TestOneOfTwoHoldsTheLease(t *testing.T) {
	rc := apitest.Start(t)
	// The namespace default is there a moment after the API server: this one may have to try twice.
	first := start(t, rc, "first")
	first.getsIt(t, "nobody else wanted the Lease, and the first did not get it")
	second := start(t, rc, "second")
	if err := second.log.Wait(agenttest.Deadline(t), "waiting for the lease", "holder=first"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-second.works:
		t.Fatal("the second got the Lease that the first holds")
	default:
	}
	if err := first.resign(); !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	second.getsIt(t, "the second did not get the Lease that the first gave back")
	if err := second.resign(); !errors.Is(err, context.Canceled) {
		t.Errorf("the second ended with %v", err)
	}
	client, err := coordinationv1.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases(lease.Namespace)
	if _, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease is left, with the error %v", err)
	}
	// Helm creates it without a holder, and removes it.
	ofRelease := &v1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}}
	if _, err := leases.Create(t.Context(), ofRelease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	third := start(t, rc, "third")
	third.getsIt(t, "the third did not get the Lease of a release")
	_ = third.resign()
	if l, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{}); err != nil || *l.Spec.HolderIdentity != "" {
		t.Errorf("the Lease of a release is %+v at the end, with the error %v", l, err)
	}
}

// forbidden forbids the first requests, as an API server that does not have the rights of a new account yet.
type forbidden struct {
	next http.RoundTripper
	left *atomic.Int32
}

func (f forbidden) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.left.Add(-1) < 0 {
		return f.next.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusForbidden)
	return w.Result(), nil
}

// An election that fails at first tries again only after several seconds.
func TestRightsThatComeLateDelayNoElection(t *testing.T) {
	rc := rest.CopyConfig(apitest.Start(t))
	var left atomic.Int32
	left.Store(3)
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return forbidden{next, &left} })
	p := start(t, rc, "first")
	p.getsIt(t, "nobody else wanted the Lease, and the process did not get it")
	if err := p.resign(); !errors.Is(err, context.Canceled) {
		t.Errorf("the process ended with %v", err)
	}
	if text := p.log.String(); strings.Contains(text, "cannot access the lease") || left.Load() >= 0 {
		t.Errorf("the election began without the rights:\n%s", text)
	}
}
