package loader

import (
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/text"
)

// NoGPUCause returns the cause for a node without a GPU.
func NoGPUCause() cause.Cause {
	return cause.Cause{
		Code: cause.NoGPU, Subject: "PCI bus", Text: "it has no NVIDIA GPU",
		Fix: "if the node should have a GPU, check that it is seated, or passed through to this virtual machine",
	}
}

// containerCause returns the cause for a driver that NVIDIA's driver container has loaded.
func containerCause(d Driver) cause.Cause {
	return cause.New(cause.DriverOfOtherContainer, "driver "+d.Version, "NVIDIA's driver container has loaded it and manages it: its file "+containerReady+" exists, or "+containerLock+" is locked")
}

// NoPayloadCause returns the cause for a driver that is not in the store. An empty version means any
// driver.
func (o Observation) NoPayloadCause(version string) cause.Cause {
	why := "it is not in the store of this node"
	if len(o.Payloads) > 0 {
		has := make([]string, 0, len(o.Payloads))
		for _, p := range o.Payloads {
			has = append(has, p.Version)
		}
		why += ", which has: " + strings.Join(has, ", ")
	}
	return cause.New(cause.DriverMissing, strings.TrimSpace("driver "+version), why)
}

// FlavourCause returns the cause for a driver whose modules do not support any of the GPUs.
func FlavourCause(d Driver, reasons []string) cause.Cause {
	return cause.New(cause.ModuleTypeUnsupported, "driver "+d.Version, "its "+string(d.Flavour)+" modules support none of the GPUs: "+strings.Join(reasons, "; "))
}

// InUse returns a cause for each process that prevents modules from being unloaded.
func InUse(used []string, by []holders.Holder) []cause.Cause {
	var out []cause.Cause
	for _, h := range by {
		out = append(out, cause.New(cause.ModuleInUse, text.Printable(h.String()), "it has "+text.Printable(strings.Join(h.Devices, ", "))+" open"))
	}
	if len(out) == 0 {
		out = append(out, cause.Cause{
			Code: cause.ModuleInUse, Subject: "modules " + strings.Join(used, ", "), Text: "the kernel or a process that this agent cannot see uses them",
			Fix: "run this agent with hostPID, so that it sees all processes; if no process uses them, reboot the node",
		})
	}
	return out
}

// rolledBack returns the cause of a rollback of the desired driver. The text in again says how a user
// retries this driver.
func (c Change) rolledBack(again string) cause.Cause {
	if c.Failed.Code == cause.UpgradeGivenUp {
		return *c.Failed
	}
	text := "it does not work on this node, and driver " + c.From.Version + " was loaded again"
	if c.From.Version == c.To.Version {
		text = "it does not work with the desired parameters or kernel module type, and was loaded again with the previous ones"
	}
	return cause.Cause{
		Code: c.Failed.Code, Subject: "driver " + c.To.Version, Text: text + ": " + c.Failed.Subject + ": " + c.Failed.Text,
		Fix: strings.TrimPrefix(c.Failed.Fix+"; then "+again+", or choose another driver", "; "),
	}
}
