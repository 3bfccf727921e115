package kubectl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"

	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// simulator is a kubelet whose containers have gpu-sim.
type simulator struct {
	mu sync.Mutex
	// ran has the pods and their commands.
	ran []string
}

func (s *simulator) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	remotecommand.ServeExec(w, q, s, parts[2], "", parts[3], q.URL.Query()["command"], &remotecommand.Options{Stdout: true, Stderr: true}, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer runs gpu-sim: GPU 7 does not exist.
func (s *simulator) ExecInContainer(_ context.Context, pod, _, container string, cmd []string, _ io.Reader, out, fail io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, pod+" "+container+" "+strings.Join(cmd, " "))
	if slices.Contains(cmd, "7") {
		fmt.Fprintf(fail, "gpu-sim: %s: GPU \"7\": no such GPU\n", cmd[1])
		return exec.CodeExitError{Err: errors.New("exit 1"), Code: 1}
	}
	fmt.Fprintf(out, "did %s\n", cmd[1])
	return nil
}

// take returns what ran since the last call, sorted.
func (s *simulator) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ran := s.ran
	s.ran = nil
	slices.Sort(ran)
	return ran
}

// newSimRig returns a cluster with the simulated nodes sim-1 and sim-2, the simulated node sim-3 whose pod does not run, the
// node gpu-1 with real GPUs, on which a pod of a tenant has the labels of gpu-sim, and a node without GPUs.
func newSimRig(t *testing.T) (rig, *simulator) {
	t.Helper()
	s := &simulator{}
	r := rig{Cluster: clustertest.New(t)}
	r.config = apitest.Kubeconfig(t, r.REST)
	kubelet := httptest.NewTLSServer(s)
	t.Cleanup(kubelet.Close)
	r.kubelet = kubelet.Listener.Addr().(*net.TCPAddr)
	r.CreateTyped("v1", "Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sim"}})
	labels := map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/name": "gpu-sim"}
	c := corev1.Container{Name: "gpu-sim", Image: "example.com/gpu-sim:1"}
	r.CreateTyped("apps/v1", "DaemonSet", &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "gpu-sim"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"none": "none"}, Containers: []corev1.Container{c}},
		}},
	})
	ds := r.Get(model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "sim", Name: "gpu-sim"})
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "gpu-sim", UID: ds.GetUID(), Controller: new(true)}
	pod := func(node string, labels map[string]string, state corev1.ContainerState, owners ...metav1.OwnerReference) {
		r.CreateTyped("v1", "Pod", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "gpu-sim-" + node, Labels: labels, OwnerReferences: owners},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{c}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "gpu-sim", State: state}}},
		})
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, node := range []string{"sim-1", "sim-2", "sim-3", "gpu-1"} {
		r.node(node, "True", "Ready", 8)
	}
	r.CreateTyped("v1", "Node", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	pod("sim-1", labels, running, owner)
	pod("sim-2", labels, running, owner)
	pod("sim-3", labels, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, owner)
	// The controller of DaemonSets would adopt a pod with all labels.
	pod("gpu-1", map[string]string{"app.kubernetes.io/name": "gpu-sim"}, running)
	return r, s
}

func TestSimRunsCommandsOnANode(t *testing.T) {
	r, s := newSimRig(t)
	for words, want := range map[string]string{
		"xid sim-1 3 79":                                "xid 3 79",
		"xid sim-1 3 79 --instance 1/0":                 "xid --instance=1/0 3 79",
		"lose --how calls sim-1 3":                      "lose --how=calls 3",
		"heal sim-1 3":                                  "heal 3",
		"reset sim-1 3":                                 "reset 3",
		"load sim-1 3 60-90 --memory=20Gi":              "load --memory=20Gi 3 60-90",
		"load sim-1":                                    "load",
		"set sim-1 0.temperature=85 driver=off":         "set 0.temperature=85 driver=off",
		"mig sim-1 create 1 3g.40gb 1g.10gb":            "mig create 1 3g.40gb 1g.10gb",
		"plug sim-1 --model l4":                         "plug --model=l4",
		"unplug sim-1 GPU-1":                            "unplug GPU-1",
		"show sim-1":                                    "show",
		"load sim-1 MIG-e7bc4ab8-1111-2222-3333-44 off": "load MIG-e7bc4ab8-1111-2222-3333-44 off",
	} {
		out, code := r.run(append([]string{"sim"}, strings.Fields(words)...)...)
		command, _, _ := strings.Cut(want, " ")
		if code != 0 || out != "did "+command+"\n" {
			t.Errorf("%s: exit code %d: %s", words, code, out)
		}
		if d := cmp.Diff([]string{"gpu-sim-sim-1 gpu-sim /usr/bin/gpu-sim " + want}, s.take()); d != "" {
			t.Errorf("%s (-want +got):\n%s", words, d)
		}
	}
	for words, want := range map[string]string{
		"xid sim-1 7 79":  `kubectl-outrigger: node sim-1: gpu-sim: xid: GPU "7": no such GPU`,
		"xid nowhere 3 1": "there is no node nowhere: kubectl get nodes",
		"xid gpu-1 3 79":  "node gpu-1 has real GPUs",
		"xid other 3 79":  "node other has no simulated GPUs: install the chart gpu-sim, and label the node",
		"xid sim-3 3 79":  "the container gpu-sim of the pod sim/gpu-sim-sim-3 does not run: kubectl describe pod",
	} {
		if out, code := r.run(append([]string{"sim"}, strings.Fields(words)...)...); code != 1 || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", words, code, out)
		}
	}
	for _, words := range []string{"xid sim-1 3", "heal", "mig sim-1", "show sim-1 3"} {
		if out, code := r.run(append([]string{"sim"}, strings.Fields(words)...)...); code != 2 || !strings.Contains(out, "usage: kubectl outrigger sim") {
			t.Errorf("%s: exit code %d: %s", words, code, out)
		}
	}
}

