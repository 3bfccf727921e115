// Package model defines the values that the parts of the orchestrator exchange: what should
// be in the cluster, what is there, what to do about it, and what to tell people. It does no I/O.
//
//	Policy + charts ─▶ Stage (desired) ─┐
//	cluster ─▶ State (observed) ────────┴─▶ pass.Next ─▶ Plan (what to write) ─▶ cluster
package model

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// FieldManager is the field manager of all objects that the orchestrator applies.
const FieldManager = "outrigger"

// Ref names an object. Namespace is empty for objects without one.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Policy is what the user asks for: a ClusterPolicy, or a values file.
type Policy struct {
	Name string
	// Release is what the names of objects begin with: the name of the Helm release that
	// the policy came with, so that both modes have the same objects, or that of the policy.
	Release    string
	UID        types.UID
	Generation int64
	Created    time.Time
	Finalizers []string
	// Version is the resourceVersion as a number, which grows with each write.
	Version uint64
	// Values are those of the chart outrigger.
	Values map[string]any
	// Refused is why the values cannot be used for any stage; empty if they can.
	Refused string
	// Deleting is set once the policy is deleted and waits for the orchestrator.
	Deleting bool
	// Validate is the value of the annotation outrigger.dev/validate. Every new value asks for
	// the validations again.
	Validate string
	// Adopt says that objects of others may be taken over: annotation outrigger.dev/adopt.
	Adopt bool
	// Ungated says that no stage waits for another one.
	Ungated bool
	// Unreadable is why the inventory is not known: then nothing may be changed.
	Unreadable error
	// Status is what the last pass published, with the objects that earlier passes applied.
	Status Status
}

// Stage is one agent: all objects of its chart, in the order in which to apply them.
type Stage struct {
	// Name is the name of the chart, "device-plugin", and in a pool also that of the pool,
	// "device-plugin/a100".
	Name string
	// Pool is the name of the pool for whose nodes the stage is; empty for all other nodes. A
	// pool does not wait for another one.
	Pool string
	// PoolOrder is the place of the pool among all pools: a node that two of them select is in
	// the earlier one.
	PoolOrder int
	// NodeSelector has the labels of the nodes of the pool.
	NodeSelector map[string]string
	// Needs are the names of charts.
	Needs []string
	// Refused is why the chart cannot be rendered with the values of the policy. What the
	// stage applied before stays as it is.
	Refused string
	// Objects are as the chart renders them.
	Objects []*unstructured.Unstructured
	// Validations are the pods that have to succeed before the next stage starts.
	Validations []Check
}

// Chart returns the name of the stage's chart.
func (s Stage) Chart() string { return strings.TrimSuffix(s.Name, "/"+s.Pool) }

// Check is a validation that follows a stage.
type Check struct {
	// Name is the name of its pods: "nvidia-device-plugin-validation".
	Name string
	// Template is the PodTemplate of the chart validator.
	Template *unstructured.Unstructured
	// DaemonSets are the names of those of the stage.
	DaemonSets []string
	// Nodes says how many nodes it runs on: "1", "10%" or "all".
	Nodes string
	// Timeout bounds one pod, from its creation.
	Timeout time.Duration
	// Revision changes when the check has to be repeated: it is derived from the objects of the
	// stages up to this one, and from Policy.Validate.
	Revision string
}

// Seen is what is known of an object in the cluster that has a field manager.
type Seen struct {
	Ref
	UID types.UID
	// Ours says that the orchestrator has applied the object.
	Ours bool
	// Owner names the field manager that changed it last, the orchestrator aside, or is empty.
	Owner string
	// Drifted says that somebody changed it after the orchestrator had applied it.
	Drifted bool
	// Applied is the hash of the object that this process applied last; empty after a restart.
	Applied  string
	Deleting bool
}

