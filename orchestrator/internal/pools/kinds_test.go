package pools_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

func TestKinds(t *testing.T) {
	node := func(name, gpu, kernel, id, version string, more ...string) *model.Node {
		const nfd = "feature.node.kubernetes.io/"
		labels := map[string]string{nfd + "pci-10de.present": gpu, nfd + "kernel-version.full": kernel, nfd + "system-os_release.ID": id, nfd + "system-os_release.VERSION_ID": version}
		for _, label := range more {
			labels[label] = "true"
		}
		return &model.Node{Name: name, Labels: labels}
	}
	nodes := []*model.Node{
		node("a", "true", "6.8", "ubuntu", "22.04"),
		node("b", "true", "6.8", "ubuntu", "22.04", "other"),
		node("c", "true", "5.14", "rhel", "9.4"),
		node("d", "false", "4.18", "rhel", "8.9"),
		node("e", "true", "6.8", "ubuntu", "22.04", "x", "y"),
		node("f", "true", "5.14", "rhel", "9.4", "y"),
	}
	list := []pools.Pool{{Name: "x", NodeSelector: map[string]string{"x": "true"}}, {Name: "y", NodeSelector: map[string]string{"y": "true"}}}
	ubuntu, rhel := charts.Node{Kernel: "6.8", ID: "ubuntu", Version: "22.04"}, charts.Node{Kernel: "5.14", ID: "rhel", Version: "9.4"}
	kinds := pools.KindsOf(list, nodes)
	want := pools.Kinds{"": {rhel, ubuntu}, "x": {ubuntu}, "y": {rhel}}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	for pool, want := range map[string][]charts.Node{"": {rhel, ubuntu}, "x": {ubuntu}, "z": {}} {
		if diff := cmp.Diff(want, kinds.In(pool)); diff != "" {
			t.Errorf("nodes of the pool %q (-want +got):\n%s", pool, diff)
		}
	}
	if pools.KindsOf(nil, nil).In("") == nil {
		t.Error("a cluster without GPU nodes looks as if its nodes were not known")
	}
	if pools.Kinds(nil).In("") != nil {
		t.Error("nodes that are not known look like none")
	}
}
