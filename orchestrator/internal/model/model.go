// Package model defines the values that the packages of the orchestrator exchange: the desired
// state, the observed state, the plan of writes, and the status. It does no I/O.
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

// Ref identifies an object. Namespace is empty for cluster-scoped objects.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Policy is the configuration of the user: a ClusterPolicy, or a values file.
type Policy struct {
	Name string
	// Release is the prefix of the objects' names: the Helm release of the policy, so that the objects
	// have the same names with and without the orchestrator. If Helm did not install the policy, it is
	// the name of the policy.
	Release    string
	UID        types.UID
	Generation int64
	Created    time.Time
	Finalizers []string
	// Version is the resourceVersion.
	Version string
	// Values are the values of the chart outrigger.
	Values map[string]any
	// Refused is the reason why no stage can use the values. It is empty if the values are
	// accepted.
	Refused string
	// Deleting says that the policy is being deleted, and still has the orchestrator's finalizer.
	Deleting bool
	// Validate says when and how to repeat the validations.
	Validate Repetition
	// Adopt permits taking over objects of other programs: annotation outrigger.dev/adopt.
	Adopt bool
	// Ungated says that no stage waits for another one.
	Ungated bool
	// Keep says that objects that the values no longer have stay, and stay in the inventory.
	Keep bool
	// Unreadable is the reason why the inventory cannot be read. Then no object may be changed.
	Unreadable error
	// Status is the status that the last pass published, with the inventory of applied objects.
	Status Status
}

// Stage has all objects of one agent's chart, in apply order.
type Stage struct {
	// Name is the name of the chart: "device-plugin". In a pool, the name of the pool follows:
	// "device-plugin/a100".
	Name string
	// Pool is the name of the stage's pool, or empty for the nodes outside of pools. Pools do not
	// wait for each other.
	Pool string
	// Needs are the names of the charts that have to work before this stage is applied.
	Needs []string
	// Objects are the rendered objects of the chart.
	Objects []*unstructured.Unstructured
	// Validations are the checks that run before the stages that need this stage are applied.
	Validations []Check
}

// Chart returns the name of the stage's chart.
func (s Stage) Chart() string { return strings.TrimSuffix(s.Name, "/"+s.Pool) }

// Seen is the observed state of an object that may belong to the orchestrator.
type Seen struct {
	Ref
	UID types.UID
	// Ours says that the orchestrator has applied the object.
	Ours bool
	// Owner is the field manager that changed the object last, the orchestrator excluded, or empty.
	Owner string
	// Drifted says that another manager changed the object after the orchestrator had applied it.
	Drifted bool
	// Applied is the hash of the object that this process applied last; empty after a restart.
	Applied  string
	Deleting bool
}

// DaemonSet is the state of one DaemonSet.
type DaemonSet struct {
	// Current says that the DaemonSet controller has observed the generation that was applied.
	Current bool
	// Desired, Updated and Ready are numbers of nodes.
	Desired, Updated, Ready int
}

// RestartTime is how long a pod may start, and how long the node may then take to offer its GPUs, before
// the node has a cause besides the cause of the pod.
const RestartTime = time.Minute

// Pod is a pod of a validation, or a pod of a DaemonSet that is not ready, became ready within
// RestartTime, or crashes again and again.
type Pod struct {
	Namespace, Name string
	// Node is empty while the pod is not scheduled.
	Node string
	// Owner is the name of the DaemonSet, or of the Check.
	Owner string
	// Phase is the phase of the pod: Pending, Running, Succeeded or Failed.
	Phase string
	// Reason is one word of the kubelet or the scheduler: "ImagePullBackOff", "Unschedulable",
	// "CrashLoopBackOff", "NotReady".
	Reason string
	// Message is the message of the kubelet or the scheduler, or the termination message of the
	// agent.
	Message string
	// Since is the creation time of the pod or, if later, the time of its last change of readiness, or
	// the end of the grace period of its deletion.
	Since time.Time
	// Ready says that the pod is ready: for less than RestartTime, or between two crashes.
	Ready bool
	// Loops is the end of the crash loop if the pod does not crash again, and zero without a loop.
	Loops time.Time
	// Revision is the value of the label outrigger.dev/of, for pods of a Check.
	Revision string
	// Deleting says that the pod is being deleted.
	Deleting bool
}

