// Package lease makes sure that one orchestrator of a cluster works.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The Lease has the same place in all clusters, whatever the namespace of an orchestrator is: two
// of them must see each other.
const (
	Namespace = "default"
	Name      = "outrigger"
)

const (
	// leaseDuration is how long a process that does not renew its Lease keeps it.
	leaseDuration = 30 * time.Second
	// renewDeadline is how long renewals may fail: less than duration, so that two never work at once.
	renewDeadline = 20 * time.Second
	// retryPeriod is the time between two renewals. A process that waits looks after once to twice as long.
	retryPeriod = 6 * time.Second
	// requestTimeout is how long the API server may take to answer.
	requestTimeout = 5 * time.Second
)

// ErrLost is returned by Run when another process may have the Lease.
var ErrLost = errors.New("the Lease could not be renewed: another orchestrator may work now")

// Run waits until the process id holds the Lease, and works until ctx or the Lease ends. Then it gives
// the Lease back, so that the next process need not wait, and removes it if no release has it.
func Run(ctx context.Context, rc *rest.Config, id string, log *slog.Logger, work func(context.Context) error) error {
	rc = rest.CopyConfig(rc)
	rc.Timeout = requestTimeout
	client, err := coordinationv1.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		Name: Name, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { elected <- leading },
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
	// The Lease is kept until the work has ended.
	election, resign := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
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

// lead works until ctx or leading ends.
func lead(ctx, leading context.Context, work func(context.Context) error) error {
	working, stop := context.WithCancel(leading)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err := work(working)
	if leading.Err() != nil {
		return ErrLost
	}
	return err
}

// remove removes a Lease that nobody holds, unless it has labels: then it is an object of a Helm
// release. If that fails, an empty Lease is left, which hinders nobody.
func remove(ctx context.Context, leases coordinationv1.LeaseInterface) {
	l, err := leases.Get(ctx, Name, metav1.GetOptions{})
	if err != nil || len(l.Labels) > 0 || l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
		return
	}
	_ = leases.Delete(ctx, Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &l.ResourceVersion}})
}
