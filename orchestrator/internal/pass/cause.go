package pass

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/text"
)

// patience is how long a pod or a node may wait before it counts as failed: to pull an image of
// several GB, or to build and load a driver.
const patience = 10 * time.Minute

// kind says what to expect of a cause.
type kind int

const (
	// starts goes away by itself, and is told only once patience has ended.
	starts kind = iota
	// waits is of an agent that runs and waits, and says for what.
	waits
	// fails needs a person.
	fails
)

// cause is why a pod or a node is not ready.
type cause struct {
	// word is the reason of GPUReady, of the kubelet or of the scheduler.
	word    string
	kind    kind
	message string
	fix     string
	since   time.Time
}

// podCause returns why a pod of a DaemonSet is not ready. An agent that runs and waits has no
// word for it in the API: the node's GPUReady has.
func (x *index) podCause(p *model.Pod) cause {
	node := cmp.Or(x.nodes[p.Node], &model.Node{Name: p.Node})
	at := fmt.Sprintf("-n %s %s", p.Namespace, p.Name)
	c := cause{word: p.Reason, kind: fails, message: withoutBackOff(p.Message), since: p.Since}
	switch p.Reason {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		c.word = "ImagePullBackOff"
		c.fix = "correct repository, image and version in the values, or imagePullSecrets, or let the node reach the registry"
	case "InvalidImageName", "ErrImageNeverPull":
		c.fix = "correct repository, image, version and imagePullPolicy in the values"
	case "CrashLoopBackOff", "Error", "ContainerCannotRun", "StartError", "Completed":
		c.word = "CrashLoopBackOff"
		c.fix = "kubectl logs --previous " + at + " has the error"
	case "OOMKilled":
		c.fix = "raise resources.limits.memory of the agent in the values"
	case "CreateContainerConfigError":
		c.fix = "create the ConfigMap or Secret that the message names in namespace " + p.Namespace + ", or correct the values"
	case "CreateContainerError", "RunContainerError", "CreatePodSandboxError":
		c.fix = "the container engine rejects the container: look at its log on the node (journalctl -u containerd, crio or docker)"
	case "Unschedulable", "SchedulerError":
		c.word, c.fix = "Unschedulable", "free what the message names on the node, or tolerate its taint (tolerations in the values)"
	default:
		x.otherCause(&c, p, node, at)
	}
	if node.NotReady && c.kind != fails {
		return nodeDown(node, p.Since)
	}
	return c
}

// otherCause sets the cause of a pod for which the kubelet has no word of failure.
func (x *index) otherCause(c *cause, p *model.Pod, node *model.Node, at string) {
	switch {
	case p.Deleting:
		c.word, c.kind, c.message = "Terminating", starts, "the pod is being deleted"
		c.fix = "kubectl describe pod " + at + ": the node does not confirm that its containers have ended"
	case p.Phase == "Failed":
		c.word = cmp.Or(p.Reason, "PodFailed")
		c.fix = "kubectl describe pod " + at + " has the reason; the DaemonSet replaces the pod"
	case p.Phase != "Running":
		c.word, c.kind = cmp.Or(p.Reason, "ContainerCreating"), starts
		c.message = cmp.Or(p.Message, "the containers have not started")
		c.fix = "kubectl describe pod " + at + ": its events name the volume, RuntimeClass, network or image that is missing"
	default:
		c.word, c.kind = "NotReady", waits
		c.message = cmp.Or(p.Message, "the agent runs and is not ready")
		c.fix = "kubectl logs " + at + " says what the agent waits for"
		if word := node.Reason; node.GPUReady != "" && node.GPUReady != "True" && word != "" {
			of := x.nodeCause(node)
			x.told[node.Name] = true
			c.word, c.kind, c.message, c.fix = of.word, of.kind, of.message, of.fix
		}
	}
}

// nodeCause returns why the GPUs of a node cannot be used: what its agent says.
func (x *index) nodeCause(n *model.Node) cause {
	c := cause{word: n.Reason, kind: waits, message: n.Message, since: n.Since}
	switch n.Reason {
	case "DriverNotFound":
		c.fix = "install NVIDIA's driver on the node, or enable the part that does; nouveau must not hold the GPU (lspci -k -d 10de:), and " +
			"the modules i2c_core and ipmi_msghandler must be there (lsmod)"
	case "DriverHangs":
		c.kind, c.fix = fails, "look for NVRM in dmesg of the node, drain it, and reset the GPU or reboot"
	case "DriverFails", "AllGPUsFaulty":
		c.kind, c.fix = fails, "look for NVRM and Xid in dmesg of the node; reset the GPUs or reboot"
	case "NoGPU":
		c.kind, c.fix = fails, "check on the node that the driver nvidia, not nouveau or vfio-pci, has the GPUs (lspci -k -d 10de:)"
	case "ToolkitUnreadable", "PluginUnreadable", "CUDAUnreadable":
		c.kind, c.fix = fails, "remove the file that the message names from the node: its writer writes it again"
	case "Starting":
		c.fix = "nothing, unless this lasts: then see the log of feature discovery on the node"
	case "DriverClaimed":
		c.fix = "nothing, unless the part that the message names hangs: see its log"
	default:
		c.fix = "kubectl get pods -A --field-selector spec.nodeName=" + n.Name + " shows whether the part that the message names runs there; its log says more"
	}
	return c
}

// nodeNotReady is the cause of a node that is not Ready itself.
const nodeNotReady = "NodeNotReady"

// nodeDown is the cause of all that is on a node that is not ready itself.
func nodeDown(n *model.Node, since time.Time) cause {
	return cause{
		word: nodeNotReady, kind: waits, since: since, message: "the node itself is not Ready",
		fix: "kubectl describe node " + n.Name + ": its kubelet, network or machine does not work",
	}
}

// withoutBackOff returns a message of the kubelet without what changes with each retry: the
// pause, and the name of the pod.
func withoutBackOff(message string) string {
	const retry = "Back-off pulling image "
	if _, pull, ok := strings.Cut(message, ": ErrImagePull: "); ok && strings.HasPrefix(message, retry) {
		return pull
	}
	if _, rest, ok := strings.Cut(message, "restarting failed container="); ok {
		name, _, _ := strings.Cut(rest, " ")
		return "the container " + name + " ends again and again"
	}
	return message
}

// line makes text from the cluster fit for a status: one line of at most that many bytes.
func line(s string, most int) string {
	return text.Cut(text.Printable(strings.Join(strings.Fields(s), " ")), most)
}

// The limits of texts in a status, in bytes.
const (
	maxMessage = 1000
	maxText    = 500
)
