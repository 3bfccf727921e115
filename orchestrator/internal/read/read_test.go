package read_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
)

const (
	ns   = "gpu-operator-resources"
	node = "n1"
)

// rig is an API server with a node whose driver loader waits, a kubelet that runs commands, and a pod that waits.
type rig struct{ clustertest.Cluster }

func newRig(t *testing.T) rig { return newRigWith(t, http.HandlerFunc(serveExec)) }

func newRigWith(t *testing.T, runs http.Handler) rig {
	t.Helper()
	r := rig{clustertest.New(t)}
	kubelet := httptest.NewTLSServer(runs)
	t.Cleanup(func() {
		kubelet.CloseClientConnections() // of commands that hang
		kubelet.Close()
	})
	address := kubelet.Listener.Addr().(*net.TCPAddr)
	for _, name := range []string{ns, "team"} {
		r.CreateTyped("v1", "Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	r.CreateTyped("v1", "Node", &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"nvidia.com/gpu.present": "true"}, Annotations: map[string]string{"secret/of-another": "x"}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}, Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")},
			Images:          []corev1.ContainerImage{{Names: []string{"example.com/a:1"}}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.IP.String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(address.Port)}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: "GPUReady", Status: corev1.ConditionFalse, Reason: "DriverNotFound", Message: "no driver"},
			},
		},
	})
	labels := map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": facts.DriverLoader}
	spec := corev1.PodSpec{NodeSelector: map[string]string{"none": "none"}, Containers: []corev1.Container{{
		Name: facts.DriverLoader, Image: "example.com/d:1", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "x"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}},
	}}}
	r.CreateTyped("apps/v1", "DaemonSet", &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "nvidia-driver-loader"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	})
	r.loader(ns, "loader-1", r.owner(ns, "nvidia-driver-loader"))
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/t:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("9")}},
		}}},
	})
	return r
}

// owner returns the reference of the pods of a DaemonSet.
func (r rig) owner(namespace, name string) metav1.OwnerReference {
	r.Helper()
	ds := r.Get(model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: namespace, Name: name})
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: ds.GetUID(), Controller: new(true)}
}

// loader creates a pod with the labels and the container of the driver loader.
func (r rig) loader(namespace, name string, owners ...metav1.OwnerReference) {
	r.Helper()
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: owners,
			Labels: map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": facts.DriverLoader},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: facts.DriverLoader, Image: "example.com/d:1", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "x"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: facts.DriverLoader, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	})
}

// serveExec is the kubelet.
func serveExec(w http.ResponseWriter, q *http.Request) { serve(w, q, program{}) }

func serve(w http.ResponseWriter, q *http.Request, p remotecommand.Executor) {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	if parts[0] != "exec" {
		http.Error(w, "this kubelet only runs commands", http.StatusNotFound)
		return
	}
	options := &remotecommand.Options{Stdout: true, Stderr: true}
	remotecommand.ServeExec(w, q, p, parts[2], "", parts[3], q.URL.Query()["command"], options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
}

// program is the driver loader, and the exporter.
type program struct{}

var errNotReady = exec.CodeExitError{Err: errors.New("exit 1"), Code: 1}

func (program) ExecInContainer(_ context.Context, _, _, _ string, cmd []string, _ io.Reader, out, fail io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if slices.Contains(cmd, "plan") {
		fmt.Fprintf(out, `{"checks":[{"name":"disk","state":"problem","cause":{"code":"NoSpace","subject":"/var/lib/outrigger","text":"0 bytes free","fix":"free space"}}],"next":{"kind":"wait"}}`)
		return nil
	}
	if slices.Contains(cmd, "processes") {
		fmt.Fprint(out, `{"processes":[{"gpu":0,"pid":4711,"command":"python3","namespace":"team","pod":"etl"}]}`)
		return nil
	}
	fmt.Fprintf(fail, "driver-loader: probe the agent: readyz answers 503: %s\n", cause.New(cause.NoSpace, "/var/lib/outrigger", "0 bytes free").Line())
	return errNotReady
}

func (r rig) read(client *cluster.Client, t facts.Target) facts.Facts {
	r.Helper()
	f, err := read.Read(r.Context(), read.Config{Client: client, Target: t, Ask: true})
	assert.NilError(r, err)
	return f
}

func first(f facts.Facts, t facts.Target) cause.Code {
	if all := doctor.Diagnose(f, t).Findings; len(all) > 0 {
		return all[0].Code
	}
	return ""
}

func TestFactsOfACluster(t *testing.T) {
	r := newRig(t)
	for name, tc := range map[string]struct {
		target  facts.Target
		want    cause.Code
		answers int
	}{
		"the cluster": {facts.Target{}, cause.NoSpace, 2},
		"a node":      {facts.Target{Node: node}, cause.NoSpace, 2},
		"a pod":       {facts.Target{Namespace: "team", Pod: "train"}, cause.RequestTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := rig{r.In(t)}
			f := r.read(r.Client, tc.target)
			if len(f.Unseen) > 0 || len(f.Answers) != tc.answers || len(f.Nodes) != 1 {
				t.Errorf("unseen %v, answers %+v, %d nodes", f.Unseen, f.Answers, len(f.Nodes))
			}
			if got := first(f, tc.target); got != tc.want {
				t.Errorf("first cause %s, want %s", got, tc.want)
			}
			for _, n := range f.Nodes {
				if n.ManagedFields != nil || n.Status.Images != nil || len(n.Annotations) > 0 {
					t.Errorf("the node is not trimmed: %+v", n)
				}
			}
			for _, p := range f.Pods {
				for _, v := range p.Spec.Containers[0].Env {
					if v.Name != "NVIDIA_VISIBLE_DEVICES" {
						t.Errorf("the pod has the variable %s", v.Name)
					}
				}
			}
		})
	}
}

func TestATargetThatDoesNotExist(t *testing.T) {
	r := newRig(t)
	_, err := read.Read(t.Context(), read.Config{Client: r.Client, Target: facts.Target{Node: "n9"}})
	assert.ErrorContains(t, err, "no node n9")
	target := facts.Target{Namespace: "team", Pod: "gone"}
	report := doctor.Diagnose(r.read(r.Client, target), target)
	if len(report.Findings) > 0 || len(report.Notes) != 1 {
		t.Errorf("%+v", report)
	}
}

// TestWithoutRights has a user who may only read nodes. What the user may not see is named, and the rest is diagnosed.
func TestWithoutRights(t *testing.T) {
	r := newRig(t)
	rc := r.As("viewer", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}})
	client, err := cluster.New(rc)
	assert.NilError(t, err)
	agenttest.Poll(t, "the rights of the user", func() bool { return len(r.read(client, facts.Target{}).Nodes) == 1 })
	for _, target := range []facts.Target{{}, {Node: node}} {
		f := r.read(client, target)
		if got := first(f, target); got != cause.DriverNotFound {
			t.Errorf("%s: first cause %s", target, got)
		}
		var unseen []string
		for _, u := range f.Unseen {
			unseen = append(unseen, u.What+": "+u.Why)
		}
		for _, want := range []string{`cannot list resource "daemonsets"`, `cannot list resource "events"`, `cannot list resource "pods"`, `cannot list resource "runtimeclasses"`} {
			if !strings.Contains(strings.Join(unseen, "\n"), want) {
				t.Errorf("%s: no %s in:\n%s", target, want, strings.Join(unseen, "\n"))
			}
		}
	}
}
