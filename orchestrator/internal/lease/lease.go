// Package lease ensures that only one orchestrator works in a cluster.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/pace"
)

// The Lease has a fixed name and namespace, so that orchestrators in different namespaces exclude
// each other.
const (
	Namespace = "default"
	Name      = "outrigger"
)

const (
	// leaseDuration is how long a process keeps the Lease without renewing it.
	leaseDuration = 30 * time.Second
	// renewDeadline is how long renewals may fail. It is shorter than leaseDuration, so that two
	// processes never work at the same time.
	renewDeadline = 20 * time.Second
	// retryPeriod is the time between two renewals. A waiting process checks the Lease every one to
	// two periods.
	retryPeriod = 6 * time.Second
	// requestTimeout is the time limit of a request to the API server.
	requestTimeout = 5 * time.Second
)

// ErrLost is returned by Run if another process may hold the Lease.
var ErrLost = errors.New("the Lease could not be renewed: another orchestrator may work now")

// Run waits until this process, with the identity id, holds the Lease, and calls work until ctx
// ends or the Lease is lost. Then it releases the Lease, so that the next process need not wait,
// and deletes it if it does not belong to a Helm release.
func Run(ctx context.Context, rc *rest.Config, id string, log *slog.Logger, work func(context.Context) error) error {
	rc = rest.CopyConfig(rc)
	rc.Timeout = requestTimeout
	client, err := coordinationv1.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &monitor{log: log, explain: func(err error) error { return cluster.Explain(rc, err) }, Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		}},
		Name: Name, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				log.Info("holding the lease", "lease", Name)
				elected <- leading
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != id {
					log.Info("waiting for the lease", "lease", Name, "holder", holder)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("wait for the Lease: %w", err)
	}
	// The election does not end with ctx: the Lease is kept until work has returned. The monitor logs
	// the errors of the election.
	election, resign := context.WithCancel(agent.Unlogged(context.WithoutCancel(ctx)))
	var running sync.WaitGroup
	running.Go(func() {
		waitForRights(election, client.Leases(Namespace))
		elector.Run(election)
		remove(context.WithoutCancel(ctx), client.Leases(Namespace))
	})
	defer running.Wait()
	defer resign()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case leading := <-elected:
		return lead(ctx, leading, work)
	}
}

// waitForRights returns once the API server does not forbid to read the Lease, or after one retryPeriod. Helm writes the
// rights of this account right before it starts this process, and the API server needs a moment to apply them. The
// election would try again only after one to two periods.
func waitForRights(ctx context.Context, leases coordinationv1.LeaseInterface) {
	ctx, cancel := context.WithTimeout(ctx, retryPeriod)
	defer cancel()
	retry := pace.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	for {
		_, err := leases.Get(ctx, Name, metav1.GetOptions{})
		if !apierrors.IsForbidden(err) || !retry.Pause(ctx) {
			return
		}
	}
}

// lead calls work until ctx or leading ends. It returns ErrLost if leading ended.
func lead(ctx, leading context.Context, work func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leading, stop)()
	err := work(working)
	if leading.Err() != nil {
		return ErrLost
	}
	return err
}

// remove deletes a Lease without a holder. A Lease with labels stays, because it is an object of a
// Helm release. Errors are ignored, because a Lease without a holder does no harm.
func remove(ctx context.Context, leases coordinationv1.LeaseInterface) {
	l, err := leases.Get(ctx, Name, metav1.GetOptions{})
	if err != nil || len(l.Labels) > 0 || l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
		return
	}
	_ = leases.Delete(ctx, Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &l.ResourceVersion}})
}
