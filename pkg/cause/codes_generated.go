// Code generated from causes.tsv by "go generate". DO NOT EDIT.

package cause

// The codes.
const (
	// NoGPU: The node has no GPU of NVIDIA, or its driver lists none.
	NoGPU Code = "NoGPU"
	// OtherDriverBound: Another driver, such as nouveau, nova_core or vfio-pci, has the GPU.
	OtherDriverBound Code = "OtherDriverBound"
	// HostDriverNotLoaded: A driver is installed on the host, and its module is not loaded.
	HostDriverNotLoaded Code = "HostDriverNotLoaded"
	// DriverMissing: The store does not have the driver to load.
	DriverMissing Code = "DriverMissing"
	// PreviousDriverMissing: The store does not have the previous driver, so it cannot be restored.
	PreviousDriverMissing Code = "PreviousDriverMissing"
	// ModuleTypeUnsupported: No GPU of the node works with the selected type of kernel modules, open or proprietary.
	ModuleTypeUnsupported Code = "ModuleTypeUnsupported"
	// PayloadMissing: A folder or file contains no driver.
	PayloadMissing Code = "PayloadMissing"
	// PayloadTruncated: An archive of a driver ends too early.
	PayloadTruncated Code = "PayloadTruncated"
	// PayloadCorrupt: A file of a driver differs from its digest, or is not an archive.
	PayloadCorrupt Code = "PayloadCorrupt"
	// PayloadRejected: An archive contains paths outside of its folder, or too much data.
	PayloadRejected Code = "PayloadRejected"
	// WrongArchitecture: A driver is for another processor architecture.
	WrongArchitecture Code = "WrongArchitecture"
	// StoreBusy: Another process writes to the store.
	StoreBusy Code = "StoreBusy"
	// NoSpace: A disk is full.
	NoSpace Code = "NoSpace"
	// FolderReadOnly: A folder that the agent writes to is on a read-only file system.
	FolderReadOnly Code = "FolderReadOnly"
	// KernelHeadersMissing: The headers of the running kernel are missing.
	KernelHeadersMissing Code = "KernelHeadersMissing"
	// KernelHeadersMismatch: The headers are for another kernel, or incomplete.
	KernelHeadersMismatch Code = "KernelHeadersMismatch"
	// KernelHeadersForeign: The programs in the headers do not run in the agent's image.
	KernelHeadersForeign Code = "KernelHeadersForeign"
	// RepositoryUnavailable: A repository does not answer, or its signature is wrong.
	RepositoryUnavailable Code = "RepositoryUnavailable"
	// CompilerMissing: The agent's image has no compiler for the kernel.
	CompilerMissing Code = "CompilerMissing"
	// BuildToolsMissing: The agent's image lacks a program that builds modules.
	BuildToolsMissing Code = "BuildToolsMissing"
	// ModuleSourcesMissing: The driver has no sources of this module type.
	ModuleSourcesMissing Code = "ModuleSourcesMissing"
	// ModuleBuildFailed: The compiler failed. The text has its last lines.
	ModuleBuildFailed Code = "ModuleBuildFailed"
	// ModuleBuildKilled: The kernel killed the compiler, usually because the memory was used up.
	ModuleBuildKilled Code = "ModuleBuildKilled"
	// ModuleCacheCorrupt: Modules in the store were damaged.
	ModuleCacheCorrupt Code = "ModuleCacheCorrupt"
	// SigningKeyInvalid: The key or certificate cannot sign modules.
	SigningKeyInvalid Code = "SigningKeyInvalid"
	// ModuleUnsigned: The kernel requires signed modules (Secure Boot, lockdown, module.sig_enforce), and a module has no signature.
	ModuleUnsigned Code = "ModuleUnsigned"
	// ModuleSignatureRejected: The kernel requires signed modules, and does not trust the key of a module.
	ModuleSignatureRejected Code = "ModuleSignatureRejected"
	// ModuleWrongMachine: A module is for another processor architecture.
	ModuleWrongMachine Code = "ModuleWrongMachine"
	// ModuleWrongRelease: A module is for another release of the kernel.
	ModuleWrongRelease Code = "ModuleWrongRelease"
	// ModuleWrongOptions: A module is for a kernel with other options.
	ModuleWrongOptions Code = "ModuleWrongOptions"
	// ModuleFormatInvalid: The kernel does not accept a file as a module.
	ModuleFormatInvalid Code = "ModuleFormatInvalid"
	// ModuleDependencyMissing: A module needs a symbol that neither the kernel nor a loaded module exports.
	ModuleDependencyMissing Code = "ModuleDependencyMissing"
	// ModuleSymbolMismatch: A module needs another version of a symbol than the kernel has.
	ModuleSymbolMismatch Code = "ModuleSymbolMismatch"
	// KernelModuleMissing: A module of the kernel is not installed.
	KernelModuleMissing Code = "KernelModuleMissing"
	// ModuleParameterUnknown: A module does not have a parameter.
	ModuleParameterUnknown Code = "ModuleParameterUnknown"
	// ModuleParameterInvalid: A parameter has a value that it cannot have.
	ModuleParameterInvalid Code = "ModuleParameterInvalid"
	// ModuleNotInDriver: The driver does not have a module that a flag requires.
	ModuleNotInDriver Code = "ModuleNotInDriver"
	// ModuleFoundNoDevice: A module found no device that it supports.
	ModuleFoundNoDevice Code = "ModuleFoundNoDevice"
	// ModuleInitFailed: The initialization of a module failed. The text has the lines of the kernel's log.
	ModuleInitFailed Code = "ModuleInitFailed"
	// ModuleNoMemory: The kernel has no memory for a module.
	ModuleNoMemory Code = "ModuleNoMemory"
	// ModuleInUse: A process or the kernel uses the driver that is to be replaced.
	ModuleInUse Code = "ModuleInUse"
	// ModuleAlreadyLoaded: A module of the same name, or with the same symbols, is loaded.
	ModuleAlreadyLoaded Code = "ModuleAlreadyLoaded"
	// ModuleNotLoaded: A module is not loaded.
	ModuleNotLoaded Code = "ModuleNotLoaded"
	// ModuleNotUnloadable: The kernel cannot unload a module.
	ModuleNotUnloadable Code = "ModuleNotUnloadable"
	// ModuleNotPermitted: The process may not load modules, or a policy of the kernel forbids it.
	ModuleNotPermitted Code = "ModuleNotPermitted"
	// MountNotShared: The driver root would be visible only in the agent's own container.
	MountNotShared Code = "MountNotShared"
	// FirmwarePathTaken: Another program has set the folder in which the kernel looks for firmware.
	FirmwarePathTaken Code = "FirmwarePathTaken"
	// FabricManagerMissing: The machine has NVLink switches, and the driver has no fabric manager for them.
	FabricManagerMissing Code = "FabricManagerMissing"
	// SubnetManagerMissing: The machine has switches of NVLink 5, and the driver has no subnet manager for them.
	SubnetManagerMissing Code = "SubnetManagerMissing"
	// DriverDaemonFailed: A daemon that the GPUs need to compute does not start.
	DriverDaemonFailed Code = "DriverDaemonFailed"
	// DriverDaemonStaysAlive: A daemon of the driver does not end.
	DriverDaemonStaysAlive Code = "DriverDaemonStaysAlive"
	// DriverOfOtherContainer: NVIDIA's driver container has loaded the driver, and still runs. This agent does not change the driver.
	DriverOfOtherContainer Code = "DriverOfOtherContainer"
	// DriverOfOtherProgram: A driver is loaded that this agent has neither built nor loaded. This agent does not change it.
	DriverOfOtherProgram Code = "DriverOfOtherProgram"
	// DriverDoesNotAnswer: The driver is loaded, and one of its devices cannot be opened.
	DriverDoesNotAnswer Code = "DriverDoesNotAnswer"
	// RDMAUnavailable: The module nvidia_peermem is not loaded, so network adapters cannot access the memory of GPUs. The driver works without it.
	RDMAUnavailable Code = "RDMAUnavailable"
	// GDSUnavailable: The module nvidia_fs is not loaded, so GPUDirect Storage does not work. The driver works without it.
	GDSUnavailable Code = "GDSUnavailable"
	// GDRCopyUnavailable: The module gdrdrv is not loaded, so GDRCopy does not work. The driver works without it.
	GDRCopyUnavailable Code = "GDRCopyUnavailable"
	// Failed: A step failed, and no other code describes the reason.
	Failed Code = "Failed"
	// Unexpected: The agent is in a state that it does not know.
	Unexpected Code = "Unexpected"
	// UpgradeInProgress: An upgrade of the driver is in progress. The commands and the loader wait for it.
	UpgradeInProgress Code = "UpgradeInProgress"
	// UpgradeGivenUp: An upgrade was cancelled after it had begun to change the driver, because another driver is desired or the permission to upgrade was removed.
	UpgradeGivenUp Code = "UpgradeGivenUp"
	// UpgradeHalted: Too many nodes failed with this driver, so no other node begins the upgrade.
	UpgradeHalted Code = "UpgradeHalted"
	// WaitingForUpgradeSlot: The node waits for its permission to begin, because other nodes come first.
	WaitingForUpgradeSlot Code = "WaitingForUpgradeSlot"
	// WaitingForPods: Pods that hold GPUs have not ended yet.
	WaitingForPods Code = "WaitingForPods"
	// PodsLeft: Pods that hold GPUs have not ended in time.
	PodsLeft Code = "PodsLeft"
	// PodsRefused: Pods that hold GPUs must not be evicted.
	PodsRefused Code = "PodsRefused"
	// UpgradeInterrupted: The agent ended three times in the same state of an upgrade.
	UpgradeInterrupted Code = "UpgradeInterrupted"
	// UpgradeFailed: An upgrade failed, and no other code describes the reason.
	UpgradeFailed Code = "UpgradeFailed"
	// TemporaryFailure: A step that does not change the driver failed. The agent tries it again.
	TemporaryFailure Code = "TemporaryFailure"
	// VGPULicenseLost: A virtual GPU has lost its license.
	VGPULicenseLost Code = "VGPULicenseLost"
	// VGPULicenseMissing: A virtual GPU has received no license since the driver was loaded.
	VGPULicenseMissing Code = "VGPULicenseMissing"
	// Starting: The node has not been checked yet.
	Starting Code = "Starting"
	// DriverClaimed: Another agent has exclusive use of the driver, for a MIG change or a driver upgrade, and the node has not been checked yet.
	DriverClaimed Code = "DriverClaimed"
	// DriverNotFound: The library or the kernel module is missing, their versions differ, or the agent has no access to the device nodes.
	DriverNotFound Code = "DriverNotFound"
	// DriverHangs: The driver does not answer. No container that uses a GPU can start.
	DriverHangs Code = "DriverHangs"
	// DriverFails: The driver answers with an error for the whole node.
	DriverFails Code = "DriverFails"
	// AllGPUsFaulty: The driver lists GPUs, and no GPU works.
	AllGPUsFaulty Code = "AllGPUsFaulty"
	// GPUsFaulty: Some GPUs of the node cannot be used.
	GPUsFaulty Code = "GPUsFaulty"
	// MIGNotReady: The file mig-ready does not exist: the MIG manager has not reported it yet.
	MIGNotReady Code = "MIGNotReady"
	// MIGStale: The file mig-ready is from before the last boot, or for another driver.
	MIGStale Code = "MIGStale"
	// MIGWriterDead: The process that wrote the file mig-ready has ended.
	MIGWriterDead Code = "MIGWriterDead"
	// MIGUnreadable: The file mig-ready cannot be read or parsed.
	MIGUnreadable Code = "MIGUnreadable"
	// ToolkitNotReady: The file toolkit-ready does not exist: the container toolkit has not reported it yet.
	ToolkitNotReady Code = "ToolkitNotReady"
	// ToolkitStale: The file toolkit-ready is from before the last boot, or for another driver.
	ToolkitStale Code = "ToolkitStale"
	// ToolkitWriterDead: The process that wrote the file toolkit-ready has ended.
	ToolkitWriterDead Code = "ToolkitWriterDead"
	// ToolkitUnreadable: The file toolkit-ready cannot be read or parsed.
	ToolkitUnreadable Code = "ToolkitUnreadable"
	// PluginNotReady: The file plugin-ready or dra-ready does not exist: the device plugin or DRA plugin has not reported it yet.
	PluginNotReady Code = "PluginNotReady"
	// PluginStale: The file plugin-ready or dra-ready is from before the last boot, or for another driver.
	PluginStale Code = "PluginStale"
	// PluginWriterDead: The process that wrote the file plugin-ready or dra-ready has ended.
	PluginWriterDead Code = "PluginWriterDead"
	// PluginUnreadable: The file plugin-ready or dra-ready cannot be read or parsed.
	PluginUnreadable Code = "PluginUnreadable"
	// CUDANotReady: The file cuda-ready does not exist: the validation has not reported it yet.
	CUDANotReady Code = "CUDANotReady"
	// CUDAStale: The file cuda-ready is from before the last boot, or for another driver.
	CUDAStale Code = "CUDAStale"
	// CUDAWriterDead: The process that wrote the file cuda-ready has ended.
	CUDAWriterDead Code = "CUDAWriterDead"
	// CUDAUnreadable: The file cuda-ready cannot be read or parsed.
	CUDAUnreadable Code = "CUDAUnreadable"
	// ImagePullBackOff: The image of a pod cannot be pulled. Also for ErrImagePull, RegistryUnavailable, ImageInspectError and SignatureValidationFailed.
	ImagePullBackOff Code = "ImagePullBackOff"
	// InvalidImageName: The name of an image is wrong.
	InvalidImageName Code = "InvalidImageName"
	// ErrImageNeverPull: The node does not have an image, and imagePullPolicy is Never.
	ErrImageNeverPull Code = "ErrImageNeverPull"
	// CrashLoopBackOff: A container ends again and again. Also for Error, Completed, StartError and ContainerCannotRun.
	CrashLoopBackOff Code = "CrashLoopBackOff"
	// OOMKilled: A container needed more memory than its limit.
	OOMKilled Code = "OOMKilled"
	// CreateContainerConfigError: A ConfigMap or Secret of a pod does not exist.
	CreateContainerConfigError Code = "CreateContainerConfigError"
	// CreateContainerError: The container engine rejects a container.
	CreateContainerError Code = "CreateContainerError"
	// RunContainerError: The container engine cannot start a container.
	RunContainerError Code = "RunContainerError"
	// CreatePodSandboxError: The container engine cannot make the sandbox of a pod.
	CreatePodSandboxError Code = "CreatePodSandboxError"
	// Unschedulable: No node can run a pod. Also for SchedulerError.
	Unschedulable Code = "Unschedulable"
	// Terminating: A pod is being deleted.
	Terminating Code = "Terminating"
	// PodFailed: A pod has failed.
	PodFailed Code = "PodFailed"
	// ContainerCreating: The containers of a pod have not started. Also for PodInitializing.
	ContainerCreating Code = "ContainerCreating"
	// NotReady: An agent runs and is not ready.
	NotReady Code = "NotReady"
	// NodeNotReady: The node itself is not Ready.
	NodeNotReady Code = "NodeNotReady"
	// PoolsOverlap: Two pools select the node, which stays in the first pool.
	PoolsOverlap Code = "PoolsOverlap"
	// DeviceXID: The driver reported an XID that makes the device unhealthy.
	DeviceXID Code = "xid"
	// DeviceLost: The GPU left the bus, or the MIG device is gone from its GPU.
	DeviceLost Code = "lost"
	// DeviceFault: NVML cannot read the device, or the plugin cannot find out whether another agent advertises it.
	DeviceFault Code = "fault"
	// DeviceRecovery: The driver asks for a reset of the GPU, a reboot of the node, or the end of programs.
	DeviceRecovery Code = "recovery"
	// DeviceMemory: The memory of the GPU has had an uncorrectable error, or a row or page of it waits to be replaced or could not be replaced.
	DeviceMemory Code = "memory"
	// DeviceFabric: The GPU could not join its NVLink fabric.
	DeviceFabric Code = "fabric"
	// DeviceHang: The driver does not return from a call.
	DeviceHang Code = "hang"
	// DeviceDriver: There is no driver, or it does not answer.
	DeviceDriver Code = "driver"
	// DeviceClaimed: Another agent has exclusive use of NVML.
	DeviceClaimed Code = "claimed"
	// DeviceUnprepared: A device node, CDI spec or file that containers need is missing.
	DeviceUnprepared Code = "unprepared"
	// DeviceMPS: The MPS control daemon of the device does not answer.
	DeviceMPS Code = "mps"
	// DeviceMIG: The MIG strategy has no resource for the device.
	DeviceMIG Code = "mig"
	// DeviceConfig: The config requests something that the device does not support.
	DeviceConfig Code = "config"
	// DeviceExcluded: The config excludes the device, or another agent advertises it.
	DeviceExcluded Code = "excluded"
	// DeviceIndex: The config uses an index that named another GPU before the last boot.
	DeviceIndex Code = "index"
	// GPUIndexShifted: NVML lists GPUs at other indices, because a GPU has come or gone. Agents use the indices from before until the node reboots.
	GPUIndexShifted Code = "GPUIndexShifted"
	// DeviceUnhealthy: Devices became unhealthy.
	DeviceUnhealthy Code = "DeviceUnhealthy"
	// DeviceNotOffered: A GPU or MIG device cannot be advertised.
	DeviceNotOffered Code = "DeviceNotOffered"
	// GPUsNotOffered: No GPU can be advertised in the current state: no driver, a driver that hangs, or a CDI spec that cannot be generated.
	GPUsNotOffered Code = "GPUsNotOffered"
	// ConfigRefused: A newer config was rejected. The last good one stays in effect.
	ConfigRefused Code = "ConfigRefused"
	// MIGConfigWaiting: A MIG config waits for pods or processes that use the GPUs, for the driver, or for the kubelet.
	MIGConfigWaiting Code = "MIGConfigWaiting"
	// MIGConfigRebooting: The agent reboots the node, so that a MIG config takes effect.
	MIGConfigRebooting Code = "MIGConfigRebooting"
	// MIGConfigFailed: A MIG config is not in effect on some GPUs. The message names them and the reason.
	MIGConfigFailed Code = "MIGConfigFailed"
	// ResourceUnknown: No node of the cluster has the resource that a pod requests.
	ResourceUnknown Code = "ResourceUnknown"
	// ResourceShared: The nodes share their GPUs under another name than a pod requests.
	ResourceShared Code = "ResourceShared"
	// MIGProfileMissing: No GPU of the cluster has the MIG devices that a pod requests.
	MIGProfileMissing Code = "MIGProfileMissing"
	// RequestTooLarge: No node has as many devices as a pod requests.
	RequestTooLarge Code = "RequestTooLarge"
	// SharedRequestTooLarge: A container requests several replicas of a shared GPU, and the config of the device plugin permits one.
	SharedRequestTooLarge Code = "SharedRequestTooLarge"
	// NodesNotSelected: No node with the resource matches the node selector and the node affinity of a pod.
	NodesNotSelected Code = "NodesNotSelected"
	// TaintNotTolerated: Each node that a pod could use has a taint that the pod does not tolerate.
	TaintNotTolerated Code = "TaintNotTolerated"
	// NodeCordoned: A node is cordoned, so no new pod starts on it.
	NodeCordoned Code = "NodeCordoned"
	// NodesNotUsable: The GPUs of the nodes that a pod could use are not ready.
	NodesNotUsable Code = "NodesNotUsable"
	// GPUsExhausted: Other pods hold the devices that a pod requests.
	GPUsExhausted Code = "GPUsExhausted"
	// ClaimMissing: A ResourceClaim that a pod needs does not exist.
	ClaimMissing Code = "ClaimMissing"
	// DeviceClassMissing: The DeviceClass of a claim does not exist.
	DeviceClassMissing Code = "DeviceClassMissing"
	// NoDeviceMatches: No device of the cluster matches a claim.
	NoDeviceMatches Code = "NoDeviceMatches"
	// SchedulingGated: A scheduling gate holds a pod back.
	SchedulingGated Code = "SchedulingGated"
	// QuotaExceeded: A ResourceQuota forbids a pod.
	QuotaExceeded Code = "QuotaExceeded"
	// RuntimeClassMissing: The RuntimeClass of a pod does not exist.
	RuntimeClassMissing Code = "RuntimeClassMissing"
	// RuntimeClassWrong: The RuntimeClass of a pod does not select the runtime that adds GPUs to containers.
	RuntimeClassWrong Code = "RuntimeClassWrong"
	// NoGPURequested: No container of a pod requests a GPU.
	NoGPURequested Code = "NoGPURequested"
	// GPUsHidden: The variable NVIDIA_VISIBLE_DEVICES of a container hides the GPUs.
	GPUsHidden Code = "GPUsHidden"
	// NodeOptedOut: A label keeps an agent from the node.
	NodeOptedOut Code = "NodeOptedOut"
	// NodePaused: A label pauses agents on the node, for a driver upgrade or a MIG change.
	NodePaused Code = "NodePaused"
	// AgentMissing: The node has no pod of an agent that GPU pods need.
	AgentMissing Code = "AgentMissing"
	// LeftBehind: The policy is deleted, but fields or pods remain on nodes that could not be reached.
	LeftBehind Code = "LeftBehind"
	// ValuesRefused: A value of a ClusterPolicy is rejected, so nothing is applied.
	ValuesRefused Code = "ValuesRefused"
	// OtherOperator: NVIDIA's GPU Operator has objects in the cluster, and would configure the same nodes.
	OtherOperator Code = "OtherOperator"
	// ReconcileFailed: The API server rejects an object of a stage, or another program manages the object.
	ReconcileFailed Code = "ReconcileFailed"
	// ValidationFailed: A validation of a stage has failed.
	ValidationFailed Code = "ValidationFailed"
	// NFDLabelsMissing: No node has a label of a GPU, and nothing looks for GPUs.
	NFDLabelsMissing Code = "NFDLabelsMissing"
)

