package ready

import (
	"fmt"

	"outrigger.dev/pkg/contract"
)

// maxWord is the limit of the name of an agent and of a version, in bytes.
const maxWord = 63

// part describes a link that is a fact of the node contract.
type part struct {
	name contract.Name
	// writer is the agent that writes the fact, and when is the event after which
	// it does.
	writer, when string
	// The reasons while the fact is not valid.
	missing, stale, dead, unreadable string
}

func partOf(l Link) part {
	switch l {
	case Toolkit:
		return part{
			contract.ToolkitReady, "container-toolkit", "the CDI specs are complete and the container runtime is configured",
			ToolkitNotReady, ToolkitStale, ToolkitWriterDead, ToolkitUnreadable,
		}
	case Plugin:
		return part{
			contract.PluginReady, "device-plugin", "its devices are registered with the kubelet",
			PluginNotReady, PluginStale, PluginWriterDead, PluginUnreadable,
		}
	default:
		return part{
			contract.CUDAReady, "validation", "a CUDA program has run",
			CUDANotReady, CUDAStale, CUDAWriterDead, CUDAUnreadable,
		}
	}
}

// fact checks a link that a file decides.
func (o Observed) fact(p part) finding {
	f := o.Facts[p.name]
	writer := p.writer
	if f.Stamp.Writer != "" {
		writer = oneLine(f.Stamp.Writer, maxWord)
	}
	checkWriter := fmt.Sprintf("check whether the pod of %s runs on this node, and its log: it writes %s again when %s", writer, p.name, p.when)
	switch f.State {
	case contract.Valid:
		if problem := o.otherDriver(f.Stamp); problem != "" {
			return finding{False, p.stale, fmt.Sprintf("%s: %s", p.name, problem), checkWriter}
		}
		return finding{}
	case contract.Missing:
		return finding{
			False, p.missing, f.Reason,
			fmt.Sprintf("check whether the pod of %s runs on this node, and its log: it writes %s when %s", writer, p.name, p.when),
		}
	case contract.Stale:
		return finding{False, p.stale, f.Reason, checkWriter}
	case contract.WriterDead:
		return finding{
			False, p.dead, fmt.Sprintf("%s (written %s)", f.Reason, at(f.Stamp)),
			fmt.Sprintf("check why the pod of %s on this node ended: kubectl describe pod, kubectl logs --previous", writer),
		}
	case "":
		return finding{Unknown, Starting, fmt.Sprintf("%s has not been read yet", p.name), ""}
	default:
		return finding{
			False, p.unreadable, fmt.Sprintf("%s: %s", p.name, f.Reason),
			fmt.Sprintf("give this agent read permission; if the file is damaged, remove it and restart the pod of %s on this node, which writes it", writer),
		}
	}
}

// otherDriver returns why a fact does not apply if it was written for another
// driver than the one that answers: what was configured for that driver has to be
// configured again. It returns "" while the driver is not asked.
func (o Observed) otherDriver(s contract.Stamp) string {
	if o.Err != nil || o.Node == nil || s.DriverVersion == "" || s.DriverVersion == o.Node.Driver.Version {
		return ""
	}
	return fmt.Sprintf("%s reported it for driver %s %s, but driver %s answers",
		oneLine(s.Writer, maxWord), oneLine(s.DriverVersion, maxWord), at(s), oneLine(o.Node.Driver.Version, maxWord))
}
