package kubectl_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/kubectl"
	"outrigger.dev/pkg/kube/apitest"
)

// seed is in each secret of the rig.
const seed = "Xq7SEEDzP9"

const namespace = "gpu-operator-resources"

// rig is an API server with a GPU node that works, a GPU node that fails, and a kubelet that answers for both.
type rig struct {
	clustertest.Cluster

	config string
	// kubelet is the address of the kubelet.
	kubelet *net.TCPAddr
}

func newRig(t *testing.T) rig {
	r := rig{Cluster: clustertest.New(t)}
	r.config = apitest.Kubeconfig(t, r.REST)
	kubelet := httptest.NewTLSServer(http.HandlerFunc(answer))
	t.Cleanup(kubelet.Close)
	r.kubelet = kubelet.Listener.Addr().(*net.TCPAddr)
	assert.NilError(t, definition.Apply(t.Context(), r.Client, slog.New(slog.DiscardHandler)))
	r.objects()
	return r
}

// answer is the kubelet: it serves logs.
func answer(w http.ResponseWriter, q *http.Request) {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	if parts[0] != "containerLogs" || parts[2] == "without-log" {
		http.Error(w, "this kubelet only has logs", http.StatusNotFound)
		return
	}
	fmt.Fprintf(w, "the log of %s, previous: %s\nlevel=info password=%s token: %s\n", strings.Join(parts[1:], "/"), q.URL.Query().Get("previous"), seed, seed)
}

func (r rig) objects() {
	for _, name := range []string{namespace, "ml"} {
		r.CreateTyped("v1", "Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	r.CreateTyped("v1", "Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}, StringData: map[string]string{"password": seed}})
	r.node("gpu-1", "True", "Ready", 8)
	r.node("gpu-2", "False", "ToolkitNotReady", 0)
	r.CreateTyped("v1", "Node", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	labels := map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": "device-plugin", "app.kubernetes.io/name": "device-plugin"}
	// The controller of DaemonSets must not adopt the pods of this rig, because it would delete them.
	own := maps.Clone(labels)
	own["app.kubernetes.io/name"] = "another"
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"none": "none"}, Containers: []corev1.Container{r.container("device-plugin")}}}
	r.CreateTyped("apps/v1", "DaemonSet", &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "gpu-operator-device-plugin",
			Labels:      map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/instance": "gpu-operator", "helm.sh/chart": "device-plugin-26.11.0", "app.kubernetes.io/version": "26.11.0"},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": seed},
		},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "another"}}, Template: template},
	})
	r.pod("plugin-1", namespace, "gpu-1", labels, true)
	r.pod("plugin-2", namespace, "gpu-2", labels, false)
	r.pod("train", "ml", "gpu-1", nil, true)
	r.CreateTyped("v1", "Event", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e1"}, Message: "pull https://robot:" + seed + "@registry.example.com: denied", Reason: "Failed",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "plugin-2"},
	})
	ref := cluster.PolicyRef("gpu")
	policy := ref.Object()
	policy.Object["spec"] = map[string]any{"driver": map[string]any{"env": []any{map[string]any{"name": "A", "value": seed}}}}
	r.Create(policy)
	r.Patch(ref, "status", map[string]any{"status": map[string]any{"state": "ready", "gpuNodes": int64(2), "readyNodes": int64(1), "stages": []any{map[string]any{
		"name": "device-plugin", "state": "Degraded", "desired": int64(2), "ready": int64(1), "failed": int64(1), "waiting": int64(0), "message": "works on 1 of 2 nodes, failed on 1",
	}}}})
}

func (r rig) node(name, ready, reason string, offered int64) {
	devices := func(count int64) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(count, resource.DecimalSI)}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "8", "nvidia.com/cuda.driver-version.full": "580.95.05",
	}}}
	n.Status = corev1.NodeStatus{
		Capacity: devices(8), Allocatable: devices(offered), NodeInfo: corev1.NodeSystemInfo{KernelVersion: "6.12.0"},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: r.kubelet.IP.String()}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(r.kubelet.Port)}},
		Conditions: []corev1.NodeCondition{
			{Type: "Ready", Status: "True"}, {Type: "GPUReady", Status: corev1.ConditionStatus(ready), Reason: reason, Message: "the toolkit waits"},
		},
	}
	r.CreateTyped("v1", "Node", n)
}

func (r rig) container(name string) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example.com/" + name + ":26.11.0", Args: []string{"--password=" + seed}, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Env: []corev1.EnvVar{{Name: "HARMLESS", Value: seed}},
	}
	if name == "train" {
		c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("3")}
	}
	return c
}

func (r rig) pod(name, namespace, node string, labels map[string]string, ready bool) {
	status := corev1.ContainerStatus{Name: "device-plugin", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Ready: ready}
	condition := corev1.ConditionTrue
	if !ready {
		condition, status.RestartCount = corev1.ConditionFalse, 3
	}
	container := r.container("device-plugin")
	if labels == nil {
		container = r.container("train")
		status.Name = "train"
	}
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: map[string]string{"example.com/token": seed}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{status},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: condition}},
		},
	})
}

// run runs the plugin, and returns its output and exit code.
func (r rig) run(args ...string) (out string, code int) {
	var stdout, stderr strings.Builder
	code = kubectl.Main(append([]string{"kubectl-outrigger", "--kubeconfig=" + r.config}, args...), &stdout, &stderr)
	return stdout.String() + stderr.String(), code
}

// exporter starts the exporter of a node, and creates its pod.
func (r rig) exporter(node string) *httptest.Server {
	r.Helper()
	listener, err := (&net.ListenConfig{}).Listen(r.Context(), "tcp", net.JoinHostPort(address(r), "0"))
	assert.NilError(r, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/metrics" {
			fmt.Fprint(w, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\",modelName=\"NVIDIA L4\",namespace=\"ml\",pod=\"train\"} 73\n")
		}
	})}}
	server.Start()
	r.Cleanup(server.Close)
	port := listener.Addr().(*net.TCPAddr).Port
	container := r.container("dcgm-exporter")
	container.Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(port)}}
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "exporter-" + node, Labels: map[string]string{"app": "nvidia-dcgm-exporter"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address(r), PodIPs: []corev1.PodIP{{IP: address(r)}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	})
	return server
}

// address returns an address of this machine that the API server accepts for a pod. It accepts no loopback address.
func address(t rig) string {
	all, err := net.InterfaceAddrs()
	assert.NilError(t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address besides loopback")
	return ""
}

// as returns the rig with the rights of a user, who may do nothing or only read some kinds.
func (r rig) as(user string, rules ...rbacv1.PolicyRule) rig {
	r.Helper()
	rc := r.As(user, rules...)
	config, err := clientcmd.LoadFromFile(r.config)
	assert.NilError(r, err)
	for _, u := range config.AuthInfos {
		u.Impersonate = rc.Impersonate.UserName
	}
	r.config = filepath.Join(r.TempDir(), "kubeconfig")
	assert.NilError(r, clientcmd.WriteToFile(*config, r.config))
	return r
}

// reads returns a rule that permits to read resources of an API group.
func reads(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
}
