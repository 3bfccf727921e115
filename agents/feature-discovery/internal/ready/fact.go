package ready

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/text"
)

// maxWord is the limit for the name of an agent and for a version, in bytes.
const maxWord = 63

// part describes a link that depends on facts of the node contract.
type part struct {
	// reports has the facts. At least one fact has to be valid.
	reports []report
	// The reasons while no fact is valid.
	missing, stale, dead, unreadable cause.Code
}

// report is a fact that one agent writes.
type report struct {
	name contract.Name
	// writer is the agent that writes the fact, and when is the condition for it.
	writer, when string
}

func partOf(l Link) part {
	switch l {
	case MIG:
		return part{
			[]report{{contract.MIGReady, "mig-manager", "the GPUs have the MIG layouts of the node's config, see the annotation outrigger.dev/mig-config-cause of the node; without a MIG manager, remove mig from the ready chain"}},
			cause.MIGNotReady, cause.MIGStale, cause.MIGWriterDead, cause.MIGUnreadable,
		}
	case Toolkit:
		return part{
			[]report{{contract.ToolkitReady, "container-toolkit", "the CDI specs are complete and the container runtime is configured"}},
			cause.ToolkitNotReady, cause.ToolkitStale, cause.ToolkitWriterDead, cause.ToolkitUnreadable,
		}
	case Plugin:
		return part{
			[]report{
				{contract.PluginReady, "device-plugin", "its devices are registered with the kubelet"},
				{contract.DRAReady, "dra-plugin", "its devices are registered with the kubelet"},
			},
			cause.PluginNotReady, cause.PluginStale, cause.PluginWriterDead, cause.PluginUnreadable,
		}
	default:
		return part{
			[]report{{contract.CUDAReady, "validation", "a CUDA program has run"}},
			cause.CUDANotReady, cause.CUDAStale, cause.CUDAWriterDead, cause.CUDAUnreadable,
		}
	}
}

// fact checks a link that depends on the files of facts. If the link does not hold and there are
// several files, the first existing file determines the reason.
func (o Observed) fact(p part) finding {
	var first finding
	for _, r := range p.reports {
		f := o.report(p, r)
		if f.Code == "" {
			return f
		}
		if first.Code == "" || first.Code == p.missing && f.status != Unknown {
			first = f
		}
	}
	if len(p.reports) > 1 && first.Code == p.missing {
		return p.noneExists(o)
	}
	return first
}

// noneExists returns the finding for a link whose files are all missing.
func (p part) noneExists(o Observed) finding {
	var problems, writers, names []string
	for _, r := range p.reports {
		if reason := o.Facts[r.name].Reason; !slices.Contains(problems, reason) && reason != "" {
			problems = append(problems, reason)
		}
		writers, names = append(writers, r.writer), append(names, string(r.name))
	}
	return fails(p.missing, strings.Join(problems, ", and ")).withFix(
		fmt.Sprintf("check whether the pod of %s runs on this node, and its log: it writes %s when %s",
			text.OneOf(writers), text.OneOf(names), p.reports[0].when))
}

// report checks one file.
func (o Observed) report(p part, r report) finding {
	f := o.Facts[r.name]
	writer := r.writer
	if f.Stamp.Writer != "" {
		writer = oneLine(f.Stamp.Writer, maxWord)
	}
	checkWriter := fmt.Sprintf("check whether the pod of %s runs on this node, and its log: it writes %s again when %s", writer, r.name, r.when)
	switch f.State {
	case contract.Valid:
		if problem := o.otherDriver(f.Stamp); problem != "" {
			return fails(p.stale, fmt.Sprintf("%s: %s", r.name, problem)).withFix(checkWriter)
		}
		return finding{}
	case contract.Missing:
		return fails(p.missing, f.Reason).withFix(
			fmt.Sprintf("check whether the pod of %s runs on this node, and its log: it writes %s when %s", writer, r.name, r.when))
	case contract.Stale:
		return fails(p.stale, f.Reason).withFix(checkWriter)
	case contract.WriterDead:
		return fails(p.dead, fmt.Sprintf("%s (written %s)", f.Reason, writtenAt(f.Stamp))).withFix(
			fmt.Sprintf("check why the pod of %s on this node ended: kubectl describe pod, kubectl logs --previous", writer))
	case "":
		return unknown(cause.Starting, fmt.Sprintf("%s has not been read yet", r.name), "")
	default:
		return fails(p.unreadable, fmt.Sprintf("%s: %s", r.name, f.Reason)).withFix(
			fmt.Sprintf("give this agent read permission; if the file is damaged, remove it and restart the pod of %s on this node, which writes it", writer))
	}
}

// otherDriver returns a problem if a fact was written for another driver version than the version
// that answers. Then the writer has to configure the node again. otherDriver returns "" while the
// driver is not asked.
func (o Observed) otherDriver(s contract.Stamp) string {
	if o.Err != nil || o.Node == nil || s.DriverVersion == "" || s.DriverVersion == o.Node.Driver.Version {
		return ""
	}
	return fmt.Sprintf("%s reported it for driver %s %s, but driver %s answers",
		oneLine(s.Writer, maxWord), oneLine(s.DriverVersion, maxWord), writtenAt(s), oneLine(o.Node.Driver.Version, maxWord))
}
