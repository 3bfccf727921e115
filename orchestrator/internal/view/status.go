// Package view derives the output of the commands status and top from facts. It does no I/O.
package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/cause"
)

// The states of a node that have no code in the table of causes.
const (
	// Ready: the GPUs can be used.
	Ready = "Ready"
	// OptedOut: labels of the node keep the agents off.
	OptedOut = "OptedOut"
	// NoDevices: the kubelet offers no GPU, and the node does not say why.
	NoDevices = "NoDevices"
)

// driverLabel is the label of feature discovery with the version of the driver.
const driverLabel = "nvidia.com/cuda.driver-version.full"

// Status is the state of the agents and nodes of a cluster.
type Status struct {
	// Server is the version of the API server.
	Server string `json:"server,omitempty"`
	// Policy is the name of the ClusterPolicy in effect, or "".
	Policy string `json:"policy,omitempty"`
	// Warning says that Status can be out of date, or is "".
	Warning string `json:"warning,omitempty"`
	// Status comes from the orchestrator.
	// It is nil if the orchestrator has published none.
	Status   *model.Status  `json:"status,omitempty"`
	Nodes    []NodesOf      `json:"nodes"`
	Versions []Version      `json:"versions"`
	Unseen   []facts.Unseen `json:"unseen,omitempty"`
}

// NodesOf are the nodes with GPUs that have the same cause.
type NodesOf struct {
	// Cause is a code of the table of causes, or Ready, OptedOut or NoDevices.
	Cause string `json:"cause"`
	// Severity is starts, waits or fails, and "" for Ready and OptedOut.
	Severity cause.Severity `json:"severity,omitempty"`
	Nodes    int            `json:"nodes"`
	Examples []string       `json:"examples"`
	// Message is the message of the first node by name.
	Message string `json:"message,omitempty"`
}

// Version is a version of a part of the stack, and the nodes that have it.
type Version struct {
	// Part is the name of an agent, or driver, kernel, os, runtime or kubelet.
	Part    string `json:"part"`
	Version string `json:"version"`
	// Image is the image of an agent.
	Image string `json:"image,omitempty"`
	Nodes int    `json:"nodes"`
	// Updated and Ready are numbers of nodes for an agent.
	Updated *int `json:"updated,omitempty"`
	Ready   *int `json:"ready,omitempty"`
}

// NewStatus returns the state of a cluster. warning and published come from the orchestrator. published may be nil.
func NewStatus(f facts.Facts, policy, warning string, published *model.Status) Status {
	if published != nil {
		shown := *published
		shown.Inventory = nil // it is long, and for the orchestrator only
		published = &shown
	}
	return Status{
		Server: f.Server, Policy: policy, Warning: strings.TrimSpace(warning), Status: published,
		Nodes: byCause(f.Nodes), Versions: slices.Concat(agents(f.DaemonSets), nodeVersions(f.Nodes)), Unseen: f.Unseen,
	}
}

// stateOf returns the cause of a node, its severity and its message.
func stateOf(n *model.Node) (state string, severity cause.Severity, message string) {
	t, unusable := health.NodeTrouble(n)
	switch {
	case unusable && n.OptedOut():
		return OptedOut, "", ""
	case t.Code != "":
		return string(t.Code), t.Severity, t.Text
	case unusable:
		return NoDevices, cause.Waits, "the kubelet offers no GPU, and the node has no condition GPUReady: check that feature discovery and the device plugin run there"
	}
	return Ready, "", ""
}

// byCause returns the nodes with GPUs by their cause, the worst cause first.
func byCause(nodes []*corev1.Node) []NodesOf {
	found := map[string]*NodesOf{}
	for _, node := range sorted(nodes) {
		n := observe.NodeOf(node)
		if !n.HasGPU() {
			continue
		}
		state, severity, message := stateOf(n)
		row := found[state]
		if row == nil {
			row = &NodesOf{Cause: state, Severity: severity, Message: message}
			found[state] = row
		}
		if row.Nodes++; len(row.Examples) < health.MaxExamples {
			row.Examples = append(row.Examples, n.Name)
		}
	}
	rows := []NodesOf{}
	for _, r := range found {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b NodesOf) int {
		return cmp.Or(severityWeight(b.Severity)-severityWeight(a.Severity), b.Nodes-a.Nodes, cmp.Compare(a.Cause, b.Cause))
	})
	return rows
}

// severityWeight returns a number that is higher for a worse severity. A node without a cause has 0.
func severityWeight(s cause.Severity) int {
	return slices.Index([]cause.Severity{"", cause.Starts, cause.Waits, cause.Fails}, s)
}

// Worst returns the worst severity of the nodes and of the stages, or "".
func (s Status) Worst() (worst cause.Severity) {
	see := func(found cause.Severity) {
		if severityWeight(found) > severityWeight(worst) {
			worst = found
		}
	}
	for _, r := range s.Nodes {
		see(r.Severity)
	}
	if s.Status == nil {
		return worst
	}
	for _, stage := range s.Status.Stages {
		switch {
		case model.Broken(stage.State):
			see(cause.Fails)
		case stage.State != model.Ready:
			see(cause.Waits)
		}
	}
	return worst
}

// agents returns the versions of the agents.
func agents(all []*appsv1.DaemonSet) []Version {
	var rows []Version
	for _, ds := range all {
		v := Version{
			Part: ds.Name, Version: ds.Labels["app.kubernetes.io/version"], Nodes: int(ds.Status.DesiredNumberScheduled),
			Updated: new(int(ds.Status.UpdatedNumberScheduled)), Ready: new(int(ds.Status.NumberReady)),
		}
		if c := ds.Spec.Template.Spec.Containers; len(c) > 0 {
			v.Image = c[0].Image
		}
		rows = append(rows, v)
	}
	slices.SortFunc(rows, compareVersions)
	return rows
}

func compareVersions(a, b Version) int {
	return cmp.Or(cmp.Compare(a.Part, b.Part), b.Nodes-a.Nodes, cmp.Compare(a.Version, b.Version))
}

// nodeVersions returns the versions of the software of the nodes with GPUs.
func nodeVersions(nodes []*corev1.Node) []Version {
	count := map[Version]int{}
	for _, n := range nodes {
		if !observe.NodeOf(n).HasGPU() {
			continue
		}
		info := n.Status.NodeInfo
		for part, version := range map[string]string{
			"driver": n.Labels[driverLabel], "kernel": info.KernelVersion, "os": info.OSImage, "runtime": info.ContainerRuntimeVersion, "kubelet": info.KubeletVersion,
		} {
			count[Version{Part: part, Version: version}]++
		}
	}
	var rows []Version
	for v := range maps.Keys(count) {
		v.Nodes = count[v]
		rows = append(rows, v)
	}
	slices.SortFunc(rows, compareVersions)
	return rows
}

// sorted returns objects by name.
func sorted[T interface{ GetName() string }](in []T) []T {
	return slices.SortedFunc(slices.Values(in), func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// Works reports whether all GPUs of a node can be used.
func Works(n *model.Node) bool {
	state, _, _ := stateOf(n)
	return state == Ready
}
