// Package users tells who uses what a change of MIG layouts destroys: the containers to which the
// kubelet has allocated a device of it, also those without a process, and the processes that the
// driver names.
package users

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/podresources"
)

// Finder finds users.
type Finder struct {
	// Source reads the UUIDs of MIG devices, by which the kubelet knows them.
	Source  gpu.Source
	Kubelet *podresources.Client
	// Client asks whether pods have ended: the kubelet lists those too. It needs the verb get
	// on pods.
	Client *kube.Client
}

// Of returns the users of what a change destroys.
func (f Finder) Of(ctx context.Context, c manager.Change) ([]manager.User, error) {
	node, by, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := Containers(c, node, by)
	if err != nil {
		return nil, err
	}
	containers = slices.DeleteFunc(containers, func(u manager.User) bool { return f.ended(ctx, u) })
	return Merge(containers, c.Holders), nil
}

// Held returns the MIG devices that containers hold whose pods have not ended.
func (f Finder) Held(ctx context.Context) (manager.Held, error) {
	node, by, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	out := manager.Held{}
	for _, g := range node.GPUs {
		if g.MIG == nil {
			continue
		}
		for _, d := range g.MIG.Devices {
			runs := func(u manager.User) bool { return !f.ended(ctx, u) }
			if slices.ContainsFunc(using(by[d.UUID], g.Index, ""), runs) {
				out[g.UUID] = append(out[g.UUID], manager.Device{GPUInstance: d.GPUInstance, ComputeInstance: d.ComputeInstance})
			}
		}
	}
	return out, nil
}

// read returns the GPUs of the node, and to which containers the kubelet has allocated them.
func (f Finder) read(ctx context.Context) (*gpu.Node, podresources.Map, error) {
	node, err := f.Source.Snapshot(ctx)
	if err == nil {
		err = f.Kubelet.Refresh(ctx, podresources.Options{Node: node})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find the users of what changes: %w", err)
	}
	return node, f.Kubelet.Last().Map, nil
}

// ended reports whether a pod is known to have ended.
func (f Finder) ended(ctx context.Context, u manager.User) bool {
	var pod struct {
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	err := f.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: u.Namespace, Name: u.Pod}, &pod)
	if failed, ok := errors.AsType[*kube.StatusError](err); ok && failed.Code == http.StatusNotFound {
		return true
	}
	return err == nil && (pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed")
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
