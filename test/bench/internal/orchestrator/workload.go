package orchestrator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"outrigger.dev/test/cluster/cluster"
)

// list is a list of objects.
type list[T any] struct {
	Items []T `json:"items"`
}

// condition is a condition of a Node or a pod.
type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	// Transition is the time of the last change of the status, in the format of RFC 3339.
	Transition string `json:"lastTransitionTime,omitempty"`
}

// metadata is the metadata of an object.
type metadata struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Generation int64  `json:"generation"`
}

// daemonSet is a DaemonSet of apps/v1.
type daemonSet struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Desired            int   `json:"desiredNumberScheduled"`
		Ready              int   `json:"numberReady"`
	} `json:"status"`
}

// daemonSets returns all DaemonSets.
func (s *scene) daemonSets(ctx context.Context) ([]daemonSet, error) {
	var all list[daemonSet]
	err := s.do(ctx, http.MethodGet, "/apis/apps/v1/daemonsets", nil, &all)
	return all.Items, err
}

// pod is a pod of the API.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// setReady changes whether a pod is ready.
func (s *scene) setReady(ctx context.Context, pod metadata, ready bool) error {
	status, reason := "False", "ContainersNotReady"
	if ready {
		status, reason = "True", ""
	}
	now := time.Now().UTC().Format(time.RFC3339)
	conditions := []condition{{"Ready", status, reason, now}, {"ContainersReady", status, reason, now}}
	path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/status"
	return s.do(ctx, http.MethodPatch, path, map[string]any{"status": map[string]any{"conditions": conditions}}, nil)
}

// readyPod returns a ready pod of a DaemonSet, on a node where pods can get ready.
func (s *scene) readyPod(ctx context.Context) (metadata, error) {
	sets, err := s.daemonSets(ctx)
	if err != nil {
		return metadata{}, err
	}
	for _, set := range sets {
		if set.Status.Ready == 0 {
			continue
		}
		var labels []string
		for key, value := range set.Spec.Selector.MatchLabels {
			labels = append(labels, key+"%3D"+value)
		}
		var pods list[pod]
		path := "/api/v1/namespaces/" + set.Metadata.Namespace + "/pods?labelSelector=" + strings.Join(labels, "%2C")
		if err := s.do(ctx, http.MethodGet, path, nil, &pods); err != nil {
			return metadata{}, err
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" && !strings.HasPrefix(p.Spec.NodeName, cluster.NeverReady) {
				return p.Metadata, nil
			}
		}
	}
	return metadata{}, errors.New("find a ready pod of a DaemonSet: there is none")
}
