package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Part is a part of an agent. All fields except Name may be zero.
type Part struct {
	// Name identifies the part in the log.
	Name string
	// Run does the work of the part until ctx ends. It then returns nil or the error of ctx within
	// a second, or within App.StopLimit. A part that has finished its work returns nil earlier. Any
	// other error ends the agent.
	Run func(ctx context.Context) error
	// Started is closed by Run when the parts after this one may start. If it is nil, they start at
	// once.
	Started <-chan struct{}
	// Ready returns nil while the output of the part exists on this node. Otherwise it returns the
	// reason why the part waits. It is called for /readyz, concurrently with Run, and must not
	// block.
	Ready func() error
	// Health holds checks by name. If a check returns an error, /healthz fails and the kubelet
	// restarts the agent. The rules of Ready apply.
	Health map[string]func() error
	// Reload is called for each SIGHUP, concurrently with Run. It must not block.
	Reload func()
	// Collectors are served on /metrics, together with the collectors of build info, Go runtime and
	// process.
	Collectors []prometheus.Collector
	// Withdraw removes the published state of the part. It is called after all parts have ended, if
	// Agent.Owner is gone. Its ctx ends 20 s after that.
	Withdraw func(ctx context.Context) error
	// Close releases the resources of the part. It is called last, after all parts have ended.
	Close func() error
}

// Owner is the owner of an agent: the DaemonSet of its pod. cluster.Owner implements it.
type Owner interface {
	// Watch follows the owner until ctx ends, if Gone needs that. It starts before all parts and
	// ends after Gone.
	Watch(ctx context.Context)
	// Gone reports whether the agent will not run on this node again, and logs why.
	Gone(ctx context.Context) bool
}

// withdrawLimit limits the time after the end of all parts. In this time, an agent asks whether its
// owner is gone, and withdraws its labels, conditions and files. It is long, because API servers
// and nodes are busy while a release is uninstalled, and only the agent removes them. The charts
// give a pod whose agent withdraws something a grace period of 30 s, or of App.StopLimit and 30 s.
const withdrawLimit = 20 * time.Second

// runParts runs the parts of an agent until ctx ends, one of them fails, or all have returned. Then
// it withdraws and closes them in reverse order.
func (s *session) runParts(ctx context.Context, a *Agent) error {
	parts := slices.Clone(a.Parts)
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	if a.Owner != nil {
		watching.Go(func() { a.Owner.Watch(watched) })
	}
	err := s.runAll(ctx, parts)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	slices.Reverse(parts)
	if a.Owner != nil {
		s.withdraw(watched, a.Owner, parts)
	}
	errs := []error{err}
	for _, p := range parts {
		if p.Close != nil {
			s.during("close "+p.Name, func() { errs = append(errs, p.Close()) })
		}
	}
	return errors.Join(errs...)
}

func (s *session) runAll(ctx context.Context, parts []Part) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		if p.Run == nil {
			continue
		}
		s.runPart(g, p.Name, func() error { return p.Run(ctx) })
		if p.Started == nil {
			continue
		}
		select {
		case <-p.Started:
		case <-ctx.Done():
			return g.Wait()
		}
	}
	return g.Wait()
}

// withdraw withdraws the parts if the owner is gone.
func (s *session) withdraw(ctx context.Context, owner Owner, parts []Part) {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return p.Withdraw == nil })
	if len(parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawLimit)
	defer cancel()
	close(s.withdrawing)
	gone := false
	s.during("owner", func() { gone = owner.Gone(ctx) })
	if !gone {
		return
	}
	for _, p := range parts {
		s.during("withdraw "+p.Name, func() {
			if err := p.Withdraw(ctx); err != nil {
				s.log.Error("cannot remove the published state: remove it by hand, as the documentation of the agent describes", "part", p.Name, "err", err)
			}
		})
	}
}

// reload reloads the parts. It reports whether a part supports reload.
func (a *Agent) reload() bool {
	found := false
	for _, p := range a.Parts {
		if p.Reload != nil {
			p.Reload()
			found = true
		}
	}
	return found
}

// ready returns why parts wait, nil if all are ready.
func (a *Agent) ready() error {
	var errs []error
	for _, p := range a.Parts {
		if p.Ready != nil {
			errs = append(errs, p.Ready())
		}
	}
	return errors.Join(errs...)
}

// health returns the checks of all parts.
func (a *Agent) health() map[string]func() error {
	all := map[string]func() error{}
	for _, p := range a.Parts {
		maps.Copy(all, p.Health)
	}
	return all
}

// collectors returns the collectors of all parts.
func (a *Agent) collectors() []prometheus.Collector {
	var all []prometheus.Collector
	for _, p := range a.Parts {
		all = append(all, p.Collectors...)
	}
	return all
}