// Row returns the row of a code. A code that the table does not have waits for something.
func (c Code) Row() Row {
	switch c {
	case NoGPU:
		return Row{c, "driver", Fails, "The node has no GPU of NVIDIA, or its driver lists none.", "check that the GPU is seated, passed to this machine, and bound to the driver nvidia (lspci -k -d 10de:); if the node should have no GPU, nothing"}
	case OtherDriverBound:
		return Row{c, "driver", Fails, "Another driver, such as nouveau, nova_core or vfio-pci, has the GPU.", "keep that driver from being loaded, and reboot the node"}
	case HostDriverNotLoaded:
		return Row{c, "driver", Fails, "A driver is installed on the host, and its module is not loaded.", "run on the host: modprobe nvidia; or remove the host's driver, so that this agent loads its own"}
	case DriverMissing:
		return Row{c, "driver", Fails, "The store does not have the driver to load.", "set driver.image and driver.version, or import it: driver-loader import PATH"}
	case PreviousDriverMissing:
		return Row{c, "driver", Fails, "The store does not have the previous driver, so it cannot be restored.", "import that driver, or choose another one"}
	case ModuleTypeUnsupported:
		return Row{c, "driver", Fails, "No GPU of the node works with the selected type of kernel modules, open or proprietary.", "set --kernel-module-type to the other type, or to auto, with a driver that has it"}
	case PayloadMissing:
		return Row{c, "driver", Fails, "A folder or file contains no driver.", "give NVIDIA's .run file, or a driver image"}
	case PayloadTruncated:
		return Row{c, "driver", Fails, "An archive of a driver ends too early.", "copy it again, and compare its checksum with NVIDIA's"}
	case PayloadCorrupt:
		return Row{c, "driver", Fails, "A file of a driver differs from its digest, or is not an archive.", "copy it again, and compare its checksum with NVIDIA's"}
	case PayloadRejected:
		return Row{c, "driver", Fails, "An archive contains paths outside of its folder, or too much data.", "copy it again, and compare its checksum with NVIDIA's"}
	case WrongArchitecture:
		return Row{c, "driver", Fails, "A driver is for another processor architecture.", "get the driver for the node's processor architecture"}
	case StoreBusy:
		return Row{c, "driver", Waits, "Another process writes to the store.", "wait for it, or end it"}
	case NoSpace:
		return Row{c, "driver", Fails, "A disk is full.", "free space, or put --store on a larger disk"}
	case FolderReadOnly:
		return Row{c, "driver", Fails, "A folder that the agent writes to is on a read-only file system.", "mount the folder read-write; if the kernel has made its file system read-only, check the disk: dmesg"}
	case KernelHeadersMissing:
		return Row{c, "driver", Fails, "The headers of the running kernel are missing.", "install the headers of the running kernel, or configure a repository that has them"}
	case KernelHeadersMismatch:
		return Row{c, "driver", Fails, "The headers are for another kernel, or incomplete.", "install the headers of the running kernel"}
	case KernelHeadersForeign:
		return Row{c, "driver", Fails, "The programs in the headers do not run in the agent's image.", "use the agent's image for the node's distribution: the programs in its headers do not run in this one"}
	case RepositoryUnavailable:
		return Row{c, "driver", Fails, "A repository does not answer, or its signature is wrong.", "correct driver.repoConfig, or let the node reach the repositories"}
	case CompilerMissing:
		return Row{c, "driver", Fails, "The agent's image has no compiler for the kernel.", "use the agent's image for the node's distribution"}
	case BuildToolsMissing:
		return Row{c, "driver", Fails, "The agent's image lacks a program that builds modules.", "use the agent's image for the node's distribution, or add the program to it"}
	case ModuleSourcesMissing:
		return Row{c, "driver", Fails, "The driver has no sources of this module type.", "import a driver with them, or choose the other kernel module type"}
	case ModuleBuildFailed:
		return Row{c, "driver", Fails, "The compiler failed. The text has its last lines.", "use a driver that is newer than the kernel, or modules of the other type"}
	case ModuleBuildKilled:
		return Row{c, "driver", Fails, "The kernel killed the compiler, usually because the memory was used up.", "give the agent more memory, or build with fewer jobs: --max-threads"}
	case ModuleCacheCorrupt:
		return Row{c, "driver", Waits, "Modules in the store were damaged.", "nothing: the agent removes them, and builds the modules again; check the disk if this happens often"}
	case SigningKeyInvalid:
		return Row{c, "driver", Fails, "The key or certificate cannot sign modules.", "give a private key and its certificate as PEM files"}
	case ModuleUnsigned:
		return Row{c, "driver", Fails, "The kernel requires signed modules (Secure Boot, lockdown, module.sig_enforce), and a module has no signature.", "sign the modules with your own key and enrol its certificate: mokutil --import CERTIFICATE.der, reboot, confirm; or use modules that the distribution signed"}
	case ModuleSignatureRejected:
		return Row{c, "driver", Fails, "The kernel requires signed modules, and does not trust the key of a module.", "sign the modules with your own key and enrol its certificate: mokutil --import CERTIFICATE.der, reboot, confirm; or use modules that the distribution signed"}
	case ModuleWrongMachine:
		return Row{c, "driver", Fails, "A module is for another processor architecture.", "get the driver for the node's processor architecture"}
	case ModuleWrongRelease:
		return Row{c, "driver", Fails, "A module is for another release of the kernel.", "build the module again for the running kernel"}
	case ModuleWrongOptions:
		return Row{c, "driver", Fails, "A module is for a kernel with other options.", "build the module again for the running kernel"}
	case ModuleFormatInvalid:
		return Row{c, "driver", Fails, "The kernel does not accept a file as a module.", "build the module again for the running kernel"}
	case ModuleDependencyMissing:
		return Row{c, "driver", Fails, "A module needs a symbol that neither the kernel nor a loaded module exports.", "load the modules that it depends on first"}
	case ModuleSymbolMismatch:
		return Row{c, "driver", Fails, "A module needs another version of a symbol than the kernel has.", "build the module again for the running kernel"}
	case KernelModuleMissing:
		return Row{c, "driver", Fails, "A module of the kernel is not installed.", "install the package with the rest of the kernel's modules, such as linux-modules-extra or kernel-modules"}
	case ModuleParameterUnknown:
		return Row{c, "driver", Fails, "A module does not have a parameter.", "correct the parameter: modinfo -p lists names and types"}
	case ModuleParameterInvalid:
		return Row{c, "driver", Fails, "A parameter has a value that it cannot have.", "correct the parameter: modinfo -p lists names and types"}
	case ModuleNotInDriver:
		return Row{c, "driver", Fails, "The driver does not have a module that a flag requires.", "turn off the feature that needs it, or use a driver that has it"}
	case ModuleFoundNoDevice:
		return Row{c, "driver", Fails, "A module found no device that it supports.", "check that the node has a GPU that this version and type of the driver supports, and that no other driver is bound to it"}
	case ModuleInitFailed:
		return Row{c, "driver", Fails, "The initialization of a module failed. The text has the lines of the kernel's log.", "see the kernel's log: dmesg"}
	case ModuleNoMemory:
		return Row{c, "driver", Fails, "The kernel has no memory for a module.", "free memory of the node, or reboot it"}
	case ModuleInUse:
		return Row{c, "driver", Waits, "A process or the kernel uses the driver that is to be replaced.", "stop what uses the driver, or wait until it ends"}
	case ModuleAlreadyLoaded:
		return Row{c, "driver", Fails, "A module of the same name, or with the same symbols, is loaded.", "unload that module first"}
	case ModuleNotLoaded:
		return Row{c, "driver", Fails, "A module is not loaded.", "load it, unless it must stay unloaded"}
	case ModuleNotUnloadable:
		return Row{c, "driver", Fails, "The kernel cannot unload a module.", "reboot the node"}
	case ModuleNotPermitted:
		return Row{c, "driver", Fails, "The process may not load modules, or a policy of the kernel forbids it.", "run it as root with the capability CAP_SYS_MODULE, as a privileged container"}
	case MountNotShared:
		return Row{c, "driver", Fails, "The driver root would be visible only in the agent's own container.", "mount the host's folder with mountPropagation: Bidirectional"}
	case FirmwarePathTaken:
		return Row{c, "driver", Fails, "Another program has set the folder in which the kernel looks for firmware.", "remove the folder from the kernel's command line, or from the config of the program that sets it; or put NVIDIA's firmware there"}
	case FabricManagerMissing:
		return Row{c, "driver", Fails, "The machine has NVLink switches, and the driver has no fabric manager for them.", "use a driver image that has the fabric manager of this driver version"}
	case SubnetManagerMissing:
		return Row{c, "driver", Fails, "The machine has switches of NVLink 5, and the driver has no subnet manager for them.", "use a driver image that has nvlsm and the fabric manager of this driver version"}
	case DriverDaemonFailed:
		return Row{c, "driver", Fails, "A daemon that the GPUs need to compute does not start.", "read its log in /var/log, and check that it has the version of the driver"}
	case DriverDaemonStaysAlive:
		return Row{c, "driver", Fails, "A daemon of the driver does not end.", "end it: kill PID"}
	case DriverOfOtherContainer:
		return Row{c, "driver", Waits, "NVIDIA's driver container has loaded the driver, and still runs. This agent does not change the driver.", "remove that container from this node (driver.enabled=false of NVIDIA's operator); if it does not run any more, remove the file that the text names"}
	case DriverOfOtherProgram:
		return Row{c, "driver", Waits, "A driver is loaded that this agent has neither built nor loaded. This agent does not change it.", "unload it (modprobe -r nvidia) and remove the program that loads it; or set --replace-foreign-driver (driver.replaceForeignDriver) to replace it"}
	case DriverDoesNotAnswer:
		return Row{c, "driver", Fails, "The driver is loaded, and one of its devices cannot be opened.", "look at the kernel's log: dmesg | grep -i NVRM; a GPU of Blackwell and later needs the open modules"}
	case RDMAUnavailable:
		return Row{c, "driver", Fails, "The module nvidia_peermem is not loaded, so network adapters cannot access the memory of GPUs. The driver works without it.", "deploy the driver of the network adapters (MOFED or DOCA) as a container on the node: the agent builds nvidia_peermem with its headers; or set driver.rdma.enabled=false"}
	case GDSUnavailable:
		return Row{c, "driver", Fails, "The module nvidia_fs is not loaded, so GPUDirect Storage does not work. The driver works without it.", "set driver.gds to NVIDIA's image of nvidia-fs, or driver.gds.enabled=false"}
	case GDRCopyUnavailable:
		return Row{c, "driver", Fails, "The module gdrdrv is not loaded, so GDRCopy does not work. The driver works without it.", "set driver.gdrcopy to NVIDIA's image of gdrdrv, or driver.gdrcopy.enabled=false"}
	case Failed:
		return Row{c, "driver", Fails, "A step failed, and no other code describes the reason.", "read the text and the agent's log"}
	case Unexpected:
		return Row{c, "driver", Fails, "The agent is in a state that it does not know.", "report this as a bug, with the log"}
	case UpgradeInProgress:
		return Row{c, "upgrade", Waits, "An upgrade of the driver is in progress. The commands and the loader wait for it.", "read the state and the cause of the upgrade on the Node"}
	case UpgradeGivenUp:
		return Row{c, "upgrade", Waits, "An upgrade was cancelled after it had begun to change the driver, because another driver is desired or the permission to upgrade was removed.", "nothing: the upgrade to the desired driver follows"}
	case UpgradeHalted:
		return Row{c, "upgrade", Fails, "Too many nodes failed with this driver, so no other node begins the upgrade.", "read the cause on the nodes that failed; to try again, set another driver version, or annotate one of them with nvidia.com/gpu-driver-upgrade-requested=true"}
	case WaitingForUpgradeSlot:
		return Row{c, "upgrade", Waits, "The node waits for its permission to begin, because other nodes come first.", "nothing, unless this lasts: repair or delete the nodes that the text names, and read the log of the Deployment that grants upgrades"}
	case WaitingForPods:
		return Row{c, "upgrade", Waits, "Pods that hold GPUs have not ended yet.", "nothing, unless this lasts: then delete the pods that the text names"}
	case PodsLeft:
		return Row{c, "upgrade", Fails, "Pods that hold GPUs have not ended in time.", "delete the pods that the text names, or raise the time limit in upgradePolicy"}
	case PodsRefused:
		return Row{c, "upgrade", Fails, "Pods that hold GPUs must not be evicted.", "delete the pods that the text names, or set force or deleteEmptyDir in upgradePolicy"}
	case UpgradeInterrupted:
		return Row{c, "upgrade", Fails, "The agent ended three times in the same state of an upgrade.", "read the log of the agent's previous container, and the kernel log"}
	case UpgradeFailed:
		return Row{c, "upgrade", Fails, "An upgrade failed, and no other code describes the reason.", "read the text and the agent's log"}
	case TemporaryFailure:
		return Row{c, "upgrade", Waits, "A step that does not change the driver failed. The agent tries it again.", "nothing, unless this lasts: then check that the node can reach the API server"}
	case VGPULicenseLost:
		return Row{c, "license", Fails, "A virtual GPU has lost its license.", "check that the license server answers, and that it has a license left"}
	case VGPULicenseMissing:
		return Row{c, "license", Fails, "A virtual GPU has received no license since the driver was loaded.", "check the configuration and the token of the license client, and that the license server answers"}
	case Starting:
		return Row{c, "node", Waits, "The node has not been checked yet.", "nothing, unless this lasts: then see the log of feature discovery on the node"}
	case DriverClaimed:
		return Row{c, "node", Waits, "Another agent has exclusive use of the driver, for a MIG change or a driver upgrade, and the node has not been checked yet.", "nothing, unless the part that the message names hangs: see its log"}
	case DriverNotFound:
		return Row{c, "node", Waits, "The library or the kernel module is missing, their versions differ, or the agent has no access to the device nodes.", "install NVIDIA's driver on the node, or read the log of the pod that does (driver-loader, or NVIDIA's nvidia-driver-daemonset); nouveau must not hold the GPU (lspci -k -d 10de:), and the modules i2c_core and ipmi_msghandler must be there (lsmod)"}
	case DriverHangs:
		return Row{c, "node", Fails, "The driver does not answer. No container that uses a GPU can start.", "look for NVRM in dmesg of the node, drain it, and reset the GPU or reboot"}
	case DriverFails:
		return Row{c, "node", Fails, "The driver answers with an error for the whole node.", "read the message, and look for NVRM and Xid in dmesg of the node; if the driver itself fails, reset the GPUs or reboot"}
	case AllGPUsFaulty:
		return Row{c, "node", Fails, "The driver lists GPUs, and no GPU works.", "look for NVRM and Xid in dmesg of the node; reset the GPUs or reboot"}
	case GPUsFaulty:
		return Row{c, "node", Fails, "Some GPUs of the node cannot be used.", "kubectl describe node NODE shows the Events DeviceUnhealthy with the cause; reset the GPUs or reboot the node"}
	case MIGNotReady:
		return Row{c, "node", Waits, "The file mig-ready does not exist: the MIG manager has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case MIGStale:
		return Row{c, "node", Waits, "The file mig-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case MIGWriterDead:
		return Row{c, "node", Waits, "The process that wrote the file mig-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case MIGUnreadable:
		return Row{c, "node", Fails, "The file mig-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"}
	case ToolkitNotReady:
		return Row{c, "node", Waits, "The file toolkit-ready does not exist: the container toolkit has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case ToolkitStale:
		return Row{c, "node", Waits, "The file toolkit-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case ToolkitWriterDead:
		return Row{c, "node", Waits, "The process that wrote the file toolkit-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case ToolkitUnreadable:
		return Row{c, "node", Fails, "The file toolkit-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"}
	case PluginNotReady:
		return Row{c, "node", Waits, "The file plugin-ready or dra-ready does not exist: the device plugin or DRA plugin has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case PluginStale:
		return Row{c, "node", Waits, "The file plugin-ready or dra-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case PluginWriterDead:
		return Row{c, "node", Waits, "The process that wrote the file plugin-ready or dra-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case PluginUnreadable:
		return Row{c, "node", Fails, "The file plugin-ready or dra-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"}
	case CUDANotReady:
		return Row{c, "node", Waits, "The file cuda-ready does not exist: the validation has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case CUDAStale:
		return Row{c, "node", Waits, "The file cuda-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case CUDAWriterDead:
		return Row{c, "node", Waits, "The process that wrote the file cuda-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"}
	case CUDAUnreadable:
		return Row{c, "node", Fails, "The file cuda-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"}
	case ImagePullBackOff:
		return Row{c, "pod", Fails, "The image of a pod cannot be pulled. Also for ErrImagePull, RegistryUnavailable, ImageInspectError and SignatureValidationFailed.", "correct repository, image and version in the values, or imagePullSecrets, or let the node reach the registry"}
	case InvalidImageName:
		return Row{c, "pod", Fails, "The name of an image is wrong.", "correct repository, image, version and imagePullPolicy in the values"}
	case ErrImageNeverPull:
		return Row{c, "pod", Fails, "The node does not have an image, and imagePullPolicy is Never.", "correct repository, image, version and imagePullPolicy in the values"}
	case CrashLoopBackOff:
		return Row{c, "pod", Fails, "A container ends again and again. Also for Error, Completed, StartError and ContainerCannotRun.", "kubectl logs --previous -n NAMESPACE POD has the error"}
	case OOMKilled:
		return Row{c, "pod", Fails, "A container needed more memory than its limit.", "raise resources.limits.memory of the agent in the values"}
	case CreateContainerConfigError:
		return Row{c, "pod", Fails, "A ConfigMap or Secret of a pod does not exist.", "create the ConfigMap or Secret that the message names in namespace NAMESPACE, or correct the values"}
	case CreateContainerError:
		return Row{c, "pod", Fails, "The container engine rejects a container.", "look at the log of the container engine on the node (journalctl -u containerd, crio or docker)"}
	case RunContainerError:
		return Row{c, "pod", Fails, "The container engine cannot start a container.", "look at the log of the container engine on the node (journalctl -u containerd, crio or docker)"}
	case CreatePodSandboxError:
		return Row{c, "pod", Fails, "The container engine cannot make the sandbox of a pod.", "look at the log of the container engine on the node (journalctl -u containerd, crio or docker)"}
	case Unschedulable:
		return Row{c, "pod", Fails, "No node can run a pod. Also for SchedulerError.", "free the resource that the message names on the node, or tolerate its taint (tolerations in the values)"}
	case Terminating:
		return Row{c, "pod", Starts, "A pod is being deleted.", "kubectl describe pod -n NAMESPACE POD: the node does not confirm that its containers have ended"}
	case PodFailed:
		return Row{c, "pod", Fails, "A pod has failed.", "kubectl describe pod -n NAMESPACE POD has the reason; the DaemonSet replaces the pod"}
	case ContainerCreating:
		return Row{c, "pod", Starts, "The containers of a pod have not started. Also for PodInitializing.", "kubectl describe pod -n NAMESPACE POD: its events name the volume, RuntimeClass, network or image that is missing"}
	case NotReady:
		return Row{c, "pod", Waits, "An agent runs and is not ready.", "kubectl logs -n NAMESPACE POD says what the agent waits for"}
	case NodeNotReady:
		return Row{c, "pod", Waits, "The node itself is not Ready.", "kubectl describe node NODE shows whether its kubelet, network or machine fails"}
	case PoolsOverlap:
		return Row{c, "pod", Fails, "Two pools select the node, which stays in the first pool.", "change the labels of the node, or the nodeSelector of one of the pools"}
	case DeviceXID:
		return Row{c, "device", Fails, "The driver reported an XID that makes the device unhealthy.", "reset the GPU if the Event DeviceUnhealthy or the plugin's log says so; NVIDIA's catalog describes the XID"}
	case DeviceLost:
		return Row{c, "device", Fails, "The GPU left the bus, or the MIG device is gone from its GPU.", "look for NVRM and Xid in dmesg of the node; reset the GPU or reboot"}
	case DeviceFault:
		return Row{c, "device", Fails, "NVML cannot read the device, or the plugin cannot find out whether another agent advertises it.", "read the Event or the plugin's log; if it names NVML, look for NVRM and Xid in dmesg of the node, and reset the GPU or reboot"}
	case DeviceRecovery:
		return Row{c, "device", Fails, "The driver asks for a reset of the GPU, a reboot of the node, or the end of programs.", "do what the Event DeviceUnhealthy or the plugin's log says: let programs end, reset the GPU, or reboot the node"}
	case DeviceMemory:
		return Row{c, "device", Fails, "The memory of the GPU has had an uncorrectable error, or a row or page of it waits to be replaced or could not be replaced.", "reset the GPU after its programs have ended; replace the GPU if the Event DeviceUnhealthy or the plugin's log says so"}
	case DeviceFabric:
		return Row{c, "device", Fails, "The GPU could not join its NVLink fabric.", "see the log of the fabric manager, then reset the GPU"}
	case DeviceHang:
		return Row{c, "device", Fails, "The driver does not return from a call.", "look for NVRM in dmesg of the node, drain it, and reset the GPU or reboot"}
	case DeviceDriver:
		return Row{c, "device", Waits, "There is no driver, or it does not answer.", "install NVIDIA's driver on the node, or enable the agent that installs it"}
	case DeviceClaimed:
		return Row{c, "device", Waits, "Another agent has exclusive use of NVML.", "nothing, unless the agent that the text names hangs"}
	case DeviceUnprepared:
		return Row{c, "device", Waits, "A device node, CDI spec or file that containers need is missing.", "make the file that the Event or the plugin's log names, or let the driver's installer make it"}
	case DeviceMPS:
		return Row{c, "device", Waits, "The MPS control daemon of the device does not answer.", "see the log of mps-control-daemon on this node"}
	case DeviceMIG:
		return Row{c, "device", Fails, "The MIG strategy has no resource for the device.", "set the MIG strategy mixed, or give all GPUs of the node one layout"}
	case DeviceConfig:
		return Row{c, "device", Fails, "The config requests something that the device does not support.", "correct the config as the Event DeviceNotOffered or the plugin's log says"}
	case DeviceExcluded:
		return Row{c, "device", Waits, "The config excludes the device, or another agent advertises it.", "nothing, if this is intended; otherwise correct the config"}
	case DeviceIndex:
		return Row{c, "device", Fails, "The config uses an index that named another GPU before the last boot.", "name GPUs by UUID in the config; if the config means the GPUs that the indices name now, remove the file gpu-index in /var/lib/outrigger/index"}
	case GPUIndexShifted:
		return Row{c, "device", Starts, "NVML lists GPUs at other indices, because a GPU has come or gone. Agents use the indices from before until the node reboots.", "nothing; programs that ask NVML should use UUIDs"}
	case DeviceUnhealthy:
		return Row{c, "device", Fails, "Devices became unhealthy.", "do what the message says: it names the device, the reason and the fix"}
	case DeviceNotOffered:
		return Row{c, "device", Fails, "A GPU or MIG device cannot be advertised.", "do what the message says: it names the device, the reason and the fix"}
	case GPUsNotOffered:
		return Row{c, "device", Waits, "No GPU can be advertised in the current state: no driver, a driver that hangs, or a CDI spec that cannot be generated.", "do what the message says: it names the reason and the fix"}
	case ConfigRefused:
		return Row{c, "device", Fails, "A newer config was rejected. The last good one stays in effect.", "correct every error that the message lists"}
	case MIGConfigWaiting:
		return Row{c, "mig", Waits, "A MIG config waits for pods or processes that use the GPUs, for the driver, or for the kubelet.", "delete the pods or end the processes that the message names, or wait for them"}
	case MIGConfigRebooting:
		return Row{c, "mig", Waits, "The agent reboots the node, so that a MIG config takes effect.", "nothing: the agent reboots the node"}
	case MIGConfigFailed:
		return Row{c, "mig", Fails, "A MIG config is not in effect on some GPUs. The message names them and the reason.", "do what the message says; the agent tries again"}
	case ResourceUnknown:
		return Row{c, "request", Fails, "No node of the cluster has the resource that a pod requests.", "request a resource that the text lists"}
	case ResourceShared:
		return Row{c, "request", Fails, "The nodes share their GPUs under another name than a pod requests.", "request the shared resource that the text names, or turn off renameByDefault in the config of the device plugin"}
	case MIGProfileMissing:
		return Row{c, "request", Fails, "No GPU of the cluster has the MIG devices that a pod requests.", "request a MIG profile that the text lists, or select a config with these devices: the label nvidia.com/mig.config of a node"}
	case RequestTooLarge:
		return Row{c, "request", Fails, "No node has as many devices as a pod requests.", "request fewer devices in each pod, or add a larger node"}
	case SharedRequestTooLarge:
		return Row{c, "request", Fails, "A container requests several replicas of a shared GPU, and the config of the device plugin permits one.", "request one replica, or set failRequestsGreaterThanOne to false in the config of the device plugin"}
	case NodesNotSelected:
		return Row{c, "request", Fails, "No node with the resource matches the node selector and the node affinity of a pod.", "correct nodeSelector or affinity of the pod, or the labels of a node"}
	case TaintNotTolerated:
		return Row{c, "request", Fails, "Each node that a pod could use has a taint that the pod does not tolerate.", "add the toleration that the text names to the pod, or remove the taint"}
	case NodeCordoned:
		return Row{c, "request", Waits, "A node is cordoned, so no new pod starts on it.", "kubectl uncordon NODE, unless an upgrade, a MIG change or a person still needs the cordon"}
	case NodesNotUsable:
		return Row{c, "request", Waits, "The GPUs of the nodes that a pod could use are not ready.", "repair the nodes: kubectl outrigger doctor NODE has the cause"}
	case GPUsExhausted:
		return Row{c, "request", Waits, "Other pods hold the devices that a pod requests.", "wait until one of the pods that the text names ends, delete it, or add a node"}
	case ClaimMissing:
		return Row{c, "request", Fails, "A ResourceClaim that a pod needs does not exist.", "create the ResourceClaim or the ResourceClaimTemplate that the text names, or correct resourceClaims of the pod"}
	case DeviceClassMissing:
		return Row{c, "request", Fails, "The DeviceClass of a claim does not exist.", "correct deviceClassName of the claim, or install the DRA plugin, whose chart has the DeviceClasses gpu.nvidia.com and mig.nvidia.com"}
	case NoDeviceMatches:
		return Row{c, "request", Fails, "No device of the cluster matches a claim.", "correct the selectors of the claim that the text names, or find out why the DRA plugin publishes no such device: kubectl outrigger doctor"}
	case SchedulingGated:
		return Row{c, "request", Waits, "A scheduling gate holds a pod back.", "see the controller that the gate names, such as the queue of a batch system"}
	case QuotaExceeded:
		return Row{c, "request", Fails, "A ResourceQuota forbids a pod.", "raise the quota, or delete pods that use it up"}
	case RuntimeClassMissing:
		return Row{c, "request", Fails, "The RuntimeClass of a pod does not exist.", "correct runtimeClassName of the pod, or enable the container toolkit, whose chart has the RuntimeClass nvidia"}
	case RuntimeClassWrong:
		return Row{c, "request", Fails, "The RuntimeClass of a pod does not select the runtime that adds GPUs to containers.", "set runtimeClassName of the pod to nvidia, or remove it if the nodes use CDI or have that runtime as default"}
	case NoGPURequested:
		return Row{c, "request", Fails, "No container of a pod requests a GPU.", "request a resource such as nvidia.com/gpu in resources.limits of the container"}
	case GPUsHidden:
		return Row{c, "request", Fails, "The variable NVIDIA_VISIBLE_DEVICES of a container hides the GPUs.", "remove the variable from the pod: the device plugin sets it"}
	case NodeOptedOut:
		return Row{c, "request", Fails, "A label keeps an agent from the node.", "remove the label that the text names, if GPU pods should run on the node"}
	case NodePaused:
		return Row{c, "request", Waits, "A label pauses agents on the node, for a driver upgrade or a MIG change.", "nothing, unless no upgrade or MIG change is in progress: then set the label that the text names to true"}
	case AgentMissing:
		return Row{c, "request", Fails, "The node has no pod of an agent that GPU pods need.", "correct nodeSelector, tolerations and affinity of the agent in the values, or the labels and taints of the node"}
	case LeftBehind:
		return Row{c, "policy", Fails, "The policy is deleted, but fields or pods remain on nodes that could not be reached.", "orchestrator delete --verify lists them"}
	case ValuesRefused:
		return Row{c, "policy", Fails, "A value of a ClusterPolicy is rejected, so nothing is applied.", "correct the value that the message names"}
	case OtherOperator:
		return Row{c, "policy", Fails, "NVIDIA's GPU Operator has objects in the cluster, and would configure the same nodes.", "see docs/from-nvidia-gpu-operator.md"}
	case ReconcileFailed:
		return Row{c, "policy", Fails, "The API server rejects an object of a stage, or another program manages the object.", "do what the message says: it names the object and the program"}
	case ValidationFailed:
		return Row{c, "policy", Fails, "A validation of a stage has failed.", "do what the message says: it names the node and the reason"}
	case NFDLabelsMissing:
		return Row{c, "policy", Fails, "No node has a label of a GPU, and nothing looks for GPUs.", "enable feature discovery with presence, or install Node Feature Discovery"}
	}
	return Row{Code: c, Severity: Waits}
}