// DaemonSet is the state of one DaemonSet.
type DaemonSet struct {
	// Current says that its controller has seen the generation that was applied.
	Current bool
	// Desired, Updated and Ready are numbers of nodes.
	Desired, Updated, Ready int
}

// Pod is a pod of a DaemonSet or a validation that is not ready, or has ended.
type Pod struct {
	Namespace, Name string
	// Node is empty while the pod is not scheduled.
	Node string
	// Owner is the name of the DaemonSet, or of the Check.
	Owner string
	// Phase is that of the pod: Pending, Running, Succeeded or Failed.
	Phase string
	// Reason is one word, of the kubelet or the scheduler: "ImagePullBackOff", "Unschedulable",
	// "CrashLoopBackOff", "NotReady".
	Reason string
	// Message is what the kubelet, the scheduler, or the agent on termination says.
	Message string
	// Since is when the pod was created, or stopped being ready.
	Since time.Time
	// Revision is the value of the label outrigger.dev/of, for pods of a Check.
	Revision string
	// Deleting says that the pod is being deleted.
	Deleting bool
}

// Node is a node that has a GPU, or on which an agent runs.
type Node struct {
	Name string
	// Labels are the labels of the prefixes nvidia.com/, feature.node.kubernetes.io/pci-,
	// outrigger.dev/ and those that selectors of the policy use.
	Labels map[string]string
	// Schedulable is unset for cordoned nodes and nodes that are not Ready.
	Schedulable bool
	// NotReady says that the node's condition Ready is not True: nothing on it is known to work.
	NotReady bool
	// GPUReady is the condition GPUReady that feature discovery writes: "True", "False",
	// "Unknown", or empty if the node does not have the condition.
	GPUReady string
	// Reason and Message are those of the condition.
	Reason, Message string
	// Since is when the condition changed.
	Since time.Time
	// Allocatable are the resources nvidia.com/* that the kubelet offers.
	Allocatable map[string]int64
}

// HasGPU reports whether the node has an NVIDIA GPU, by the labels of feature discovery or of
// Node Feature Discovery.
func (n Node) HasGPU() bool {
	const pci = "feature.node.kubernetes.io/pci-"
	for _, label := range []string{
		"nvidia.com/gpu.present", pci + "10de.present", pci + "0302_10de.present", pci + "0300_10de.present",
	} {
		if n.Labels[label] == "true" {
			return true
		}
	}
	return false
}

// State is what the orchestrator observes in the cluster, at one moment.
type State struct {
	Policy  Policy
	Objects map[Ref]Seen
	// What DaemonSets, Pods and Nodes point to, nobody changes: one state shares it with the next.
	DaemonSets map[Ref]*DaemonSet
	// Pods are those that are not ready, and all of the validations.
	Pods  []*Pod
	Nodes []*Node
	// Failures are what the last attempt to write an object returned, by object.
	Failures map[Ref]string
	Now      time.Time
}

// Plan is what one pass wants written, in this order: first Status with the Inventory, so that
// nothing is applied that is not listed, then Apply, Create, Delete and Events.
type Plan struct {
	Apply []Apply
	// Create are pods of validations.
	Create []*unstructured.Unstructured
	// Delete are objects that left the policy, and pods of validations that have ended.
	Delete []Seen
	// Left says what has to be gone before nothing is left to do, and why it is not.
	Left []string
	// Status has the inventory: what this plan applies, and what earlier ones applied and is still
	// in the cluster.
	Status Status
	// Events are those to send about the policy.
	Events []Event
	// Again is when to look again without a change in the cluster, such as a timeout; 0 is never.
	Again time.Duration
}

// Soonest returns the smaller one of two times after which to look again. 0 is never.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Apply is an object to apply with server-side apply.
type Apply struct {
	Stage  string
	Object *unstructured.Unstructured
	// Hash identifies its content.
	Hash string
}

// Event is about the policy.
type Event struct {
	Warning bool
	// Reason is one word in CamelCase.
	Reason  string
	Message string
}
