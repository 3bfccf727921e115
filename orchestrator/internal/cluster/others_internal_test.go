package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForeign(t *testing.T) {
	agents, err := Agents()
	if err != nil {
		t.Fatal(err)
	}
	by := func(name, manager string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate}}}
	}
	owned := func(by string) metav1.ObjectMeta {
		yes := true
		return metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{{Kind: by, Name: "y", Controller: &yes}}}
	}
	granter := owned("ReplicaSet")
	granter.Labels = map[string]string{"outrigger.dev/one-for-all-pools": "true"}
	deleting := by("x", "kubectl")
	deleting.DeletionTimestamp = &metav1.Time{}
	cases := map[string]struct {
		kind string
		meta metav1.ObjectMeta
		want bool
	}{
		"a Secret of a person":                         {"Secret", by("x", "kubectl-create"), true},
		"an object from before field managers":         {"ConfigMap", metav1.ObjectMeta{Name: "x"}, true},
		"a Secret that is being deleted":               {"Secret", deleting, false},
		"the orchestrator's ConfigMap":                 {"ConfigMap", by("outrigger-inventory", "outrigger"), false},
		"the Lease of an orchestrator":                 {"Lease", by("outrigger", "orchestrator"), false},
		"what feature discovery tells NFD":             {"NodeFeature", by("n", "feature-discovery"), false},
		"what an agent has made":                       {"ConfigMap", by("n", "dra-plugin"), false},
		"what a program of a similar name has made":    {"ConfigMap", by("n", "nvidia-device-plugin"), true},
		"the certificates of Kubernetes":               {"ConfigMap", metav1.ObjectMeta{Name: "kube-root-ca.crt"}, false},
		"the account of Kubernetes":                    {"ServiceAccount", metav1.ObjectMeta{Name: "default"}, false},
		"a ConfigMap named as the account":             {"ConfigMap", by("default", "kubectl"), true},
		"the Endpoints of a Service":                   {"Endpoints", by("x", "kube-controller-manager"), false},
		"an agent's pod":                               {"Pod", owned("DaemonSet"), false},
		"the pod of an agent's Deployment":             {"Pod", granter, false},
		"the pod of a Deployment that may not be seen": {"Pod", owned("ReplicaSet"), true},
		"a ReplicaSet, which goes with its Deployment": {"ReplicaSet", owned("Deployment"), false},
		"a pod of a validation":                        {"Pod", by("x", "outrigger"), false},
	}
	for name, c := range cases {
		if got := agents.isForeign(c.kind, &c.meta); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
