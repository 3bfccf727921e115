// Package simulate runs gpu-sim on the nodes of a cluster whose GPUs the chart gpu-sim simulates, by
// a command in the container of its DaemonSet, with the rights of the caller.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/pkg/text"
)

// The pods of the DaemonSet gpu-sim, and the program in their container.
const (
	name     = "gpu-sim"
	selector = "app.kubernetes.io/name=" + name
	program  = "/usr/bin/" + name
)

// label chooses the nodes whose GPUs are simulated.
const label = "outrigger.dev/simulated-gpus"

// Nodes runs gpu-sim on nodes.
type Nodes struct {
	client *cluster.Client
	// pods has the pod of each node with simulated GPUs, by the name of the node.
	pods map[string]*corev1.Pod
}

// Open reads the pods of gpu-sim on a node, or on all nodes without a name. It needs the verb list on
// pods.
func Open(ctx context.Context, client *cluster.Client, node string) (*Nodes, error) {
	options := metav1.ListOptions{LabelSelector: selector}
	if node != "" {
		options.FieldSelector = "spec.nodeName=" + node
	}
	var list corev1.PodList
	err := client.Core.Get().Resource("pods").VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(&list)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("find the pods of %s: %w: the command needs the verb list on pods in all namespaces", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("find the pods of %s: %w", name, err)
	}
	n := &Nodes{client: client, pods: map[string]*corev1.Pod{}}
	for i := range list.Items {
		p := &list.Items[i]
		// Everybody can give a pod the labels of gpu-sim.
		if owner := metav1.GetControllerOf(p); owner == nil || owner.Kind != "DaemonSet" || p.Spec.NodeName == "" {
			continue
		}
		if other := n.pods[p.Spec.NodeName]; other == nil || !runs(other) {
			n.pods[p.Spec.NodeName] = p
		}
	}
	return n, nil
}

func runs(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name && s.State.Running != nil })
}

// Names returns the names of the nodes with simulated GPUs, sorted.
func (n *Nodes) Names() []string {
	var names []string
	for node := range n.pods {
		names = append(names, node)
	}
	slices.Sort(names)
	return names
}

// Check returns an error unless gpu-sim can run on a node. The error says why, and how to change that.
func (n *Nodes) Check(ctx context.Context, node string) error {
	if p := n.pods[node]; p != nil {
		if !runs(p) {
			return fmt.Errorf("node %s: the container %s of the pod %s/%s does not run: kubectl describe pod -n %s %s says why", node, name, p.Namespace, p.Name, p.Namespace, p.Name)
		}
		return nil
	}
	var found corev1.Node
	err := n.client.Core.Get().Resource("nodes").Name(node).Do(ctx).Into(&found)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no node %s: kubectl get nodes lists the nodes", node)
	case err != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("read the node %s: %w", node, err)
	case found.Labels["nvidia.com/gpu.present"] == "true" && found.Labels[label] == "":
		return fmt.Errorf("node %s has real GPUs: the command changes only simulated GPUs", node)
	}
	return fmt.Errorf("node %s has no simulated GPUs: install the chart %s, and label the node, for example with %s=h100-80x8", node, name, label)
}

// Run runs gpu-sim with arguments on a node, which Check has accepted, and returns its output. It
// needs the verb create on pods/exec.
func (n *Nodes) Run(ctx context.Context, node string, args ...string) (string, error) {
	p := n.pods[node]
	output, err := read.Ask(ctx, n.client, read.Question{Namespace: p.Namespace, Pod: p.Name, Container: name, Command: append([]string{program}, args...)})
	if read.IsForbidden(err) {
		return "", fmt.Errorf("run %s on node %s: you may not run commands in the pods of the namespace %s: the command needs the verbs get and create on pods/exec there", name, node, p.Namespace)
	}
	if failed, is := errors.AsType[exec.CodeExitError](err); is {
		said := strings.TrimSuffix(text.OneLine(err), ": "+failed.Error())
		return output, fmt.Errorf("node %s: %s", node, cmp.Or(said, err.Error()))
	}
	if err != nil {
		return output, fmt.Errorf("run %s on node %s: %w", name, node, err)
	}
	return output, nil
}
