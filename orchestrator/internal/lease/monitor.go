package lease

import (
	"context"
	"errors"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// monitor is a lock that logs each new error of its requests once, and the end of the errors.
// client-go would log every attempt, without a fix.
type monitor struct {
	resourcelock.Interface

	// explain adds the fix to an error.
	explain func(error) error
	log     *slog.Logger
	// logged is the last error in the log. It is empty after a request without an error.
	logged string
}

func (m *monitor) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := m.Interface.Get(ctx)
	return record, raw, m.report(err)
}

func (m *monitor) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.report(m.Interface.Create(ctx, record))
}

func (m *monitor) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return m.report(m.Interface.Update(ctx, record))
}

// report logs err and returns it. An absent Lease and a conflict with another orchestrator are
// answers and not errors.
func (m *monitor) report(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
	case err == nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		if m.logged != "" {
			m.log.Info("can access the lease again", "lease", Name)
		}
		m.logged = ""
	case m.logged != err.Error():
		m.log.Warn("cannot access the lease, retrying", "lease", Name, "err", m.explain(err))
		m.logged = err.Error()
	}
	return err
}
