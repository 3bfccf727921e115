// Package facts has the values that a diagnosis of a cluster reads: objects of the API server, and what agents answered.
// They come from a cluster or from an archive. Package doctor derives a diagnosis from them. It does no I/O.
package facts

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Facts are the known state of a cluster at one moment. Objects have the form of the API server, without managed
// fields, images of nodes, and values of environment variables except for NVIDIA_VISIBLE_DEVICES.
type Facts struct {
	// Taken is the time of the first request.
	Taken time.Time
	// Server is the version of the API server: "v1.36.3".
	Server string

	Nodes      []*corev1.Node
	DaemonSets []*appsv1.DaemonSet
	// Pods are the pods of agents that are not ready, pods that wait for a node, and, for the nodes and the pod in
	// question, all pods of agents and all pods that request GPUs.
	Pods           []*corev1.Pod
	Events         []*corev1.Event
	Quotas         []*corev1.ResourceQuota
	RuntimeClasses []*nodev1.RuntimeClass
	// Policies are the ClusterPolicies of Outrigger. Others are the objects of NVIDIA's GPU Operator.
	Policies, Others []*unstructured.Unstructured

	// Claims, Slices and Classes are the objects of Dynamic Resource Allocation, without the configuration of devices.
	Claims  []*resourcev1.ResourceClaim
	Slices  []*resourcev1.ResourceSlice
	Classes []*resourcev1.DeviceClass

	Answers []Answer
	// Unseen lists what could not be read.
	Unseen []Unseen
}

// Answer is the output of a command that ran in the container of an agent.
type Answer struct {
	Node      string   `json:"node"`
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Command   []string `json:"command"`
	// Output is what the command printed, and Error is why it failed, or "".
	Output string `json:"output"`
	Error  string `json:"error,omitempty"`
}

// Unseen is a part of the cluster that could not be read.
type Unseen struct {
	// What names the part, such as "pods of the namespace team-a". Why is the reason, such as a missing permission with
	// its verb and resource.
	What string `json:"what"`
	Why  string `json:"why"`
}
