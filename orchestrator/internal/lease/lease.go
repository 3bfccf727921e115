// Package lease makes sure that one process of several works. It is what client-go's leader
// election does, without the typed clientset that this links: that costs more memory than
// the rest of the orchestrator.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/pkg/pace"
)

const (
	// duration is how long a process that does not renew its Lease keeps it.
	duration = 30 * time.Second
	// renewEvery is the time between two renewals.
	renewEvery = 10 * time.Second
	// giveUp is how long renewals may fail: less than duration, so that two never work at once.
	giveUp = 20 * time.Second
	// retry is the time between two attempts after an error.
	retry = 2 * time.Second
	// lookEvery is the time after which a process that waits looks whether the Lease was given
	// back.
	lookEvery = 3 * time.Second
	// micro is the format of times in a Lease.
	micro = "2006-01-02T15:04:05.000000Z07:00"
)

// ErrLost is returned by Hold when another process may have the Lease.
var ErrLost = errors.New("the Lease could not be renewed: another orchestrator may work now")

// Lease is a Lease that this process wants or holds.
type Lease struct {
	client   dynamic.ResourceInterface
	name, id string
	log      *slog.Logger

	// held is the Lease as this process wrote it last.
	held *unstructured.Unstructured
	// seen is the version of another process's Lease, and since when it is unchanged here: the
	// clocks of two machines can differ.
	seen  string
	since time.Time
}

// New returns the Lease of this name for the process id.
func New(client dynamic.Interface, namespace, name, id string, log *slog.Logger) *Lease {
	gvr := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	return &Lease{client: client.Resource(gvr).Namespace(namespace), name: name, id: id, log: log}
}

// Acquire waits until this process holds the Lease.
func (l *Lease) Acquire(ctx context.Context) error {
	for {
		in, err := l.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			l.log.Warn("cannot get the lease, retrying", "lease", l.name, "err", err)
			in = retry
		case in == 0:
			return nil
		}
		if !pace.Pause(ctx, in+rand.N(in/4+1)) {
			return ctx.Err()
		}
	}
}

// attempt takes the Lease if nobody holds it, and otherwise returns when to try again.
func (l *Lease) attempt(ctx context.Context) (time.Duration, error) {
	now, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		created, err := l.client.Create(ctx, l.fill(nil), metav1.CreateOptions{})
		if err != nil {
			return retry, ignoreRace(err)
		}
		l.held = created
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	holder, _, _ := unstructured.NestedString(now.Object, "spec", "holderIdentity")
	if holder != "" && holder != l.id {
		if version := now.GetResourceVersion(); version != l.seen {
			if l.seen == "" {
				l.log.Info("waiting for the lease", "lease", l.name, "holder", holder)
			}
			l.seen, l.since = version, time.Now()
		}
		if left := duration - time.Since(l.since); left > 0 {
			return min(left, lookEvery), nil
		}
	}
	updated, err := l.client.Update(ctx, l.fill(now), metav1.UpdateOptions{})
	if err != nil {
		return retry, ignoreRace(err)
	}
	l.held = updated
	return 0, nil
}

// ignoreRace turns the error of another process being faster into another attempt.
func ignoreRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// fill returns the Lease as held by this process.
func (l *Lease) fill(before *unstructured.Unstructured) *unstructured.Unstructured {
	now := time.Now().UTC().Format(micro)
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": l.name},
	}}
	if before != nil {
		o = before.DeepCopy()
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	if spec["holderIdentity"] != l.id {
		transitions, _ := spec["leaseTransitions"].(int64)
		spec["acquireTime"], spec["leaseTransitions"] = now, transitions+1
	}
	spec["holderIdentity"], spec["renewTime"], spec["leaseDurationSeconds"] = l.id, now, int64(duration/time.Second)
	o.Object["spec"] = spec
	return o
}

// Hold renews the Lease until ctx ends, and then gives it back, so that the next process need not
// wait. It returns ErrLost if it cannot renew the Lease in time.
func (l *Lease) Hold(ctx context.Context) error {
	renewed := time.Now()
	for {
		in := renewEvery
		if time.Since(renewed) > renewEvery {
			in = retry
		}
		if !pace.Pause(ctx, in) {
			return l.release(context.WithoutCancel(ctx))
		}
		attempt, cancel := context.WithTimeout(ctx, retry*2)
		updated, err := l.client.Update(attempt, l.fill(l.held), metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			updated, err = l.again(attempt, err)
		}
		cancel()
		switch {
		case err == nil:
			l.held, renewed = updated, time.Now()
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), time.Since(renewed) > giveUp:
			return fmt.Errorf("%w: %w", ErrLost, err)
		case ctx.Err() == nil:
			l.log.Warn("cannot renew the lease, retrying", "lease", l.name, "err", err)
		}
	}
}

// again returns the Lease after a conflict, if this process still holds it: an update that was
// not answered in time may have been made.
func (l *Lease) again(ctx context.Context, conflict error) (*unstructured.Unstructured, error) {
	now, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if holder, _, _ := unstructured.NestedString(now.Object, "spec", "holderIdentity"); holder != l.id {
		return nil, conflict
	}
	return now, nil
}

// release gives the Lease back.
func (l *Lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	o := l.held.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "spec", "holderIdentity")
	if _, err := l.client.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("give back Lease %s: %w", l.name, err)
	}
	return nil
}
