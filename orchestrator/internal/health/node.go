package health

import (
	"fmt"
	"strings"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// Nodes has the numbers of nodes and GPUs. Nodes that are opted out are only in OptedOut.
type Nodes struct {
	// GPU is the number of nodes with a GPU, and Ready the number of them whose GPUs can be used.
	GPU, Ready int
	// OptedOut is the number of nodes whose labels keep the agents off, and whose GPUs cannot be used.
	OptedOut int
	// Offered is the number of GPUs that kubelets offer, and Capacity the number of GPUs that device
	// plugins have registered.
	Offered, Capacity int64
	// Failed is the number of nodes with a cause that has lasted. Restarting is the number of nodes that
	// cannot be used because the pod of an agent starts or fails.
	Failed, Restarting int
}

// String returns the numbers as text: "1 of 2 GPU nodes ready, 14 of 16 GPUs, 1 opted out".
func (n Nodes) String() string {
	out := fmt.Sprintf("%d of %s ready", n.Ready, Count(n.GPU))
	if n.Capacity > 0 {
		out += fmt.Sprintf(", %d of %d GPUs", n.Offered, n.Capacity)
	}
	if n.OptedOut > 0 {
		out += fmt.Sprintf(", %d opted out", n.OptedOut)
	}
	return out
}

// Count returns a number of GPU nodes as text.
func Count(n int) string {
	if n == 1 {
		return "1 GPU node"
	}
	return fmt.Sprintf("%d GPU nodes", n)
}

// node adds a node to the numbers, and its cause to the problems.
func (v *View) node(n *model.Node) {
	if !n.HasGPU() {
		return
	}
	offered, capacity := n.GPUs()
	if offered == 0 && !v.plugin {
		// The kubelet keeps the resources of a device plugin that was removed.
		removed := *n
		removed.Capacity, capacity = nil, 0
		n = &removed
	}
	// offers says that the node offers GPUs, or has offered GPUs before.
	offers := len(n.Capacity) > 0
	t, unusable := NodeTrouble(n)
	if unusable && n.OptedOut() {
		v.Nodes.OptedOut++
		return
	}
	v.Nodes.GPU++
	v.Nodes.Capacity += capacity
	// A node that offers no GPUs any more has lost them, and does not start.
	lost := offers && (offered == 0 || n.NotReady) && !n.Changing()
	restarting := awaitsAgent(t.Code) && (v.failing[n.Name] || v.starting[n.Name])
	lasted := (t.Code != "" || unusable) && !restarting && v.lasted(t, lost)
	switch {
	case unusable && offers && !n.Changing() && !lasted && !v.past(t.Since, settle):
		// An agent of the node may restart.
		offered, unusable, t.Code = capacity, false, ""
	case unusable:
		offered = 0
		v.Nodes.Restarting += boolToInt(restarting)
	case !lasted:
		offered, t.Code = capacity, ""
	}
	v.Nodes.Offered += offered
	if !unusable {
		v.Nodes.Ready++
	}
	if t.Code == "" || !lasted && !blocks(t.Code) && !v.past(t.Since, settle) {
		return
	}
	v.add("", n.Name, t, lasted)
	if lasted {
		v.Nodes.Failed++
		v.failed[n.Name] = unusable
	}
}

// blocks reports whether a cause is listed at once. Other causes end when the agents of the node have
// started.
func blocks(code cause.Code) bool {
	return code == cause.NodeNotReady || strings.HasPrefix(string(code), "Driver")
}

// awaitsAgent reports whether a cause ends when an agent of the node has started and written its fact (package
// contract).
func awaitsAgent(code cause.Code) bool {
	return !blocks(code) && code.Row().Section == "node" && code.Row().Severity == cause.Waits
}

// NodeTrouble returns why GPUs of a node cannot be used, and whether none of them can. Without feature
// discovery, an unusable node has no cause.
func NodeTrouble(n *model.Node) (t Trouble, unusable bool) {
	t, unusable = troubleOf(n)
	t.Fix = strings.ReplaceAll(t.Fix, "NODE", n.Name)
	return t, unusable
}

func troubleOf(n *model.Node) (t Trouble, unusable bool) {
	offered, capacity := n.GPUs()
	switch {
	case n.NotReady:
		return newTrouble(cause.NodeNotReady, "", "the node itself is not Ready", n.Since), true
	case n.GPUReady != "" && n.GPUReady != "True":
		return nodeCause(n), true
	case capacity > 0 && offered == 0:
		return newTrouble(cause.AllGPUsFaulty, "", fmt.Sprintf("the kubelet offers 0 of %d GPUs", capacity), n.ShortSince), true
	case offered < capacity:
		return newTrouble(cause.GPUsFaulty, "", fmt.Sprintf("the kubelet offers %d of %d GPUs", offered, capacity), n.ShortSince), false
	}
	return Trouble{}, n.GPUReady == "" && offered == 0
}

// nodeCause returns why the GPUs of a node cannot be used, according to the condition GPUReady.
func nodeCause(n *model.Node) Trouble {
	code := cause.Code(n.Reason)
	if code.Row().Section != "node" && code != cause.NoGPU {
		code = cause.PluginNotReady // an agent of another version wrote the reason: its log has details
	}
	return newTrouble(code, n.Reason, n.Message, n.Since)
}

// Overlap adds the problem of a node that several pools select.
func (v *View) Overlap(node, text string) {
	v.add("", node, newTrouble(cause.PoolsOverlap, "", text, time.Time{}), true)
	v.Nodes.Failed++
}
