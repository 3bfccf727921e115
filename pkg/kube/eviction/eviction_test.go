package eviction_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/kube/eviction"
)

func TestObstacle(t *testing.T) {
	const (
		none   = `{}`
		local  = `"spec": {"volumes": [{"name": "a", "secret": {}}, {"name": "b", "emptyDir": {"sizeLimit": "1Gi"}}]}`
		owners = `"ownerReferences": [{"kind": "Service", "name": "a"}, {"name": "b", "controller": true, "kind": `
	)
	all := eviction.Options{Force: true, DeleteEmptyDir: true}
	for name, tc := range map[string]struct {
		pod     string
		options eviction.Options
		want    eviction.Obstacle
		returns bool
	}{
		"a pod of a ReplicaSet":               {pod: `{"metadata": {` + owners + `"ReplicaSet"}]}}`, want: eviction.None},
		"a pod of a controller of others":     {pod: `{"metadata": {` + owners + `"Training"}]}}`, want: eviction.None},
		"a bare pod":                          {pod: none, want: eviction.NoController},
		"a bare pod that may go":              {pod: none, options: eviction.Options{Force: true}, want: eviction.None},
		"an owner that is no controller":      {pod: `{"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "a"}]}}`, want: eviction.NoController},
		"local data":                          {pod: `{"metadata": {` + owners + `"Job"}]}, ` + local + `}`, options: eviction.Options{Force: true}, want: eviction.LocalData},
		"local data that may go":              {pod: `{"metadata": {` + owners + `"Job"}]}, ` + local + `}`, options: eviction.Options{DeleteEmptyDir: true}, want: eviction.None},
		"a pod of a DaemonSet, whatever else": {pod: `{"metadata": {` + owners + `"DaemonSet"}]}, ` + local + `}`, options: all, want: eviction.OfDaemonSet, returns: true},
		"a static pod":                        {pod: `{"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, ` + owners + `"Node"}]}}`, options: all, want: eviction.Static, returns: true},
	} {
		var pod eviction.Pod
		assert.NilError(t, json.Unmarshal([]byte(tc.pod), &pod))
		if got := tc.options.Obstacle(&pod); got != tc.want || got.Returns() != tc.returns {
			t.Errorf("%s: the obstacle is %q (returns %t), want %q (%t)", name, got, got.Returns(), tc.want, tc.returns)
		}
	}
}
