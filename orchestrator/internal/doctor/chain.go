package doctor

import (
	"slices"
	"strings"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// The links of the chain from the hardware to a program, in order. A link that does not hold breaks the links
// after it.
const (
	linkPolicy      = "policy"
	linkNode        = "node"
	linkPCI         = "PCI"
	linkDriver      = "driver"
	linkDevices     = "device nodes"
	linkToolkit     = "toolkit"
	linkRuntime     = "runtime"
	linkCDI         = "CDI"
	linkPlugin      = "plugin"
	linkKubelet     = "kubelet"
	linkAllocatable = "allocatable"
	linkScheduler   = "scheduler"
	linkContainer   = "container"
	linkCUDA        = "CUDA"
	// linkAside is for agents that GPU pods do not need.
	linkAside = "monitoring"
)

// chain returns the links of a node.
func chain() []string {
	return []string{
		linkPCI, linkDriver, linkDevices, linkToolkit, linkRuntime, linkCDI, linkPlugin, linkKubelet, linkAllocatable, linkScheduler,
		linkContainer, linkCUDA,
	}
}

// rank orders links. What concerns the whole cluster or the node itself comes first.
func rank(link string) int {
	return slices.Index(append(append([]string{linkPolicy, linkNode}, chain()...), linkAside), link)
}

// linkOf returns the link that a code is about.
func linkOf(code cause.Code) string {
	switch code { //nolint:exhaustive // the sections below have the others
	case cause.NodeNotReady, cause.NodeOptedOut, cause.NodePaused, cause.PoolsOverlap:
		return linkNode
	case cause.NoGPU, cause.OtherDriverBound:
		return linkPCI
	case cause.DeviceUnprepared:
		return linkDevices
	case cause.DeviceHang, cause.DeviceDriver, cause.DeviceClaimed, cause.AllGPUsFaulty:
		return linkDriver
	case cause.GPUsFaulty:
		return linkAllocatable
	case cause.RuntimeClassMissing, cause.RuntimeClassWrong:
		return linkRuntime
	case cause.NoGPURequested, cause.GPUsHidden, cause.SharedRequestTooLarge:
		return linkContainer
	}
	switch section := code.Row().Section; section {
	case "driver", "upgrade":
		return linkDriver
	case "mig":
		return linkDevices
	case "device":
		return linkPlugin
	case "license":
		return linkCUDA
	case "request":
		return linkScheduler
	case "policy":
		return linkPolicy
	case "node":
		return linkOfCondition(code)
	}
	return linkContainer
}

// linkOfCondition returns the link of a reason of the condition GPUReady.
func linkOfCondition(code cause.Code) string {
	for prefix, link := range map[string]string{"MIG": linkDevices, "Toolkit": linkToolkit, "Plugin": linkPlugin, "CUDA": linkCUDA} {
		if strings.HasPrefix(string(code), prefix) {
			return link
		}
	}
	return linkDriver
}

// linkOfAgent returns the link that an agent provides.
func linkOfAgent(agent string) string {
	switch {
	case strings.HasPrefix(agent, facts.FeatureDiscovery):
		return linkPCI
	case agent == facts.DriverLoader:
		return linkDriver
	case agent == facts.MIGManager:
		return linkDevices
	case agent == facts.ContainerToolkit:
		return linkToolkit
	case agent == facts.DevicePlugin, agent == facts.DRAPlugin, agent == "mps-control-daemon":
		return linkPlugin
	case strings.HasSuffix(agent, "validation"), agent == "validator":
		return linkCUDA
	}
	return linkAside
}

// informs reports whether a finding only describes the node: its GPUs work, nobody has to do something, and it ends by
// itself. Only a diagnosis of this node shows it.
func informs(f Finding) bool { return f.Severity == cause.Starts && !f.breaks && harmless(f.Code) }

// harmless reports whether GPUs of a node work although it has a cause: GPUs are reduced, or a change waits.
func harmless(code cause.Code) bool {
	switch code { //nolint:exhaustive // all others are harmful
	case cause.WaitingForUpgradeSlot, cause.UpgradeHalted, cause.RDMAUnavailable, cause.GDSUnavailable, cause.GDRCopyUnavailable,
		cause.VGPULicenseLost, cause.VGPULicenseMissing, cause.GPUIndexShifted, cause.NodeCordoned, cause.GPUsFaulty, cause.ConfigRefused,
		cause.DeviceNotOffered, cause.DeviceExcluded, cause.LeftBehind:
		return true
	}
	return false
}