func TestSimPlaysAScenarioOnSeveralNodes(t *testing.T) {
	r, s := newSimRig(t)
	file := filepath.Join(t.TempDir(), "s.yaml")
	write := func(text string) { assert.NilError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("- {at: 20ms, node: sim-2, gpu: 3, heal: true}\n- {at: 10ms, node: sim-1, gpu: 3, xid: 79}\n- {at: 0s, node: sim-2, gpu: 0, mig: [3g.40gb]}\n")
	dry, code := r.run("sim", "play", file, "--dry-run")
	if want := "    0s  sim-2: gpu-sim mig mode 0 on && gpu-sim reset --takes 0s 0 && gpu-sim mig create 0 3g.40gb\n  10ms  sim-1: gpu-sim xid 3 79\n"; code != 0 || !strings.HasPrefix(dry, want) || len(s.take()) > 0 {
		t.Errorf("exit code %d:\n%s", code, dry)
	}
	out, code := r.run("sim", "play", "--repeat=2", file)
	once := "    0s  sim-2: did mig\n    0s  sim-2: did reset\n    0s  sim-2: did mig\n  10ms  sim-1: did xid\n  20ms  sim-2: did heal\n"
	if code != 0 || out != once+once || len(s.take()) != 10 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	for text, want := range map[string]string{
		"- {at: 0s, node: gpu-1, gpu: 3, xid: 79}\n- {at: 1s, node: nowhere, gpu: 3, xid: 79}\n": "node gpu-1 has real GPUs: the command changes only simulated GPUs; there is no node nowhere",
		"- {at: 0s, gpu: 3, xid: 79}\n": "the container gpu-sim of the pod sim/gpu-sim-sim-3 does not run",
		"- {at: 0s, node: sim-1, gpu: 7, xid: 79}\n- {at: 1h, node: sim-1, gpu: 3, xid: 79}\n": "line 1: node sim-1: gpu-sim: xid: GPU \"7\"",
		"- {at: 0s, gpu: 3, xid: x}\n- {at: 0s, gpu: 3, heel: true}\n":                         "s.yaml:1: [0].xid: invalid value \"x\": must be an integer from 1 to 4294967295\n" + file + ":2: [1].heel: unknown key: did you mean heal?\n",
	} {
		write(text)
		if out, code := r.run("sim", "play", file); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d: %s", text, code, out)
		}
	}
}

// TestSimWithoutRights has a caller who may list pods and nodes, and a caller who may list neither.
func TestSimWithoutRights(t *testing.T) {
	r, _ := newSimRig(t)
	reader := r.as("reader", reads("", "pods", "nodes"))
	agenttest.Poll(t, "the rights of the reader", func() bool {
		out, _ := reader.run("sim", "xid", "other", "3", "79")
		return strings.Contains(out, "has no simulated GPUs")
	})
	for who, want := range map[string]string{"reader": "you may not run commands in the pods of the namespace sim", "nobody": "the command needs the verb list on pods"} {
		caller := reader
		if who == "nobody" {
			caller = r.as("nobody")
		}
		if out, code := caller.run("sim", "xid", "sim-1", "3", "79"); code != 1 || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", who, code, out)
		}
	}
}
