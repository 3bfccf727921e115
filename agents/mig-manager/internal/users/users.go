// Package users tells who uses what a change of MIG layouts destroys: the containers to which the
// kubelet has allocated a device of it, also those without a process, and the processes that the
// driver names.
package users

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/eviction"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
)

// Finder finds users. It is not safe for concurrent use.
type Finder struct {
	// Source reads the UUIDs of MIG devices, by which the kubelet knows them.
	Source  gpu.Source
	Kubelet *podresources.Client
	// Client asks whether pods have ended: the kubelet lists those too. It needs the verb get
	// on pods.
	Client *kube.Client

	// running are the pods that had not ended when the API server was asked, by namespace/name.
	running map[string]runs
	// away is until when the API server, which did not answer, is not asked about any pod.
	away time.Time
}

// Of returns the users of what a change destroys.
func (f *Finder) Of(ctx context.Context, c manager.Change) ([]manager.User, error) {
	node, by, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := Containers(c, node, by)
	if err != nil {
		return nil, err
	}
	containers = slices.DeleteFunc(containers, func(u manager.User) bool { return f.ended(ctx, u) })
	out := Merge(containers, c.Holders)
	for i, u := range out {
		if u.Pod != "" && u.PID != 0 {
			f.ended(ctx, u) // a process that runs holds the device, whatever its pod is
		}
		out[i].Stays = u.Pod != "" && f.running[name(u)].stays
	}
	return out, nil
}

// Holding is a container, and the MIG device that it holds; of the whole GPU, both numbers are
// gpu.NoInstance.
type Holding struct {
	manager.User
	manager.Device
}

// All returns the containers that hold a GPU or MIG device, and whose pods have not ended.
func (f *Finder) All(ctx context.Context) (map[gpu.UUID][]Holding, error) {
	node, by, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	out := map[gpu.UUID][]Holding{}
	add := func(g gpu.GPU, d manager.Device, list []manager.User) {
		for _, u := range list {
			if !f.ended(ctx, u) {
				out[g.UUID] = append(out[g.UUID], Holding{u, d})
			}
		}
	}
	for _, g := range node.GPUs {
		add(g, manager.Device{GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}, using(by[g.UUID], g.Index, ""))
		if g.MIG == nil {
			continue
		}
		for _, d := range g.MIG.Devices {
			add(g, manager.Device{GPUInstance: d.GPUInstance, ComputeInstance: d.ComputeInstance}, using(by[d.UUID], g.Index, d.Profile.String()))
		}
	}
	return out, nil
}

// read returns the GPUs of the node, and to which containers the kubelet has allocated them.
func (f *Finder) read(ctx context.Context) (*gpu.Node, podresources.Map, error) {
	node, err := f.Source.Snapshot(ctx)
	if err == nil {
		err = f.Kubelet.Refresh(ctx, podresources.Options{Node: node})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find the users of what changes: %w", err)
	}
	f.forget()
	return node, f.Kubelet.Last().Map, nil
}

// runs is what is remembered of a pod that has not ended.
type runs struct {
	// stays is set if an eviction does not keep it away.
	stays bool
	// until is when the API server is asked again.
	until time.Time
	retry pace.Backoff
}

// The pauses between two questions whether a pod has ended. A change can wait for days.
const (
	askFirst = 2 * time.Second
	askMost  = 30 * time.Second
)

// ended reports whether a pod is known to have ended. That it has is not remembered: the next pod may
// have its name.
func (f *Finder) ended(ctx context.Context, u manager.User) bool {
	r, asked := f.running[name(u)]
	if asked && time.Now().Before(r.until) || time.Now().Before(f.away) {
		return false
	}
	var pod eviction.Pod
	err := f.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: u.Namespace, Name: u.Pod}, &pod)
	if apierrors.IsNotFound(err) || err == nil && eviction.Ended(&pod) {
		delete(f.running, name(u))
		return true
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); err != nil && !answered {
		f.away = time.Now().Add(askMost)
	}
	if !asked {
		r.retry = pace.Backoff{First: askFirst, Most: askMost}
	}
	if f.running == nil {
		f.running = map[string]runs{}
	}
	r.stays = (eviction.Options{}).Obstacle(&pod).Returns() || err != nil && r.stays
	r.until = time.Now().Add(r.retry.Next())
	f.running[name(u)] = r
	return false
}

func name(u manager.User) string { return u.Namespace + "/" + u.Pod }

// forget forgets pods that were not asked about for a while.
func (f *Finder) forget() {
	maps.DeleteFunc(f.running, func(_ string, r runs) bool { return time.Since(r.until) > askMost })
}

// Containers returns the containers to which a device is allocated that a change destroys, each
// of them once for a device. It is pure.
func Containers(c manager.Change, node *gpu.Node, by podresources.Map) ([]manager.User, error) {
	var out []manager.User
	for _, change := range c.GPUs {
		g := node.ByUUID(change.UUID)
		if g == nil {
			return nil, fmt.Errorf("find the users of what changes: the driver does not list GPU %d (%s) now", change.Index, change.UUID)
		}
		if change.Mode {
			out = append(out, using(by[g.UUID], g.Index, "")...)
		}
		if g.MIG == nil {
			continue
		}
		for _, d := range g.MIG.Devices {
			if change.Mode || slices.Contains(change.Goes, manager.Device{GPUInstance: d.GPUInstance, ComputeInstance: d.ComputeInstance}) {
				out = append(out, using(by[d.UUID], g.Index, d.Profile.String())...)
			}
		}
	}
	return out, nil
}

func using(by []podresources.User, index int, device string) []manager.User {
	var out []manager.User
	for _, u := range by {
		is := manager.User{Namespace: u.Namespace, Pod: u.Pod, Container: u.Container, GPU: index, Device: device}
		if !slices.Contains(out, is) { // the replicas of a device
			out = append(out, is)
		}
	}
	return out
}

// Merge adds processes to containers, but those of pods that are in the list. It is pure.
func Merge(containers, processes []manager.User) []manager.User {
	out := slices.Clone(containers)
	for _, p := range processes {
		known := p.Pod != "" && slices.ContainsFunc(containers, func(c manager.User) bool {
			return c.Namespace == p.Namespace && c.Pod == p.Pod && c.GPU == p.GPU
		})
		if !known {
			out = append(out, p)
		}
	}
	return out
}