// Node is a node that has a relevant label, such as the label of a GPU.
type Node struct {
	Name string
	// Labels holds the labels with the prefixes nvidia.com/, feature.node.kubernetes.io/pci- and
	// outrigger.dev/, and the labels in selectors of the policy.
	Labels map[string]string
	// Schedulable is unset for cordoned nodes and nodes that are not Ready.
	Schedulable bool
	// NotReady says that the node's condition Ready is not True, so that the state of its pods is
	// unknown.
	NotReady bool
	// GPUReady is the status of the condition GPUReady, which feature discovery writes: "True",
	// "False", "Unknown", or empty if the node does not have the condition.
	GPUReady string
	// Reason and Message are the reason and the message of the condition.
	Reason, Message string
	// Since is the time of the last transition of the condition GPUReady or, on a node that is not
	// Ready, of the condition Ready.
	Since time.Time
	// Allocatable are the resources nvidia.com/* that the kubelet offers, and Capacity the resources
	// that device plugins have registered. A resource stays in Capacity, with 0, after its plugin has
	// ended, so a node with an entry has offered GPUs before.
	Allocatable, Capacity map[string]int64
	// ShortSince is when Allocatable became less than Capacity, or zero if this is not known.
	ShortSince time.Time
}

// GPUs returns the number of GPUs that the kubelet offers, and the number that device plugins have
// registered. If a node has several resources, a resource without allocatable devices does not count, because the
// kubelet keeps a resource for minutes after its plugin has ended.
func (n Node) GPUs() (offered, capacity int64) {
	var idle int64
	for name, count := range n.Capacity {
		if allocatable := n.Allocatable[name]; allocatable > 0 {
			offered += allocatable
			capacity += count
		} else {
			idle += count
		}
	}
	if offered == 0 {
		capacity = idle
	}
	return offered, capacity
}

// OptedOut reports whether a label excludes the node from an agent that containers with GPUs need. NVIDIA's GPU
// Operator defines the labels, and the affinity of the charts uses them.
func (n Node) OptedOut() bool {
	const deploy = "nvidia.com/gpu.deploy."
	return n.Labels[deploy+"operands"] == "false" || n.Labels[deploy+"device-plugin"] == "false" || n.Labels[deploy+"container-toolkit"] == "false"
}

// Changing reports whether an agent changes the driver or the MIG layout of the node, which may
// take minutes.
func (n Node) Changing() bool {
	switch n.Labels["nvidia.com/mig.config.state"] {
	case "pending", "rebooting":
		return true
	}
	switch n.Labels["nvidia.com/gpu-driver-upgrade-state"] {
	case "", "upgrade-done", "upgrade-required", "upgrade-failed":
		return false
	}
	return true
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

// State is the observed state of the cluster at one moment.
type State struct {
	Policy  Policy
	Objects map[Ref]Seen
	// The values behind the pointers of DaemonSets, Pods and Nodes must not be changed, because
	// States share them.
	DaemonSets map[Ref]*DaemonSet
	// Pods are the pods of DaemonSets that are not ready or became ready only now, and all pods of
	// validations.
	Pods  []*Pod
	Nodes []*Node
	// Failures holds the error of the last write of an object, by object.
	Failures map[Ref]string
	Now      time.Time
}

// Plan has the writes of one pass, in this order: Status with the Inventory, so that every applied
// object is listed, then Apply, Create, Delete and Events.
type Plan struct {
	Apply []Apply
	// Create are the validation pods to create.
	Create []*unstructured.Unstructured
	// Delete are the objects that the policy no longer has, and validation pods that have ended.
	Delete []Seen
	// Left lists the objects that still have to disappear, with the reason if a deletion fails.
	Left []string
	// Status has the inventory: the objects that this plan applies, and the objects of earlier
	// plans that are still in the cluster.
	Status Status
	// Events are the Events to send about the policy.
	Events []Event
	// Again is the delay until the next pass if the cluster does not change, for example until a
	// timeout. 0 means never.
	Again time.Duration
}

// Soonest returns the shorter one of two delays. 0 means never.
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
	// Hash identifies the content of Object.
	Hash string
}

// Event is an Event about the policy.
type Event struct {
	Warning bool
	// Repair says that the Event is about a write of the plan, and not about its status.
	Repair bool `json:"-"`
	// Reason is one word in CamelCase.
	Reason  string
	Message string
}
