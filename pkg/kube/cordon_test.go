package kube_test

import (
	"encoding/json"
	"testing"

	"outrigger.dev/pkg/kube"
)

func TestCordon(t *testing.T) {
	by := kube.CordonedBy{Annotation: "outrigger.dev/x~y-cordoned", Version: "7"}
	for name, tc := range map[string]struct {
		ops  []kube.Operation
		want string
	}{
		"a node with annotations": {
			by.Cordon(true, `all "1g"`),
			`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec/unschedulable","value":true},` +
				`{"op":"add","path":"/metadata/annotations/outrigger.dev~1x~0y-cordoned","value":"all \"1g\""}]`,
		},
		"a node without": {
			by.Cordon(false, "a"),
			`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec/unschedulable","value":true},` +
				`{"op":"add","path":"/metadata/annotations","value":{}},{"op":"add","path":"/metadata/annotations/outrigger.dev~1x~0y-cordoned","value":"a"}]`,
		},
		"a cordoned node": {
			by.Uncordon(true),
			`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/metadata/annotations/outrigger.dev~1x~0y-cordoned"},` +
				`{"op":"remove","path":"/spec/unschedulable"}]`,
		},
		"a node that somebody has uncordoned": {
			by.Uncordon(false),
			`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/metadata/annotations/outrigger.dev~1x~0y-cordoned"}]`,
		},
	} {
		got, err := json.Marshal(tc.ops)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, %v\nwant %s", name, got, err, tc.want)
		}
	}
}
