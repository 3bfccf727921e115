package ready

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

const (
	fixLoader = "where a pod brings the driver (of driver-loader, or of NVIDIA's nvidia-driver-daemonset), look at its log on this node"
	fixKernel = "look for NVRM and Xid in the kernel log (dmesg) of this node"
)

// driver checks the link that no file decides: NVML's own answer does.
func (o Observed) driver() finding {
	switch {
	case o.Hang != nil:
		return finding{False, DriverHangs, o.Hang.Error(), ""}
	case o.Err != nil && !unanswered(o.Err):
		return o.refused()
	case o.Node == nil && errors.Is(o.Err, contract.ErrClaimed):
		return finding{Unknown, DriverClaimed, o.Err.Error(), "the GPUs are looked at when the claim ends"}
	case o.Node == nil:
		return finding{Unknown, Starting, "the GPUs have not been looked at yet", ""}
	case len(o.Node.GPUs) == 0:
		return finding{
			False, NoGPU, fmt.Sprintf("driver %s answers and shows no GPU", o.Node.Driver.Version),
			"see on this node whether the bus has GPUs and the driver nvidia is bound to them (lspci -k -d 10de:), " +
				"whether this agent's container has their device nodes (/dev/nvidia0 and so on), and the kernel log (dmesg | grep NVRM)",
		}
	}
	if n := len(o.Node.GPUs); n == len(troubles(o.Node)) {
		return finding{False, AllGPUsFaulty, fmt.Sprintf("none of %s works: %s", count(n), list(troubles(o.Node))), fixKernel +
			", reset the GPUs or reboot"}
	}
	return finding{}
}

// unanswered reports whether an error says nothing about the driver, because it
// was not asked.
func unanswered(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrClosed) || errors.Is(err, context.Canceled)
}

// refused tells apart why a driver that was asked did not show its GPUs.
func (o Observed) refused() finding {
	what := o.Err.Error()
	switch {
	case errors.Is(o.Err, gpu.ErrNoDriver):
		return finding{False, DriverNotFound, o.withFile(what), fixLoader}
	case errors.Is(o.Err, gpu.ErrHangs):
		return finding{False, DriverHangs, what, ""}
	default:
		return finding{False, DriverFails, what, fixKernel}
	}
}

// withFile adds what the fact driver-ready says, which is evidence of when there
// was a driver. Not all drivers have such a file.
func (o Observed) withFile(what string) string {
	f := o.Facts[contract.DriverReady]
	says := f.Reason
	switch {
	case f.State == contract.Valid && f.Stamp.Writer != "":
		says = fmt.Sprintf("%s found one %s", f.Stamp.Writer, at(f.Stamp))
	case f.State == contract.Valid, f.State == contract.Missing, f.State == "":
		return what
	}
	return oneLine(what, maxCause) + " (driver-ready: " + oneLine(says, maxFile) + ")"
}

// The bounds of a cause that what a file says is added to, and of that, in bytes.
const (
	maxCause = 750
	maxFile  = 140
)

// at returns when a file was written, as its writer has it.
func at(s contract.Stamp) string {
	if s.Time.IsZero() {
		return "at an unknown time"
	}
	return "at " + s.Time.UTC().Format(time.RFC3339)
}

// troubles returns the GPUs of a node that do not work, and why, in words.
func troubles(n *gpu.Node) []string {
	var out []string
	for i := range n.GPUs {
		g := &n.GPUs[i]
		why := health.Asked(g.Recovery)
		if g.Fault != nil {
			why = g.Fault.Error()
		}
		if why == "" {
			continue
		}
		id := string(g.UUID)
		if id == "" {
			id = g.PCI.BusID
		}
		out = append(out, oneLine(fmt.Sprintf("GPU %d (%s): %s", g.Index, id, why), maxTrouble))
	}
	return out
}

// maxTrouble bounds what is said of one GPU, and maxTroubles of all, in bytes.
const (
	maxTrouble  = 160
	maxTroubles = 500
)

// list returns as many troubles as there is room for, and how many more there
// are.
func list(troubles []string) string {
	var b strings.Builder
	for i, t := range troubles {
		if b.Len()+len(t) > maxTroubles {
			fmt.Fprintf(&b, "; and %d more", len(troubles)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(t)
	}
	return b.String()
}

func count(gpus int) string {
	if gpus == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// summary tells what holds, and of which GPUs it does not.
func (o Observed) summary(chain []Link) string {
	var parts, facts, broken []string
	for _, l := range chain {
		if l != Driver {
			facts = append(facts, string(l))
			continue
		}
		broken = troubles(o.Node)
		parts = append(parts, answering(o.Node, len(broken)))
	}
	if len(facts) > 0 {
		parts = append(parts, "ready: "+strings.Join(facts, ", "))
	}
	if len(broken) > 0 {
		parts = append(parts, "faulty: "+list(broken)+"; "+fixKernel)
	}
	return strings.Join(parts, "; ")
}

// answering tells how many GPUs do, and with which driver. What an XID says of a
// GPU that answers is for who offers it: the condition is that of the node.
func answering(n *gpu.Node, broken int) string {
	with := "with driver " + oneLine(n.Driver.Version, maxWord)
	total := len(n.GPUs)
	switch {
	case broken > 0:
		return fmt.Sprintf("%d of %s answer %s", total-broken, count(total), with)
	case total == 1:
		return "1 GPU answers " + with
	default:
		return fmt.Sprintf("%d GPUs answer %s", total, with)
	}
}
