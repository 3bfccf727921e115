// Package podinfo watches the pods of this node on the API server: their UIDs and labels, whether
// they have ended, and the names of their containers. It is optional: the methods of a nil *Pods
// find no pod.
package podinfo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"outrigger.dev/pkg/kube"
)

// Config configures a Pods.
type Config struct {
	// Client is the client of the API server. It needs the verbs list and watch on pods.
	Client *kube.Client
	// Node is the name of the node.
	Node string
	// Rules select the labels of pods to keep.
	Rules Rules
}

// Pod has the properties of a pod.
type Pod struct {
	Namespace, Name string
	// UID is the UID of the Pod object. ByUID also finds a static pod by the UID that the kubelet
	// assigns.
	UID    string
	Labels []Label
	// Omitted counts the labels that are dropped because of maxLabels.
	Omitted int
	// Ended is set if all containers of the pod have ended and will not restart.
	Ended bool
	// Containers has the names of the containers, by their IDs without the engine's name.
	Containers map[string]string
}

// Pods watches the pods of a node. Its methods are safe for concurrent use. Only Run blocks.
type Pods struct {
	cfg   Config
	known atomic.Pointer[known]
}

// known has the pods of the last list from the API server.
type known struct {
	names map[name]Pod
	uids  map[string]Pod
}

type name struct{ namespace, name string }

// New returns a Pods. It has the pods of the node while its method Run runs.
func New(cfg Config) *Pods { return &Pods{cfg: cfg} }

// Run watches the pods until ctx ends. It logs failures and retries, see kube.Watch. The client's
// Failing method reports whether the watch fails. During failures, the last known pods stay.
func (p *Pods) Run(ctx context.Context) {
	kube.Watch(ctx, p.cfg.Client, kube.Query{
		Object:        kube.Object{API: "v1", Resource: "pods"},
		FieldSelector: "spec.nodeName=" + p.cfg.Node,
	}, func(all []object) { p.known.Store(p.derive(all)) })
}

// Known reports whether the pods have been listed once.
func (p *Pods) Known() bool { return p != nil && p.known.Load() != nil }

// Pod returns a pod by its name.
func (p *Pods) Pod(namespace, podName string) (Pod, bool) {
	if !p.Known() {
		return Pod{}, false
	}
	pod, ok := p.known.Load().names[name{namespace, podName}]
	return pod, ok
}

// ByUID returns a pod by the UID that is in the cgroups of its processes.
func (p *Pods) ByUID(uid string) (Pod, bool) {
	if !p.Known() {
		return Pod{}, false
	}
	pod, ok := p.known.Load().uids[uid]
	return pod, ok
}

// Ended reports whether a pod is known to have ended. It is for podresources.Options.
func (p *Pods) Ended(namespace, podName string) bool {
	pod, _ := p.Pod(namespace, podName)
	return pod.Ended
}

// object has the fields of a Pod object that are kept.
type object struct {
	Metadata struct {
		Name        string    `json:"name"`
		Namespace   string    `json:"namespace"`
		UID         string    `json:"uid"`
		Labels      podLabels `json:"labels"`
		Annotations struct {
			// Mirror is the UID that the kubelet assigns to a static pod. It is on the mirror
			// pod, which represents the static pod in the API.
			Mirror string `json:"kubernetes.io/config.mirror"`
		} `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		Phase      string      `json:"phase"`
		Containers []container `json:"containerStatuses"`
		Init       []container `json:"initContainerStatuses"`
		Ephemeral  []container `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

// maxLabels bounds the labels of one pod, in bytes of keys and values. The API server bounds only
// the size of a whole object, and the pods of a node stay in memory.
const maxLabels = 64 << 10

// podLabels has the labels of a Pod object up to maxLabels, in the order of their keys.
type podLabels struct {
	kept    map[string]string
	omitted int
}

// UnmarshalJSON decodes labels.
func (l *podLabels) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &l.kept); err != nil {
		return fmt.Errorf("decode the labels of a pod: %w", err)
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(l.kept)) {
		if size += len(key) + len(l.kept[key]); size > maxLabels {
			delete(l.kept, key)
			l.omitted++
		}
	}
	return nil
}

type container struct {
	Name string `json:"name"`
	// ID is "<engine>://<id>", empty before the first start.
	ID string `json:"containerID"`
}

func (p *Pods) derive(all []object) *known {
	k := &known{names: make(map[name]Pod, len(all)), uids: make(map[string]Pod, len(all))}
	for _, o := range all {
		m := o.Metadata
		pod := Pod{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, Labels: p.cfg.Rules.Labels(m.Labels.kept), Omitted: m.Labels.omitted,
			Ended:      o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed",
			Containers: o.containers(),
		}
		k.names[name{m.Namespace, m.Name}] = pod
		k.uids[m.UID] = pod
		if m.Annotations.Mirror != "" {
			k.uids[m.Annotations.Mirror] = pod
		}
	}
	return k
}

func (o object) containers() map[string]string {
	out := map[string]string{}
	for _, all := range [][]container{o.Status.Init, o.Status.Containers, o.Status.Ephemeral} {
		for _, c := range all {
			if _, id, ok := strings.Cut(c.ID, "://"); ok && id != "" {
				out[id] = c.Name
			}
		}
	}
	return out
}
