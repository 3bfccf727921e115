package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// act takes an action, and returns when to look again.
func (m *Manager) act(ctx context.Context, o Observation, a Action) time.Duration {
	if o.unsure() && a.Kind != Settle {
		m.withdraw()
	}
	switch a.Kind {
	case Rest:
		if a.Clear {
			return soonest(a.After, m.settled(""))
		}
		return a.After
	case Settle:
		m.attempt, m.inEffect = attempt{}, o.Wanted
		m.forgetReboot()
		return soonest(a.After, m.settled(o.Wanted))
	case Hold:
		return a.After
	case Cordon:
		m.cordoned = true
		return m.try(ctx, "cordon", m.cordon)
	case Uncordon:
		return m.try(ctx, "uncordon", m.uncordon)
	case Evict:
		m.evict(ctx, a.Users)
		return a.After
	case Apply:
		return m.apply(ctx, o)
	case Reboot:
		return m.reboot(ctx)
	}
	return 0
}

// try writes to the Node, unless the API server has asked for a pause, and returns when to look
// again. The Node that follows from the write wakes the loop before that. A write that is rejected
// is repeated after longer and longer pauses.
func (m *Manager) try(ctx context.Context, what string, write func(context.Context) error) time.Duration {
	if wait := m.overloaded.Sub(m.now()); wait > 0 {
		return wait
	}
	err := write(ctx)
	if err == nil {
		m.rejected.Reset()
		return time.Second
	}
	in := m.retryIn(&m.rejected, err)
	if ctx.Err() == nil {
		m.cfg.Log.Warn("cannot change the node, retrying", "what", what, "in", in, "err", err)
	}
	return in
}

// retryIn returns when to repeat a write to the Node that has failed. No other write is made before
// the time for which the API server asks.
func (m *Manager) retryIn(retry *pace.Backoff, err error) time.Duration {
	m.overloaded = m.now().Add(kube.RetryAfter(err))
	return kube.RetryIn(retry, err)
}

// apply makes a change. Units of the host that it stops run again before it returns.
func (m *Manager) apply(ctx context.Context, o Observation) time.Duration {
	gpus, err := m.cfg.GPUs.Read(ctx)
	if err != nil {
		return retryDriver
	}
	wish, err := m.cfg.Select(o.Wanted, gpus)
	if err != nil && wish == nil {
		return again // the config has changed
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
		err = m.cfg.GPUs.Apply(ctx, wish, o.Held)
	}
	m.startUnits(context.WithoutCancel(ctx))
	if err != nil {
		m.failed(ctx, err, stops)
		return again
	}
	m.count("success", time.Since(began))
	m.attempt = attempt{}
	return again
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
	if busy, ok := errors.AsType[*Busy](err); ok && len(busy.Users) > 0 {
		t.Users = busy.Users
		in := m.cfg.Options.Poll
		if stopped {
			in = t.retry.Next()
		}
		t.until = m.now().Add(in)
		for _, u := range busy.Users {
			m.stopUnits = m.stopUnits || m.cfg.OfHost != nil && m.cfg.OfHost(u.Unit)
		}
		m.count("busy", 0)
		return
	}
	if t.Reboot {
		m.noted()
		m.needsReboot()
	} else {
		t.until = m.now().Add(t.retry.Next())
	}
	m.count("failed", 0)
}

func (m *Manager) count(result string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Changes[result]++
	if result == "success" {
		m.stats.Took = took
	}
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

// evictPod evicts a pod of this node, unless it is about to end. The UID keeps another pod of the
// same name, such as one that a StatefulSet has made since on another node, from being evicted.
func (m *Manager) evictPod(ctx context.Context, namespace, name string) error {
	var pod struct {
		Metadata struct {
			UID               string `json:"uid"`
			DeletionTimestamp string `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	object := kube.Object{API: "v1", Resource: "pods", Namespace: namespace, Name: name}
	if err := m.cfg.Client.Get(ctx, object, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if pod.Spec.NodeName != m.cfg.Client.Node().Name || pod.Metadata.DeletionTimestamp != "" {
		return nil
	}
	object.Subresource = "eviction"
	if err := m.cfg.Client.Create(ctx, object, map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"namespace": namespace, "name": name},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": pod.Metadata.UID}},
	}); err != nil {
		return err
	}
	m.cfg.Log.Info("evicting pod", "pod", namespace+"/"+name, "config", m.wanted)
	return nil
}
