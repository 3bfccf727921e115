package ready

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

const fixKernel = "look for NVRM and Xid in the kernel log (dmesg) of this node"

// driver checks the link Driver. NVML's answer decides, not a file.
func (o Observed) driver() finding {
	switch {
	case o.Hang != nil:
		return fails(cause.DriverHangs, o.Hang.Error()).withFix("")
	case o.Err != nil && !notAsked(o.Err):
		return o.driverError()
	case o.Node == nil && errors.Is(o.Err, contract.ErrClaimed):
		return unknown(cause.DriverClaimed, o.Err.Error(), "the agent reads the GPUs when the claim ends")
	case o.Node == nil:
		return unknown(cause.Starting, "the GPUs have not been read yet", "")
	case len(o.Node.GPUs) == 0:
		return fails(cause.NoGPU, fmt.Sprintf("driver %s answers and lists no GPU", o.Node.Driver.Version)).withFix(
			"check on this node whether the PCI bus has GPUs and the driver nvidia is bound to them (lspci -k -d 10de:), " +
				"whether this agent's container has their device nodes (/dev/nvidia0 and so on), and the kernel log (dmesg | grep NVRM)")
	}
	if n := len(o.Node.GPUs); n == len(o.unusable()) {
		return fails(cause.AllGPUsFaulty, fmt.Sprintf("0 of %s can be used: %s", count(n), join(o.unusable())))
	}
	return finding{}
}

// notAsked reports whether err is unrelated to the driver, because the driver was not asked.
func notAsked(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrClosed) || errors.Is(err, context.Canceled)
}

// driverError returns the finding for a driver that was asked and did not list its GPUs.
func (o Observed) driverError() finding {
	problem := o.Err.Error()
	switch {
	case errors.Is(o.Err, gpu.ErrNoDriver):
		return fails(cause.DriverNotFound, o.withFact(problem))
	case errors.Is(o.Err, gpu.ErrHangs):
		return fails(cause.DriverHangs, problem).withFix("")
	default:
		return fails(cause.DriverFails, problem)
	}
}

// withFact adds the fact driver-ready to the problem. The fact shows when the node had a driver.
// It is optional, because not every driver has such a file.
func (o Observed) withFact(problem string) string {
	f := o.Facts[contract.DriverReady]
	evidence := f.Reason
	switch {
	case f.State == contract.Valid && f.Stamp.Writer != "":
		evidence = fmt.Sprintf("%s reported a driver %s", f.Stamp.Writer, writtenAt(f.Stamp))
	case f.State == contract.Valid, f.State == contract.Missing, f.State == "":
		return problem
	}
	return oneLine(problem, maxProblem) + " (driver-ready: " + oneLine(evidence, maxFact) + ")"
}

// The limits of a problem and of the fact that withFact adds to it, in bytes.
const (
	maxProblem = 750
	maxFact    = 140
)

// writtenAt returns when a file was written, according to its writer.
func writtenAt(s contract.Stamp) string {
	if s.Time.IsZero() {
		return "at an unknown time"
	}
	return "at " + s.Time.UTC().Format(time.RFC3339)
}

// unusable returns a description of each GPU that is unhealthy, with the cause.
func (o Observed) unusable() []string {
	var out []string
	for i := range o.Node.GPUs {
		g := &o.Node.GPUs[i]
		why := o.Health.Of(g.UUID).Reason
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
		out = append(out, oneLine(fmt.Sprintf("GPU %d (%s): %s", g.Index, id, why), maxGPU))
	}
	return out
}

// The limits of the description of one GPU, and of all descriptions together, in bytes.
const (
	maxGPU  = 160
	maxGPUs = 500
)

// join returns as many descriptions as fit, and the number of the others.
func join(gpus []string) string {
	var b strings.Builder
	for i, t := range gpus {
		if b.Len()+len(t) > maxGPUs {
			fmt.Fprintf(&b, "; and %d more", len(gpus)-i)
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

// summary lists the links that hold, and the GPUs that do not work.
func (o Observed) summary(chain []Link) string {
	var parts, facts, broken []string
	for _, l := range chain {
		if l != Driver {
			facts = append(facts, string(l))
			continue
		}
		broken = o.unusable()
		parts = append(parts, answering(o.Node, len(broken)))
	}
	if len(facts) > 0 {
		parts = append(parts, "ready: "+strings.Join(facts, ", "))
	}
	if len(broken) > 0 {
		parts = append(parts, "not usable: "+join(broken)+"; "+fixKernel)
	}
	if moved := shifted(o.Node); moved != "" {
		parts = append(parts, moved)
	}
	return strings.Join(parts, "; ")
}

// shifted says which GPUs NVML has at other indices than the agents of the node use, and which indices
// named other GPUs before the last boot. It is empty if there are none.
func shifted(n *gpu.Node) string {
	var moved, renamed []string
	for i := 0; n != nil && i < len(n.GPUs); i++ {
		g := &n.GPUs[i]
		if g.Shifted {
			moved = append(moved, strconv.Itoa(g.Index))
		}
		if g.Earlier != nil {
			renamed = append(renamed, strconv.Itoa(g.Index))
		}
	}
	var parts []string
	if len(moved) > 0 {
		parts = append(parts, "NVML has other indices for these GPUs until the node reboots: "+strings.Join(moved, ", "))
	}
	if len(renamed) > 0 {
		parts = append(parts, "the indices of these GPUs have changed with a reboot: "+strings.Join(renamed, ", "))
	}
	return strings.Join(parts, "; ")
}

// answering returns how many GPUs are healthy, and the version of the driver.
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
