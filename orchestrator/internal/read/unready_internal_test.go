package read

import (
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestUnreadyPodsAreReadOnce has two pods of a DaemonSet that wait, and are known. Its other pods are read only if it lacks
// more than these two.
func TestUnreadyPodsAreReadOnce(t *testing.T) {
	owned := func(name string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{UID: uid, Controller: new(true)}}}}
	}
	for name, tc := range map[string]struct {
		desired, ready, unavailable int32
		want                        int
	}{
		"all are ready":                    {3, 3, 0, 0},
		"all that are not ready wait":      {4, 2, 2, 0},
		"another one is not ready":         {4, 1, 3, 1},
		"a pod is ready, but not for long": {4, 4, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{}
			r.facts.DaemonSets = []*appsv1.DaemonSet{{
				ObjectMeta: metav1.ObjectMeta{Name: "plugin", UID: "plugin"}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{}},
				Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: tc.desired, NumberReady: tc.ready, NumberUnavailable: tc.unavailable},
			}}
			r.facts.Pods = []*corev1.Pod{owned("a", "plugin"), owned("b", "plugin"), owned("c", "another"), {}}
			assert.Equal(t, len(r.unready()), tc.want)
		})
	}
}
