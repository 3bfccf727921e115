package ready

import (
	"fmt"

	"outrigger.dev/pkg/contract"
)

// maxWord bounds the name of an agent or a version, in bytes.
const maxWord = 63

// part is what stands behind a link that is a fact of the node contract.
type part struct {
	name contract.Name
	// writer is the agent that tells the fact, and once is when it does.
	writer, once string
	// The reasons while it is not told.
	missing, stale, dead, unreadable string
}

func partOf(l Link) part {
	switch l {
	case Toolkit:
		return part{
			contract.ToolkitReady, "container-toolkit", "the CDI specs are complete and the container runtime is set up",
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

// fact checks a link that a file tells of.
func (o Observed) fact(p part) finding {
	f := o.Facts[p.name]
	writer := p.writer
	if f.Stamp.Writer != "" {
		writer = oneLine(f.Stamp.Writer, maxWord)
	}
	again := fmt.Sprintf("see whether the pod of %s runs on this node, and its log: it tells this anew once %s", writer, p.once)
	switch f.State {
	case contract.Valid:
		if why := o.otherDriver(f.Stamp); why != "" {
			return finding{False, p.stale, fmt.Sprintf("%s: %s", p.name, why), again}
		}
		return finding{}
	case contract.Missing:
		return finding{
			False, p.missing, f.Reason,
			fmt.Sprintf("see whether the pod of %s runs on this node, and its log: it writes %s once %s", writer, p.name, p.once),
		}
	case contract.Stale:
		return finding{False, p.stale, f.Reason, again}
	case contract.WriterDead:
		return finding{
			False, p.dead, fmt.Sprintf("%s (it was written %s)", f.Reason, at(f.Stamp)),
			fmt.Sprintf("see why the pod of %s on this node ended: kubectl describe pod, kubectl logs --previous", writer),
		}
	case "":
		return finding{Unknown, Starting, fmt.Sprintf("%s has not been read yet", p.name), ""}
	default:
		return finding{
			False, p.unreadable, fmt.Sprintf("%s: %s", p.name, f.Reason),
			fmt.Sprintf("let this agent read it; if the file is damaged, remove it and restart the pod of %s on this node, which writes it", writer),
		}
	}
}

// otherDriver returns how a fact that was told for one driver does not fit the
// one that answers: what was set up for it has to be set up again. While the
// driver is not asked, nobody knows.
func (o Observed) otherDriver(s contract.Stamp) string {
	if o.Err != nil || o.Node == nil || s.DriverVersion == "" || s.DriverVersion == o.Node.Driver.Version {
		return ""
	}
	return fmt.Sprintf("%s told it for driver %s %s, but driver %s answers",
		oneLine(s.Writer, maxWord), oneLine(s.DriverVersion, maxWord), at(s), oneLine(o.Node.Driver.Version, maxWord))
}
