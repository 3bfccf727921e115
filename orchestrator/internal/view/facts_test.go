package view_test

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/facts"
)

// node returns a node that works, with 8 GPUs of which the kubelet offers some.
func node(name string, offered int64, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8",
			"nvidia.com/cuda.driver-version.full": "580.95.05",
		}},
		Status: corev1.NodeStatus{
			Capacity: resources("gpu", 8), Allocatable: resources("gpu", offered),
			NodeInfo: corev1.NodeSystemInfo{
				KernelVersion: "6.12.0-13-amd64", OSImage: "Debian GNU/Linux 13 (trixie)", ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.36.3",
			},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True"}, {Type: "GPUReady", Status: "True", Reason: "Ready"}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func resources(name string, count int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceName("nvidia.com/" + name): *resource.NewQuantity(count, resource.DecimalSI)}
}

func failing(reason, message string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions[1] = corev1.NodeCondition{
			Type: "GPUReady", Status: "False", Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0)),
		}
	}
}

// pod returns a pod that requests devices.
func pod(node, namespace, name, of string, count int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: resources(of, count)}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// cluster returns nodes with each kind of state.
func cluster() facts.Facts {
	mixed := func(n *corev1.Node) {
		n.Labels["nvidia.com/mig.config.state"] = "pending"
		n.Status.Capacity = resources("mig-1g.10gb", 7)
		n.Status.Capacity["nvidia.com/mig-3g.40gb"] = resource.MustParse("2")
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	single := func(n *corev1.Node) {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"] = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "7"
		n.Status.Capacity = resources("gpu", 7)
	}
	out := func(n *corev1.Node) {
		n.Labels["nvidia.com/gpu.deploy.operands"] = "false"
		n.Status.Conditions, n.Status.Capacity, n.Status.Allocatable = n.Status.Conditions[:1], nil, nil
	}
	bare := func(n *corev1.Node) {
		n.Labels = map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"}
		n.Status.Conditions, n.Status.Capacity, n.Status.Allocatable = n.Status.Conditions[:1], nil, nil
	}
	ended := pod("gpu-01", "ml", "ended", "gpu", 8)
	ended.Status.Phase = corev1.PodSucceeded
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator-resources", Name: "gpu-operator-device-plugin", Labels: map[string]string{"app.kubernetes.io/version": "26.11.0"}}}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.example.com/outrigger/device-plugin:26.11.0"}}
	ds.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 8, UpdatedNumberScheduled: 7, NumberReady: 6}
	return facts.Facts{
		Server: "v1.36.3",
		Nodes: []*corev1.Node{
			node("gpu-01", 8), node("gpu-02.cluster.example.com", 7),
			node("gpu-03", 0, failing("ToolkitNotReady", "the toolkit configures containerd, which needs a restart by a person")),
			node("gpu-04", 8, func(n *corev1.Node) { n.Status.Conditions[0].Status = "Unknown" }),
			node("gpu-05", 9, mixed), node("gpu-06", 7, single), node("gpu-07", 0, out), node("gpu-08", 0, bare),
			node("gpu-09", 8, func(n *corev1.Node) { n.Spec.Unschedulable = true }),
			{ObjectMeta: metav1.ObjectMeta{Name: "without-gpu"}},
		},
		Pods: []*corev1.Pod{
			pod("gpu-01", "ml", "train-0", "gpu", 6), pod("gpu-01", "ml", "notebook", "gpu", 1), ended, pod("gpu-05", "dev", "mig", "mig-1g.10gb", 2),
			pod("gpu-01", "ml", "no-gpu", "none", 0), pod("", "ml", "waits", "gpu", 1),
		},
		DaemonSets: []*appsv1.DaemonSet{ds},
		Unseen:     []facts.Unseen{{What: "events of all namespaces", Why: "the account may not list events"}},
	}
}

// metrics returns the answer of an exporter on a node with two GPUs, of which the second is in MIG mode.
func metrics() string {
	gpu := func(index int) string {
		return fmt.Sprintf(`gpu="%d",UUID="GPU-%d",device="nvidia%d",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-01"`, index, index, index)
	}
	instance := func(id int) string { return fmt.Sprintf(`%s,GPU_I_PROFILE="3g.40gb",GPU_I_ID="%d"`, gpu(1), id) }
	return "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{" + gpu(0) + `,namespace="ml",pod="train-0",container="main"} 80` + "\n" +
		"DCGM_FI_DEV_GPU_UTIL{" + gpu(0) + `,namespace="ml",pod="other",container="main",vgpu="1"} 3` + "\n" +
		"DCGM_FI_DEV_FB_USED{" + gpu(0) + "} 20480\n" + "DCGM_FI_DEV_FB_FREE{" + gpu(0) + "} 60416\n" + "DCGM_FI_DEV_FB_RESERVED{" + gpu(0) + "} 1024\n" +
		"DCGM_FI_DEV_GPU_TEMP{" + gpu(0) + "} 64\n" + "DCGM_FI_DEV_POWER_USAGE{" + gpu(0) + "} 512.4\n" +
		"DCGM_FI_DEV_GPU_TEMP{" + instance(1) + "} 30\n" + "DCGM_FI_DEV_GPU_TEMP{" + instance(2) + `,namespace="dev",pod="mig",container="main"} 30` + "\n" +
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE{" + instance(2) + "} 0.25\n" + "DCGM_FI_PROF_GR_ENGINE_ACTIVE{" + instance(1) + "} 0\n" +
		"DCGM_FI_DEV_FB_USED{" + instance(1) + "} 10\n" + "DCGM_FI_DEV_FB_FREE{" + instance(1) + "} 40000\n" +
		"DCGM_FI_DEV_FB_USED{" + instance(2) + "} 30000\n" + "DCGM_FI_DEV_FB_FREE{" + instance(2) + "} 10010\n" +
		"# HELP other Something else.\n# TYPE other counter\nother 1\n"
}
