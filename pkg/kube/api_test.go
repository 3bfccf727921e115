package kube_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

// TestCreateAndList runs against the real API server, which pages.
func TestCreateAndList(t *testing.T) {
	s := apitest.New(t, nil)
	s.Delete()
	t.Cleanup(func() { s.Do(http.MethodDelete, "/api/v1/nodes?labelSelector=n", nil, &struct{}{}) })
	c := apitest.Client(t, s.Config, s.Name, "test-agent")
	type meta struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels,omitempty"`
	}
	type named struct {
		Metadata meta `json:"metadata"`
	}
	nodes := kube.Object{API: "v1", Resource: "nodes"}
	const many = 150
	for i := range many {
		spec := map[string]any{"unschedulable": i%2 == 0}
		node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta{fmt.Sprintf("node%03d", i), map[string]string{"n": strconv.Itoa(i)}}, "spec": spec}
		assert.NilError(t, c.Create(t.Context(), nodes, node))
	}
	err := c.Create(t.Context(), nodes, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta{Name: "node001"}})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("Create() of a node that exists = %v, want 409", err)
	}
	for name, tc := range map[string]struct {
		q    kube.Query
		want int
	}{
		"all nodes":          {kube.Query{Object: nodes}, many},
		"their metadata":     {kube.Query{Object: nodes, Metadata: true}, many},
		"cordoned ones":      {kube.Query{Object: nodes, FieldSelector: "spec.unschedulable=true", Metadata: true}, many / 2},
		"one of them":        {kube.Query{Object: kube.Object{API: "v1", Resource: "nodes", Name: "node007"}}, 1},
		"some by a label":    {kube.Query{Object: nodes, LabelSelector: "n>119,n notin (120,121),!zone", Metadata: true}, many - 122},
		"one with its label": {kube.Query{Object: kube.Object{API: "v1", Resource: "nodes", Name: "node007"}, LabelSelector: "n=7"}, 1},
		"one of others":      {kube.Query{Object: kube.Object{API: "v1", Resource: "nodes", Name: "node007"}, LabelSelector: "n in (6,8)"}, 0},
		"one that is absent": {kube.Query{Object: kube.Object{API: "v1", Resource: "nodes", Name: "other"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kube.List[named](t.Context(), c, tc.q)
			seen := map[string]bool{}
			for _, n := range got {
				seen[n.Metadata.Name] = true
			}
			if err != nil || len(got) != tc.want || len(seen) != tc.want {
				t.Errorf("List() has %d objects of %d names, %v, want %d", len(got), len(seen), err, tc.want)
			}
		})
	}
	if _, err := kube.List[named](t.Context(), c, kube.Query{Object: kube.Object{API: "v1", Resource: "nonsense"}}); err == nil {
		t.Error("List() of a resource that does not exist has no error")
	}
}
