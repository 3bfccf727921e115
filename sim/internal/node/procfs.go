package node

import (
	"fmt"
	"path"
	"strings"

	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

// The folders of /proc that belong to the kernel driver.
const (
	procNvidia = "proc/driver/nvidia"
	procCaps   = "proc/driver/nvidia-caps"
	procGPUs   = procNvidia + "/gpus"
)

// moduleParams has the default parameters of the kernel module, in the order of
// /proc/driver/nvidia/params.
const moduleParams = `ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
InitializeSystemMemoryAllocations: 1
UsePageAttributeTable: 4294967295
EnableMSI: 1
EnablePCIeGen3: 0
MemoryPoolSize: 0
KMallocHeapMaxSize: 0
VMallocHeapMaxSize: 0
IgnoreMMIOCheck: 0
EnableStreamMemOPs: 0
EnableUserNUMAManagement: 1
NvLinkDisable: 0
RmProfilingAdminOnly: 1
PreserveVideoMemoryAllocations: 0
EnableS0ixPowerManagement: 0
S0ixPowerManagementVideoMemoryThreshold: 256
DynamicPowerManagement: 3
DynamicPowerManagementVideoMemoryThreshold: 200
RegisterPCIDriver: 1
EnablePCIERelaxedOrderingMode: 0
EnableResizableBar: 0
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
RmNvlinkBandwidthLinkCount: 0
EnableDbgBreakpoint: 0
OpenRmEnableUnsupportedGpus: 1
DmaRemapPeerMmio: 1
ImexChannelCount: 2048
CreateImexChannel0: 0
GrdmaPciTopoCheckOverride: 0
CoherentGPUMemoryMode: ""
RegistryDwords: ""
RegistryDwordsPerDevice: ""
RmMsg: ""
GpuBlacklist: ""
TemporaryFilePath: "/var/tmp"
ExcludedGpus: ""
`

// procfs returns the entries of the loaded driver below /proc/driver that do not belong to a GPU.
func procfs(driver state.Driver) []tree.Entry {
	params := moduleParams
	if driver.IMEXChannels > 0 {
		params = strings.Replace(params, "CreateImexChannel0: 0", "CreateImexChannel0: 1", 1)
	}
	return []tree.Entry{
		tree.File(procNvidia+"/version", "NVRM version: NVIDIA UNIX Open Kernel Module for "+arch.Kernel+"  "+driver.Version+
			"  Release Build  (gpu-sim@localhost)  Tue Sep 23 09:55:41 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n"),
		tree.File(procNvidia+"/params", params),
		tree.File(procNvidia+"/registry", "Binary: \"\"\n"),
		tree.Dir(procGPUs),
		tree.File(procNvidia+"/capabilities/mig/config", capability(capConfig, 0o400)),
		tree.File(procNvidia+"/capabilities/mig/monitor", capability(capMonitor, 0o444)),
		tree.File(procNvidia+"/capabilities/fabric-imex-mgmt", capability(capIMEX, 0o400)),
		tree.File(procCaps+"/mig-minors", migMinors()),
		tree.File(procCaps+"/nvlink-minors", "fabric-mgmt 0\n"),
		tree.File(procCaps+"/sys-minors", fmt.Sprintf("fabric-imex-mgmt %d\n", capIMEX)),
	}
}

// procfsGPU returns the entries of the loaded driver for one GPU.
func procfsGPU(driver string, g state.GPU) []tree.Entry {
	dir := path.Join(procGPUs, g.BusID)
	var info strings.Builder
	fmt.Fprintf(&info, "Model: \t\t %s\n", g.Name)
	fmt.Fprintf(&info, "IRQ:   \t\t %d\n", irq(g))
	fmt.Fprintf(&info, "GPU UUID: \t %s\n", g.UUID)
	fmt.Fprintf(&info, "Video BIOS: \t %s\n", g.VBIOS)
	fmt.Fprintf(&info, "Bus Type: \t PCIe\n")
	fmt.Fprintf(&info, "DMA Size: \t 47 bits\n")
	fmt.Fprintf(&info, "DMA Mask: \t 0x7fffffffffff\n")
	fmt.Fprintf(&info, "Bus Location: \t %s\n", g.BusID)
	fmt.Fprintf(&info, "Device Minor: \t %d\n", g.Minor)
	fmt.Fprintf(&info, "GPU Firmware: \t %s\n", driver)
	fmt.Fprintf(&info, "GPU Excluded:\t No\n")
	entries := []tree.Entry{
		tree.File(dir+"/information", info.String()),
		{Path: dir + "/registry", Mode: 0o644, Data: []byte("Binary: \"\"\n")},
		tree.File(dir+"/power", powerReport),
	}
	if g.MIGCapable {
		entries = append(entries, tree.Dir(procMIG(g)))
	}
	return entries
}

// procMIG returns the folder of a GPU's MIG instances.
func procMIG(g state.GPU) string { return fmt.Sprintf("%s/mig", procCapabilities(g)) }

func procCapabilities(g state.GPU) string {
	return fmt.Sprintf("%s/capabilities/gpu%d", procNvidia, g.Minor)
}

const powerReport = `Runtime D3 status:          Disabled by default
Video Memory:               Active

GPU Hardware Support:
 Video Memory Self Refresh: Not Supported
 Video Memory Off:          Supported

Power Limits:
 Default:                   N/A milliwatts
 GPU Boost:                 N/A milliwatts
`

// The minors of the capability nodes /dev/nvidia-caps/nvidia-cap<minor>. The driver numbers all
// possible capabilities, in this order: the NVLink fabric, MIG config and monitor, every possible
// instance, the system.
const (
	capConfig  = 1
	capMonitor = 2
	capGPUs    = 3
	capIMEX    = capGPUs + maxCapGPUs*capsPerGPU

	maxCapGPUs      = 32
	maxGPUInstances = 15
	maxComputeInsts = 8
	capsPerInstance = 1 + maxComputeInsts
	capsPerGPU      = maxGPUInstances * capsPerInstance
)

// migMinors lists the minors of the MIG capabilities: mode changes, monitoring, and every possible
// instance of each GPU.
func migMinors() string {
	var b strings.Builder
	fmt.Fprintf(&b, "config %d\nmonitor %d\n", capConfig, capMonitor)
	minor := capGPUs
	for gpu := range maxCapGPUs {
		for gi := range maxGPUInstances {
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", gpu, gi, minor)
			minor++
			for ci := range maxComputeInsts {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", gpu, gi, ci, minor)
				minor++
			}
		}
	}
	return b.String()
}

func capability(minor, mode int) string {
	return fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor, mode)
}
