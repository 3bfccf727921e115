package loader

import (
	"strings"

	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/text"
)

// Codes of causes for which the loader waits.
const (
	NoGPU              cause.Code = "NoGPU"
	HostNotLoaded      cause.Code = "HostDriverNotLoaded"
	OtherDriverBound   cause.Code = "OtherDriverBound"
	NoPayload          cause.Code = "DriverMissing"
	NoWayBack          cause.Code = "PreviousDriverMissing"
	FlavourUnsupported cause.Code = "ModuleTypeUnsupported"
	// OtherContainer is a driver of NVIDIA's driver container, which still runs.
	OtherContainer cause.Code = "DriverOfOtherContainer"
	// Upgrading is a node whose driver an upgrade changes now.
	Upgrading cause.Code = "UpgradeInProgress"
	// GivenUp is an upgrade that was given up after its driver was loaded.
	GivenUp cause.Code = "UpgradeGivenUp"
)

// NoGPUCause is the cause of a node without a GPU.
func NoGPUCause() cause.Cause {
	return cause.Cause{
		Code: NoGPU, Subject: "PCI bus", Text: "it has no GPU of NVIDIA",
		Fix: "nothing, if the node should have none; else check that the GPU is seated, and passed to this machine",
	}
}

// containerCause is the cause that NVIDIA's driver container has loaded a driver.
func containerCause(d Driver) cause.Cause {
	return cause.Cause{
		Code: OtherContainer, Subject: "driver " + d.Version, Text: "NVIDIA's driver container has loaded it, and looks after it: its file " + containerReady + " is there",
		Fix: "remove that container from this node (driver.enabled=false of NVIDIA's operator); if it does not run any more, remove the file",
	}
}

// NoPayloadCause is the cause that the store does not have a driver, "" for any.
func NoPayloadCause(version string) cause.Cause {
	return cause.Cause{
		Code: NoPayload, Subject: strings.TrimSpace("driver " + version), Text: "it is not in the store of this node",
		Fix: "set driver.image and driver.version, or import it: driver-loader import PATH",
	}
}

// FlavourCause is the cause that the modules of a driver are for none of the GPUs.
func FlavourCause(d Driver, reasons []string) cause.Cause {
	return cause.Cause{
		Code: FlavourUnsupported, Subject: "driver " + d.Version,
		Text: "its " + string(d.Flavour) + " modules are for none of the GPUs: " + strings.Join(reasons, "; "),
		Fix:  "set --kernel-module-type to the other type, or to auto, with a driver that has it",
	}
}

// InUse returns the causes why modules cannot be unloaded: the processes that hold them.
func InUse(used []string, by []holders.Holder) []cause.Cause {
	var out []cause.Cause
	for _, h := range by {
		out = append(out, cause.Cause{
			Code: kernel.InUse, Subject: text.Printable(h.String()), Text: "it has " + text.Printable(strings.Join(h.Devices, ", ")) + " open",
			Fix: "stop it, or wait until it ends",
		})
	}
	if len(out) == 0 {
		out = append(out, cause.Cause{
			Code: kernel.InUse, Subject: "modules " + strings.Join(used, ", "), Text: "the kernel or a process that this agent cannot see uses them",
			Fix: "run this agent with hostPID; on a node without such a process, reboot",
		})
	}
	return out
}
