package render_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"
	"sigs.k8s.io/yaml"

	"outrigger.dev/test/cluster/internal/plan"
	"outrigger.dev/test/cluster/internal/render"
)

func options() render.Options {
	return render.Options{Components: "/opt/outrigger/bin/cluster-components", Restart: "/opt/outrigger/bin/cluster node-restart --dir /var/lib/outrigger-cluster/node0", PauseImage: "outrigger.dev/pause:1", Cgroup: "/outrigger-cluster/node0", AuditLog: "/var/lib/outrigger-cluster/node0/log/audit.log"}
}

func TestFilesAndComponents(t *testing.T) {
	for name, test := range map[string]struct {
		shape    plan.Shape
		node     int
		restrict bool
	}{
		"control-plane":                {shape: plan.Shape{Nodes: 2}},
		"worker":                       {shape: plan.Shape{Nodes: 2}, node: 1},
		"gpu-worker":                   {shape: plan.Shape{Nodes: 2, GPUNodes: 1, GPUs: 2}, node: 1},
		"kwok":                         {shape: plan.Shape{Nodes: 1, Kwok: true}},
		"machine-without-sys-resource": {shape: plan.Shape{Nodes: 1}, restrict: true},
		"crio":                         {shape: plan.Shape{Nodes: 1, CRIONodes: 1}},
		"crio-without-sys-resource":    {shape: plan.Shape{Nodes: 1, CRIONodes: 1}, restrict: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.New(test.shape)
			o := options()
			o.RestrictOOMScore = test.restrict
			files, err := render.Files(p, p.Nodes[test.node], o)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, path := range slices.Sorted(maps.Keys(files)) {
				fmt.Fprintf(&got, "=== %s\n%s", path, files[path])
			}
			for _, c := range render.Components(p, p.Nodes[test.node], o) {
				fmt.Fprintf(&got, "=== component %s\n%s\n", c.Name, strings.Join(c.Args, "\n"))
			}
			golden.Assert(t, got.String(), name+".golden")
		})
	}
}

func TestCredentials(t *testing.T) {
	p := plan.New(plan.Shape{Nodes: 2})
	credentials, err := render.NewCredentials(p)
	if err != nil {
		t.Fatal(err)
	}
	worker := []string{
		"/etc/kubernetes/kube-proxy.kubeconfig", "/etc/kubernetes/kubelet.kubeconfig",
		"/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/kubelet.crt", "/etc/kubernetes/pki/kubelet.key",
	}
	first := append([]string{
		"/etc/kubernetes/controller-manager.kubeconfig", "/etc/kubernetes/scheduler.kubeconfig",
		"/etc/kubernetes/pki/apiserver-kubelet-client.crt", "/etc/kubernetes/pki/apiserver-kubelet-client.key",
		"/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/apiserver.key", "/etc/kubernetes/pki/ca.key",
		"/etc/kubernetes/pki/service-account.key", "/etc/kubernetes/pki/service-account.pub",
	}, worker...)
	slices.Sort(first)
	for name, test := range map[string]struct {
		node plan.Node
		want []string
	}{
		"the control plane has the keys of the cluster": {p.Nodes[0], first},
		"a worker has only its own keys":                {p.Nodes[1], worker},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := credentials.Node(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(files))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdminKubeconfigNamesTheAPIServer(t *testing.T) {
	p := plan.New(plan.Shape{Nodes: 1})
	credentials, err := render.NewCredentials(p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := credentials.Admin()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
		CurrentContext string `json:"current-context"`
	}
	if err := yaml.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Clusters) != 1 || config.Clusters[0].Cluster.Server != p.APIServer() || config.CurrentContext != "kubernetes-admin@outrigger" {
		t.Errorf("kubeconfig = %+v", config)
	}
}
