package archive

import (
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
)

// The files that hack/must-gather.sh of NVIDIA's gpu-operator writes (v22.9 to v26.7), and that Read uses.
const (
	theirPolicy     = "cluster_policy.yaml"
	theirNoPolicy   = "cluster_policy.missing"
	theirDrivers    = "nvidiadrivers.yaml"
	theirLabels     = "gpu_nodes.labels"
	theirNodes      = "gpu_nodes.descr"
	theirOperator   = "gpu_operator_pod.yaml"
	theirPods       = "gpu_operand_pods.yaml"
	theirDaemonSets = "gpu_operand_ds.yaml"
)

func foreignFiles() []string {
	return []string{theirPolicy, theirNoPolicy, theirDrivers, theirLabels, theirNodes, theirOperator, theirPods, theirDaemonSets}
}

// foreign reads NVIDIA's must-gather in a folder of the loaded files.
func (l *loaded) foreign(dir string) facts.Facts {
	var f facts.Facts
	r := reader{loaded: l, dir: dir, unseen: &f.Unseen}
	if r.has(theirNoPolicy) {
		f.Unseen = append(f.Unseen, facts.Unseen{What: "NVIDIA's ClusterPolicy", Why: "the cluster did not have one"})
	} else {
		into(r, theirPolicy, "", &f.Others)
	}
	if r.has(theirDrivers) { // only clusters with the kind, and versions since v23.9, have it
		into(r, theirDrivers, "", &f.Others)
	}
	into(r, theirOperator, "Pod", &f.Pods)
	var operands []*corev1.Pod
	into(r, theirPods, "Pod", &operands)
	for _, p := range operands {
		if len(f.Pods) == 0 || p.Name != f.Pods[0].Name { // the operator is in both files
			f.Pods = append(f.Pods, p)
		}
	}
	into(r, theirDaemonSets, "DaemonSet", &f.DaemonSets)
	f.Nodes = r.nodes()
	f.Taken = lastSeen(f)
	for _, what := range []string{
		"Events", "ResourceQuotas", "RuntimeClasses", "ResourceClaims", "ResourceSlices", "DeviceClasses", "pods outside of the namespace of NVIDIA's GPU Operator", "answers of agents", "ClusterPolicies of Outrigger", "version of the API server",
	} {
		f.Unseen = append(f.Unseen, facts.Unseen{What: what, Why: "NVIDIA's must-gather does not collect it"})
	}
	return f
}

func (r reader) has(file string) bool {
	_, ok := r.files[path.Join(r.dir, file)]
	return ok
}

// nodes returns the nodes of the descriptions of kubectl. A node that only has labels is unseen, because without its
// conditions it would look broken.
func (r reader) nodes() []*corev1.Node {
	nodes := describedNodes(string(r.files[path.Join(r.dir, theirNodes)]))
	for _, file := range []string{theirNodes, theirLabels} {
		if !r.has(file) {
			r.miss(file, "the archive does not have it")
		}
	}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
	}
	for _, name := range labelledNodes(string(r.files[path.Join(r.dir, theirLabels)])) {
		if !known[name] { // a node with several PCI labels is listed several times
			known[name] = true
			*r.unseen = append(*r.unseen, facts.Unseen{
				What: "conditions and resources of the node " + name,
				Why:  theirNodes + " describes only nodes with the label nvidia.com/gpu.present=true, and this node has only the PCI label of a GPU",
			})
		}
	}
	return nodes
}

// labelledNodes returns the names in gpu_nodes.labels: the name of a node, then one line for each label: "- KEY=VALUE".
func labelledNodes(file string) []string {
	var names []string
	for line := range strings.Lines(file) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "- ") {
			names = append(names, line)
		}
	}
	return names
}

// lastSeen returns the newest time in the objects, which is close to the time of the must-gather.
func lastSeen(f facts.Facts) time.Time {
	var last time.Time
	see := func(t time.Time) {
		if t.After(last) {
			last = t.UTC()
		}
	}
	for _, n := range f.Nodes {
		for _, c := range n.Status.Conditions {
			see(c.LastHeartbeatTime.Time)
			see(c.LastTransitionTime.Time)
		}
	}
	for _, p := range f.Pods {
		see(p.CreationTimestamp.Time)
		for _, c := range p.Status.Conditions {
			see(c.LastTransitionTime.Time)
		}
	}
	return last
}
