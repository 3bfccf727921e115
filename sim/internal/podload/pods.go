package podload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"outrigger.dev/pkg/kube"
)

// pod has the fields of a Pod object that matter for loads.
type pod struct {
	Metadata struct {
		Namespace   string      `json:"namespace"`
		Name        string      `json:"name"`
		UID         string      `json:"uid"`
		Annotations annotations `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		Phase      string      `json:"phase"`
		Containers []container `json:"containerStatuses"`
		Init       []container `json:"initContainerStatuses"`
	} `json:"status"`
}

// annotations has the annotations with Prefix.
type annotations map[string]string

// UnmarshalJSON decodes annotations.
func (a *annotations) UnmarshalJSON(data []byte) error {
	var all map[string]string
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("decode the annotations of a pod: %w", err)
	}
	maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, Prefix) })
	if len(all) > 0 {
		*a = all
	}
	return nil
}

type container struct {
	Name string `json:"name"`
	// ID is "<engine>://<id>", empty before the first start.
	ID    string `json:"containerID"`
	State struct {
		Running *struct{} `json:"running"`
	} `json:"state"`
}

// name returns the pod as namespace/name.
func (p pod) name() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

// ended reports whether all containers of the pod have ended and will not restart.
func (p pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// running returns the ID of a container that runs.
func (p pod) running(name string) (id string, ok bool) {
	for _, all := range [][]container{p.Status.Containers, p.Status.Init} {
		for _, c := range all {
			if c.Name == name && c.State.Running != nil {
				_, id, _ = strings.Cut(c.ID, "://")
				return id, true
			}
		}
	}
	return "", false
}

// watch delivers the pods of a node until ctx ends.
func watch(ctx context.Context, client *kube.Client, nodeName string, deliver func([]pod)) {
	kube.Watch(ctx, client, kube.Query{
		Object:        kube.Object{API: "v1", Resource: "pods"},
		FieldSelector: "spec.nodeName=" + nodeName,
	}, deliver)
}
