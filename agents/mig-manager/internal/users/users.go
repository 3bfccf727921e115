// Package users finds the containers that hold a GPU or a MIG device through an allocation of the
// kubelet. The driver does not know a container without a process.
package users

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/eviction"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/procowner"
)

// Finder finds containers. It is not safe for concurrent use.
type Finder struct {
	// Source reads the UUIDs of MIG devices. The kubelet identifies MIG devices by UUID.
	Source  gpu.Source
	Kubelet *podresources.Client
	// Pins has the indices of MIG devices. It may be nil.
	Pins *index.Pins
	// Client reads whether pods have ended, because the kubelet also lists ended pods. It needs the
	// verb get on pods.
	Client *kube.Client

	// node is the node that the last call of Held has read.
	node *gpu.Node
	// running caches the pods that had not ended when the API server was asked.
	running map[procowner.Pod]podState
	// unavailableUntil is the time until which the API server is not asked, because it did not respond.
	unavailableUntil time.Time
}

// Held returns, by the UUID of each GPU, the containers that hold the GPU or one of its MIG devices. It
// does not return containers of pods that have ended.
func (f *Finder) Held(ctx context.Context, gpus []mig.GPU) (map[gpu.UUID][]mig.Holder, error) {
	node, err := f.Source.Snapshot(ctx)
	if err == nil {
		err = f.Kubelet.Refresh(ctx, podresources.Options{Node: node})
	}
	if err != nil {
		return nil, fmt.Errorf("find the users of the GPUs: %w", err)
	}
	f.node = node
	f.release()
	f.forgetOldPods()
	out := map[gpu.UUID][]mig.Holder{}
	for _, of := range gpus {
		g := node.ByUUID(of.UUID)
		if g == nil {
			return nil, fmt.Errorf("find the users of the GPUs: the driver does not list GPU %d (%s) now", of.Index, of.UUID)
		}
		held := slices.DeleteFunc(Containers(*g, f.Kubelet.Last().Map), func(h mig.Holder) bool { return f.ended(ctx, h.Pod) })
		if len(held) > 0 {
			out[g.UUID] = held
		}
	}
	return out, nil
}

// Changing tells Pins that MIG devices of these GPUs will be destroyed, so that the devices that no container
// had at the last call of Held free their indices. The function that it returns ends this, after it has read what
// the change has destroyed.
func (f *Finder) Changing(gpus []gpu.UUID) (ended func(context.Context)) {
	f.release(gpus...)
	return func(ctx context.Context) {
		if _, err := f.Source.Snapshot(ctx); err == nil {
			f.Pins.Settle(gpus...)
		}
	}
}

// release frees the indices of destroyed MIG devices that no container has according to the kubelet. It does
// nothing if the kubelet lists a device or a claim that podresources cannot identify.
func (f *Finder) release(changing ...gpu.UUID) {
	all := f.Kubelet.Last()
	if f.node == nil || len(all.Unknown) > 0 {
		return
	}
	f.Pins.Release(f.node, func(id gpu.UUID) bool { return len(all.Map[id]) > 0 }, changing...)
}

// Stays reports whether a pod comes back after an eviction.
func (f *Finder) Stays(ctx context.Context, pod procowner.Pod) bool {
	f.ended(ctx, pod) // a running process holds the device, even if its pod has ended
	return f.running[pod].stays
}

// podState is the cached state of a pod that has not ended.
type podState struct {
	// stays is set if the pod comes back after an eviction.
	stays bool
	// until is the time of the next request to the API server.
	until time.Time
	retry pace.Backoff
}

// The delays between two requests for a pod. A change can wait for days.
const (
	askFirst = 2 * time.Second
	askMost  = 30 * time.Second
)

// ended reports whether a pod is known to have ended. A positive result is not cached, because
// another pod may get the same name.
func (f *Finder) ended(ctx context.Context, name procowner.Pod) bool {
	r, asked := f.running[name]
	if asked && time.Now().Before(r.until) || time.Now().Before(f.unavailableUntil) {
		return false
	}
	var pod eviction.Pod
	err := f.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: name.Namespace, Name: name.Name}, &pod)
	if apierrors.IsNotFound(err) || err == nil && eviction.Ended(&pod) {
		delete(f.running, name)
		return true
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); err != nil && !answered {
		f.unavailableUntil = time.Now().Add(askMost)
	}
	if !asked {
		r.retry = pace.Backoff{First: askFirst, Most: askMost}
	}
	if f.running == nil {
		f.running = map[procowner.Pod]podState{}
	}
	r.stays = (eviction.Options{}).Obstacle(&pod).Returns() || err != nil && r.stays
	r.until = time.Now().Add(r.retry.Next())
	f.running[name] = r
	return false
}

// forgetOldPods removes pods from the cache that were not requested recently.
func (f *Finder) forgetOldPods() {
	maps.DeleteFunc(f.running, func(_ procowner.Pod, r podState) bool { return time.Since(r.until) > askMost })
}

// Containers returns the containers that hold a GPU or a MIG device of it. Each is listed once for a
// device. It is pure.
func Containers(g gpu.GPU, by podresources.Map) []mig.Holder {
	whole := mig.Holder{GPU: g.Index, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}
	out := holdersOf(by[g.UUID], whole)
	if g.MIG == nil {
		return out
	}
	for _, d := range g.MIG.Devices {
		of := mig.Holder{GPU: g.Index, GPUInstance: d.GPUInstance, ComputeInstance: d.ComputeInstance, Device: d.Profile.String()}
		out = append(out, holdersOf(by[d.UUID], of)...)
	}
	return out
}

// holdersOf returns h once for each container that has its device.
func holdersOf(by []podresources.User, h mig.Holder) []mig.Holder {
	var out []mig.Holder
	var last podresources.User
	for _, u := range by {
		is := podresources.User{Namespace: u.Namespace, Pod: u.Pod, Container: u.Container}
		if is == last {
			continue // another replica of the device
		}
		last, h.Pod = is, procowner.Pod{Namespace: u.Namespace, Name: u.Pod}
		out = append(out, h)
	}
	return out
}
