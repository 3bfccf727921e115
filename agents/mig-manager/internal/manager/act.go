package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/eviction"
)

// nodeSeen is the time after which a Node that follows from a write has woken the loop.
const nodeSeen = time.Second

// act takes an action. It returns after which time to look again; 0 for none.
func (m *Manager) act(ctx context.Context, o Observation, a Action) (time.Duration, error) {
	if o.unsure() && a.Kind != Settle {
		m.fact.Withdraw()
	}
	switch a.Kind {
	case Rest:
		if a.Clear {
			m.settled("")
		}
	case Settle:
		m.attempt, m.inEffect = attempt{}, o.Wanted
		m.forgetReboot()
		m.settled(o.Wanted)
	case Hold:
	case Cordon:
		m.cordoned = true
		return nodeSeen, m.cordon(ctx)
	case Uncordon:
		return nodeSeen, m.uncordon(ctx)
	case Evict:
		m.evict(ctx, a.Users)
	case Apply:
		return m.apply(ctx, o), nil
	case Reboot:
		return m.reboot(ctx), nil
	}
	return a.After, nil
}

// apply makes a change. Units of the host that it stops run again before it returns.
func (m *Manager) apply(ctx context.Context, o Observation) time.Duration {
	gpus, err := m.cfg.GPUs.Read(ctx)
	if err != nil {
		return retryDriver
	}
	m.loop.Wake() // what comes next is decided by what is there then
	wish, err := m.cfg.Select(o.Wanted, gpus)
	if err != nil && wish == nil {
		return 0 // the config has changed
	}
	m.remember(wish)
	began := m.now()
	m.cfg.Log.Info("applying mig config", "config", o.Wanted)
	stops := m.cfg.Units != nil && (o.Change.Resets() || m.stopUnits)
	if stops {
		if err = m.cfg.Units.Stop(ctx); err == nil {
			err = m.unused(ctx, o.Change)
		}
	}
	if err == nil {
		err = m.cfg.GPUs.Apply(ctx, wish)
	}
	m.startUnits(context.WithoutCancel(ctx))
	if err != nil {
		m.failed(ctx, err, stops)
		return 0
	}
	m.metrics.count(succeeded, time.Since(began))
	m.attempt = attempt{}
	return 0
}

// unused returns a *Busy if containers have come to hold what a change destroys, while units of the host
// took their time to stop. Processes are for the attempt to find: those of the units have ended.
func (m *Manager) unused(ctx context.Context, c Change) error {
	users, err := m.cfg.Users(ctx, c)
	users = slices.DeleteFunc(users, func(u User) bool { return u.PID != 0 })
	if err == nil && len(users) > 0 {
		err = &Busy{Users: users}
	}
	return err
}

// failed records an attempt that failed. One that has stopped units of the host is not repeated
// with each look at the users.
func (m *Manager) failed(ctx context.Context, err error, stopped bool) {
	if ctx.Err() != nil {
		return
	}
	t := &m.attempt
	t.Attempt = Attempt{Err: err, Reboot: errors.Is(err, ErrNeedsReboot)}
	if used, ok := errors.AsType[*Busy](err); ok && len(used.Users) > 0 {
		t.Users = used.Users
		in := m.cfg.Options.Poll
		if stopped {
			in = t.retry.Next()
		}
		t.until = m.now().Add(in)
		for _, u := range used.Users {
			m.stopUnits = m.stopUnits || m.cfg.OfHost != nil && m.cfg.OfHost(u.Unit)
		}
		m.metrics.count(busy, 0)
		return
	}
	if t.Reboot {
		m.noted()
		m.needsReboot()
	} else {
		t.until = m.now().Add(t.retry.Next())
	}
	m.metrics.count(failed, 0)
}

// evict asks the API server to evict pods. PodDisruptionBudgets count: it is asked again.
func (m *Manager) evict(ctx context.Context, users []User) {
	done := map[string]bool{}
	for _, u := range users {
		name := u.Namespace + "/" + u.Pod
		if done[name] {
			continue
		}
		done[name] = true
		if err := m.evictPod(ctx, u.Namespace, u.Pod); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn("cannot evict pod, retrying", "pod", name, "err", err)
		}
	}
}

// evictPod evicts a pod of this node, unless it is about to end.
func (m *Manager) evictPod(ctx context.Context, namespace, name string) error {
	var pod eviction.Pod
	err := m.cfg.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case pod.Spec.NodeName != m.cfg.Client.Node().Name || pod.DeletionTimestamp != nil:
		return nil
	}
	if err := eviction.Evict(ctx, m.cfg.Client, &pod); err != nil {
		return err
	}
	m.cfg.Log.Info("evicting pod", "pod", namespace+"/"+name, "config", m.wanted)
	return nil
}
