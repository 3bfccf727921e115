package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/eviction"
	"outrigger.dev/pkg/procowner"
)

// act performs an action. It returns the time after which the loop continues; 0 for none.
func (m *Manager) act(ctx context.Context, o Observation, a Action) (time.Duration, error) {
	if o.unsure() && a.Kind != Settle {
		m.fact.Withdraw()
	}
	switch a.Kind {
	case Rest:
		if a.Clear {
			m.publishSettled("")
		}
	case Settle:
		m.attempt, m.inEffect = attempt{}, o.Wanted
		m.forgetReboot()
		m.publishSettled(o.Wanted)
	case Hold:
	case Cordon:
		m.cordoned = true
		return 0, m.cordon(ctx)
	case Uncordon:
		return 0, m.uncordon(ctx)
	case Pause:
		m.cfg.Log.Info("keeping DaemonSets that hold the driver off the node, until the change is made", "config", o.Wanted)
		m.paused = true
		return 0, m.pause(ctx)
	case Resume:
		m.cfg.Log.Info("letting the DaemonSets that hold the driver return")
		return 0, m.resume(ctx)
	case Evict:
		m.evict(ctx, a.Users)
	case Apply:
		return m.apply(ctx, o), nil
	case Reboot:
		return m.reboot(ctx), nil
	}
	return a.After, nil
}

// apply makes a change. Before it returns, it starts the units of the host again that it has stopped.
func (m *Manager) apply(ctx context.Context, o Observation) time.Duration {
	began := m.now()
	m.cfg.Log.Info("applying mig config", "config", o.Wanted)
	stops := m.cfg.Units != nil && (o.Plan.Resets() || m.stopUnits)
	var err error
	if stops {
		err = m.cfg.Units.Stop(ctx)
	}
	var result apply.Result
	if err == nil {
		result, err = m.cfg.GPUs.Apply(ctx, o.Request)
	}
	m.startUnits(context.WithoutCancel(ctx))
	if gone := errors.Is(err, contract.ErrClaimed) || errors.Is(err, context.Canceled) || driverGone(err) && !stops; gone && len(result.GPUs) == 0 {
		return retryDriver // the driver is gone, or was claimed after the observation
	}
	if _, unknown := errors.AsType[*apply.HoldersUnknown](err); unknown {
		return m.cfg.Options.Poll // the change was not attempted
	}
	m.loop.Wake() // the next observation decides how to continue
	if err != nil {
		m.failed(ctx, outcome(result, err), stops)
		return 0
	}
	m.metrics.count(succeeded, time.Since(began))
	m.attempt = attempt{}
	return 0
}

// failed records a failed attempt. If it has stopped units of the host, the next attempt is delayed
// longer than the poll interval.
func (m *Manager) failed(ctx context.Context, err error, stopped bool) {
	if ctx.Err() != nil {
		return
	}
	t := &m.attempt
	t.Attempt = Attempt{Err: err, Reboot: errors.Is(err, errNeedsReboot)}
	if t.Users = m.markStaying(ctx, slices.Clone(apply.Holders(err))); len(t.Users) > 0 {
		in := m.cfg.Options.Poll
		if stopped {
			in = t.retry.Next()
		}
		t.until = m.now().Add(in)
		m.stopUnits = m.stopUnits || slices.ContainsFunc(t.Users, m.ofHost)
		m.metrics.count(busy, 0)
		return
	}
	if t.Reboot {
		m.loadRebootNote()
		m.needsReboot()
	} else {
		t.until = m.now().Add(t.retry.Next())
	}
	m.metrics.count(failed, 0)
}

// evict requests evictions of pods, but not of pods that come back. It is called again while PodDisruptionBudgets block evictions.
func (m *Manager) evict(ctx context.Context, users []mig.Holder) {
	done := map[procowner.Pod]bool{}
	for _, u := range users {
		if u.Stays || done[u.Pod] {
			continue
		}
		done[u.Pod] = true
		if err := m.evictPod(ctx, u.Pod); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn("cannot evict pod, retrying", "pod", u.Pod.Namespace+"/"+u.Pod.Name, "err", err)
		}
	}
}

// evictPod evicts a pod of this node, unless it is already terminating.
func (m *Manager) evictPod(ctx context.Context, name procowner.Pod) error {
	var pod eviction.Pod
	err := m.cfg.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: name.Namespace, Name: name.Name}, &pod)
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
	m.cfg.Log.Info("evicting pod", "pod", name.Namespace+"/"+name.Name, "config", m.wanted)
	return nil
}
