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
	// PreviousDriverMissing: The store does not have the driver to go back to.
	PreviousDriverMissing Code = "PreviousDriverMissing"
	// ModuleTypeUnsupported: The open or proprietary modules are for none of the GPUs.
	ModuleTypeUnsupported Code = "ModuleTypeUnsupported"
	// PayloadMissing: A folder or file has no driver in it.
	PayloadMissing Code = "PayloadMissing"
	// PayloadTruncated: An archive of a driver ends too early.
	PayloadTruncated Code = "PayloadTruncated"
	// PayloadCorrupt: A file of a driver differs from its digest, or is no archive.
	PayloadCorrupt Code = "PayloadCorrupt"
	// PayloadRejected: An archive has files outside of its folder, or has no bounds.
	PayloadRejected Code = "PayloadRejected"
	// WrongArchitecture: A driver is for other processors.
	WrongArchitecture Code = "WrongArchitecture"
	// StoreBusy: Another process writes to the store.
	StoreBusy Code = "StoreBusy"
	// NoSpace: A disk is full.
	NoSpace Code = "NoSpace"
	// KernelHeadersMissing: The headers of the kernel are not there.
	KernelHeadersMissing Code = "KernelHeadersMissing"
	// KernelHeadersMismatch: The headers are of another kernel, or not complete.
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
	// ModuleBuildKilled: The kernel ended the compiler, usually for its memory.
	ModuleBuildKilled Code = "ModuleBuildKilled"
	// ModuleCacheCorrupt: Modules in the store were damaged.
	ModuleCacheCorrupt Code = "ModuleCacheCorrupt"
	// SigningKeyInvalid: The key or certificate cannot sign modules.
	SigningKeyInvalid Code = "SigningKeyInvalid"
	// ModuleUnsigned: The kernel demands signatures (Secure Boot, lockdown, module.sig_enforce), and a module has none.
	ModuleUnsigned Code = "ModuleUnsigned"
	// ModuleSignatureRejected: The kernel demands signatures, and does not know the key of a module.
	ModuleSignatureRejected Code = "ModuleSignatureRejected"
	// ModuleWrongMachine: A module is for another processor.
	ModuleWrongMachine Code = "ModuleWrongMachine"
	// ModuleWrongRelease: A module is for another release of the kernel.
	ModuleWrongRelease Code = "ModuleWrongRelease"
	// ModuleWrongOptions: A module is for a kernel with other options.
	ModuleWrongOptions Code = "ModuleWrongOptions"
	// ModuleFormatInvalid: The kernel does not take a file as a module.
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
	// ModuleNotInDriver: The driver does not have a module that a flag asks for.
	ModuleNotInDriver Code = "ModuleNotInDriver"
	// ModuleFoundNoDevice: A module found no device that it supports.
	ModuleFoundNoDevice Code = "ModuleFoundNoDevice"
	// ModuleInitFailed: A module's own start failed. The text has the lines of the kernel's log.
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
	// MountNotShared: The driver root would only be seen in the agent's own container.
	MountNotShared Code = "MountNotShared"
	// FirmwarePathTaken: Another program has told the kernel where firmware is.
	FirmwarePathTaken Code = "FirmwarePathTaken"
	// FabricManagerMissing: The machine has NVLink switches, and the driver has no fabric manager for them.
	FabricManagerMissing Code = "FabricManagerMissing"
	// SubnetManagerMissing: The machine has switches of NVLink 5, and the driver has no subnet manager for them.
	SubnetManagerMissing Code = "SubnetManagerMissing"
	// DriverDaemonFailed: A daemon without which the GPUs do not compute does not start.
	DriverDaemonFailed Code = "DriverDaemonFailed"
	// DriverDaemonStaysAlive: A daemon does not end.
	DriverDaemonStaysAlive Code = "DriverDaemonStaysAlive"
	// DriverOfOtherContainer: NVIDIA's driver container has loaded the driver, and still runs. This agent leaves it alone.
	DriverOfOtherContainer Code = "DriverOfOtherContainer"
	// DriverDoesNotAnswer: The driver is loaded, and one of its devices cannot be opened.
	DriverDoesNotAnswer Code = "DriverDoesNotAnswer"
	// Failed: A step failed for a reason that has no code of its own.
	Failed Code = "Failed"
	// Unexpected: The agent is in a state that it does not know.
	Unexpected Code = "Unexpected"
	// UpgradeInProgress: An upgrade changes the driver now. The commands and the loader wait for it.
	UpgradeInProgress Code = "UpgradeInProgress"
	// UpgradeGivenUp: An upgrade was given up after it had begun to change the driver.
	UpgradeGivenUp Code = "UpgradeGivenUp"
	// UpgradeHalted: Too many nodes failed with this driver, so no other node begins.
	UpgradeHalted Code = "UpgradeHalted"
	// WaitingForUpgradeSlot: Other nodes come first.
	WaitingForUpgradeSlot Code = "WaitingForUpgradeSlot"
	// WaitingForPods: Pods that hold GPUs have not gone yet.
	WaitingForPods Code = "WaitingForPods"
	// PodsLeft: Pods that hold GPUs have not gone in time.
	PodsLeft Code = "PodsLeft"
	// PodsRefused: Pods that hold GPUs may not be evicted.
	PodsRefused Code = "PodsRefused"
	// UpgradeInterrupted: An upgrade ended three times in the same state, with the agent.
	UpgradeInterrupted Code = "UpgradeInterrupted"
	// UpgradeFailed: An upgrade failed for a reason that has no code of its own.
	UpgradeFailed Code = "UpgradeFailed"
	// TemporaryFailure: A step that leaves the driver untouched failed, and is tried again.
	TemporaryFailure Code = "TemporaryFailure"
	// VGPULicenseLost: A virtual GPU has lost its license.
	VGPULicenseLost Code = "VGPULicenseLost"
	// VGPULicenseMissing: A virtual GPU has not got a license since the driver was loaded.
	VGPULicenseMissing Code = "VGPULicenseMissing"
	// Starting: The node has not been checked yet.
	Starting Code = "Starting"
	// DriverClaimed: Another agent has exclusive use of the driver, for a MIG change or a driver upgrade, and the node has not been checked yet.
	DriverClaimed Code = "DriverClaimed"
	// DriverNotFound: There is no library or no kernel module, their versions differ, or the agent has no access to the device nodes.
	DriverNotFound Code = "DriverNotFound"
	// DriverHangs: The driver does not answer. No container that uses a GPU can start.
	DriverHangs Code = "DriverHangs"
	// DriverFails: The driver answers with an error for the whole node.
	DriverFails Code = "DriverFails"
	// AllGPUsFaulty: The driver lists GPUs, and none of them works.
	AllGPUsFaulty Code = "AllGPUsFaulty"
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
	// ImagePullBackOff: The image of a pod cannot be pulled.
	ImagePullBackOff Code = "ImagePullBackOff"
	// InvalidImageName: The name of an image is wrong.
	InvalidImageName Code = "InvalidImageName"
	// ErrImageNeverPull: The node does not have an image, and imagePullPolicy is Never.
	ErrImageNeverPull Code = "ErrImageNeverPull"
	// CrashLoopBackOff: A container ends again and again.
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
	// Unschedulable: No node takes a pod.
	Unschedulable Code = "Unschedulable"
	// Terminating: A pod is being deleted.
	Terminating Code = "Terminating"
	// PodFailed: A pod has failed.
	PodFailed Code = "PodFailed"
	// ContainerCreating: The containers of a pod have not started.
	ContainerCreating Code = "ContainerCreating"
	// NotReady: An agent runs and is not ready.
	NotReady Code = "NotReady"
	// NodeNotReady: The node itself is not Ready.
	NodeNotReady Code = "NodeNotReady"
	// PoolsOverlap: Two pools select the node, which stays in the first one.
	PoolsOverlap Code = "PoolsOverlap"
	// DeviceXID: The driver reported an XID that counts.
	DeviceXID Code = "xid"
	// DeviceLost: The GPU left the bus, or the MIG device is gone from its GPU.
	DeviceLost Code = "lost"
	// DeviceFault: NVML cannot read the device.
	DeviceFault Code = "fault"
	// DeviceRecovery: The driver asks for a reset of the GPU, a reboot of the node, or that programs end.
	DeviceRecovery Code = "recovery"
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
	// DeviceConfig: The config requests what the device cannot do.
	DeviceConfig Code = "config"
	// DeviceExcluded: The config excludes the device, or another agent advertises it.
	DeviceExcluded Code = "excluded"
	// DeviceUnhealthy: Devices became unhealthy.
	DeviceUnhealthy Code = "DeviceUnhealthy"
	// DeviceNotOffered: A GPU or MIG device cannot be advertised.
	DeviceNotOffered Code = "DeviceNotOffered"
	// GPUsNotOffered: No GPU can be advertised in the current state: no driver, a driver that hangs, or a CDI spec that cannot be generated.
	GPUsNotOffered Code = "GPUsNotOffered"
	// ConfigRefused: A newer config was rejected. The last good one stays in effect.
	ConfigRefused Code = "ConfigRefused"
	// MIGConfigWaiting: A MIG config waits for the pods and processes that use the GPUs.
	MIGConfigWaiting Code = "MIGConfigWaiting"
	// MIGConfigRebooting: A MIG config takes effect after a reboot of the node.
	MIGConfigRebooting Code = "MIGConfigRebooting"
	// MIGConfigFailed: A MIG config cannot be applied. The GPUs have the layouts from before.
	MIGConfigFailed Code = "MIGConfigFailed"
	// LeftBehind: The policy is deleted, and something is left on nodes that could not be reached.
	LeftBehind Code = "LeftBehind"
)

// Table returns the rows of all codes.
func Table() []Row {
	return []Row{
		{NoGPU, "driver", Fails, "The node has no GPU of NVIDIA, or its driver lists none.", "nothing, if the node should have none; else check that the GPU is seated, passed to this machine, and bound to the driver nvidia (lspci -k -d 10de:)"},
		{OtherDriverBound, "driver", Fails, "Another driver, such as nouveau, nova_core or vfio-pci, has the GPU.", "keep that driver from being loaded, and reboot the node"},
		{HostDriverNotLoaded, "driver", Fails, "A driver is installed on the host, and its module is not loaded.", "run on the host: modprobe nvidia; or remove the host's driver, so that this agent loads its own"},
		{DriverMissing, "driver", Fails, "The store does not have the driver to load.", "set driver.image and driver.version, or import it: driver-loader import PATH"},
		{PreviousDriverMissing, "driver", Fails, "The store does not have the driver to go back to.", "import that driver, or choose another one"},
		{ModuleTypeUnsupported, "driver", Fails, "The open or proprietary modules are for none of the GPUs.", "set --kernel-module-type to the other type, or to auto, with a driver that has it"},
		{PayloadMissing, "driver", Fails, "A folder or file has no driver in it.", "give NVIDIA's .run file, or a driver image"},
		{PayloadTruncated, "driver", Fails, "An archive of a driver ends too early.", "copy it again, and compare its checksum with NVIDIA's"},
		{PayloadCorrupt, "driver", Fails, "A file of a driver differs from its digest, or is no archive.", "copy it again, and compare its checksum with NVIDIA's"},
		{PayloadRejected, "driver", Fails, "An archive has files outside of its folder, or has no bounds.", "copy it again, and compare its checksum with NVIDIA's"},
		{WrongArchitecture, "driver", Fails, "A driver is for other processors.", "get the driver for the node's processor"},
		{StoreBusy, "driver", Waits, "Another process writes to the store.", "wait for it, or end it"},
		{NoSpace, "driver", Fails, "A disk is full.", "free space, or put --store on a larger disk"},
		{KernelHeadersMissing, "driver", Fails, "The headers of the kernel are not there.", "install the headers of the running kernel, or configure a repository that has them"},
		{KernelHeadersMismatch, "driver", Fails, "The headers are of another kernel, or not complete.", "install the headers of the running kernel"},
		{KernelHeadersForeign, "driver", Fails, "The programs in the headers do not run in the agent's image.", "use the agent's image for the node's distribution: the programs in its headers do not run in this one"},
		{RepositoryUnavailable, "driver", Fails, "A repository does not answer, or its signature is wrong.", "correct driver.repoConfig, or let the node reach the repositories"},
		{CompilerMissing, "driver", Fails, "The agent's image has no compiler for the kernel.", "use the agent's image for the node's distribution"},
		{BuildToolsMissing, "driver", Fails, "The agent's image lacks a program that builds modules.", "use the agent's image for the node's distribution, or add the program to it"},
		{ModuleSourcesMissing, "driver", Fails, "The driver has no sources of this module type.", "import a driver with them, or choose the other kernel module type"},
		{ModuleBuildFailed, "driver", Fails, "The compiler failed. The text has its last lines.", "a driver that is newer than the kernel, or modules of the other type, may build"},
		{ModuleBuildKilled, "driver", Fails, "The kernel ended the compiler, usually for its memory.", "give the agent more memory, or build with fewer jobs: --max-threads"},
		{ModuleCacheCorrupt, "driver", Waits, "Modules in the store were damaged.", "nothing: they are removed, and the modules are built again; look after the disk if this happens often"},
		{SigningKeyInvalid, "driver", Fails, "The key or certificate cannot sign modules.", "give a private key and its certificate as PEM files"},
		{ModuleUnsigned, "driver", Fails, "The kernel demands signatures (Secure Boot, lockdown, module.sig_enforce), and a module has none.", "sign the modules with your own key and enrol its certificate: mokutil --import CERTIFICATE.der, reboot, confirm; or use modules that the distribution signed"},
		{ModuleSignatureRejected, "driver", Fails, "The kernel demands signatures, and does not know the key of a module.", "sign the modules with your own key and enrol its certificate: mokutil --import CERTIFICATE.der, reboot, confirm; or use modules that the distribution signed"},
		{ModuleWrongMachine, "driver", Fails, "A module is for another processor.", "get the driver for the node's processor"},
		{ModuleWrongRelease, "driver", Fails, "A module is for another release of the kernel.", "build the module again for the running kernel"},
		{ModuleWrongOptions, "driver", Fails, "A module is for a kernel with other options.", "build the module again for the running kernel"},
		{ModuleFormatInvalid, "driver", Fails, "The kernel does not take a file as a module.", "build the module again for the running kernel"},
		{ModuleDependencyMissing, "driver", Fails, "A module needs a symbol that neither the kernel nor a loaded module exports.", "load the modules that it depends on first"},
		{ModuleSymbolMismatch, "driver", Fails, "A module needs another version of a symbol than the kernel has.", "build the module again for the running kernel"},
		{KernelModuleMissing, "driver", Fails, "A module of the kernel is not installed.", "install the package with the rest of the kernel's modules, such as linux-modules-extra or kernel-modules"},
		{ModuleParameterUnknown, "driver", Fails, "A module does not have a parameter.", "correct the parameter: modinfo -p lists names and types"},
		{ModuleParameterInvalid, "driver", Fails, "A parameter has a value that it cannot have.", "correct the parameter: modinfo -p lists names and types"},
		{ModuleNotInDriver, "driver", Fails, "The driver does not have a module that a flag asks for.", "turn off the feature that needs it, or use a driver that has it"},
		{ModuleFoundNoDevice, "driver", Fails, "A module found no device that it supports.", "check that the node has a GPU that this version and type of the driver supports, and that no other driver is bound to it"},
		{ModuleInitFailed, "driver", Fails, "A module's own start failed. The text has the lines of the kernel's log.", "see the kernel's log: dmesg"},
		{ModuleNoMemory, "driver", Fails, "The kernel has no memory for a module.", "free memory of the node, or reboot it"},
		{ModuleInUse, "driver", Waits, "A process or the kernel uses the driver that is to be replaced.", "stop what uses the driver, or wait until it ends"},
		{ModuleAlreadyLoaded, "driver", Fails, "A module of the same name, or with the same symbols, is loaded.", "unload that one first"},
		{ModuleNotLoaded, "driver", Fails, "A module is not loaded.", "nothing, if it should not be loaded; else load it"},
		{ModuleNotUnloadable, "driver", Fails, "The kernel cannot unload a module.", "reboot the node"},
		{ModuleNotPermitted, "driver", Fails, "The process may not load modules, or a policy of the kernel forbids it.", "run it as root with the capability CAP_SYS_MODULE, as a privileged container"},
		{MountNotShared, "driver", Fails, "The driver root would only be seen in the agent's own container.", "mount the host's folder with mountPropagation: Bidirectional"},
		{FirmwarePathTaken, "driver", Fails, "Another program has told the kernel where firmware is.", "take the folder out of the kernel's command line or of the program that writes it, or put NVIDIA's firmware there"},
		{FabricManagerMissing, "driver", Fails, "The machine has NVLink switches, and the driver has no fabric manager for them.", "use a driver image that has the fabric manager of this driver version"},
		{SubnetManagerMissing, "driver", Fails, "The machine has switches of NVLink 5, and the driver has no subnet manager for them.", "use a driver image that has nvlsm and the fabric manager of this driver version"},
		{DriverDaemonFailed, "driver", Fails, "A daemon without which the GPUs do not compute does not start.", "look at its log in /var/log, and check that it has the version of the driver"},
		{DriverDaemonStaysAlive, "driver", Fails, "A daemon does not end.", "end it: kill PID"},
		{DriverOfOtherContainer, "driver", Waits, "NVIDIA's driver container has loaded the driver, and still runs. This agent leaves it alone.", "remove that container from this node (driver.enabled=false of NVIDIA's operator); if it does not run any more, remove the file"},
		{DriverDoesNotAnswer, "driver", Fails, "The driver is loaded, and one of its devices cannot be opened.", "look at the kernel's log: dmesg | grep -i NVRM; a GPU of Blackwell and later needs the open modules"},
		{Failed, "driver", Fails, "A step failed for a reason that has no code of its own.", "read the text and the agent's log"},
		{Unexpected, "driver", Fails, "The agent is in a state that it does not know.", "report this as a bug, with the log"},
		{UpgradeInProgress, "upgrade", Waits, "An upgrade changes the driver now. The commands and the loader wait for it.", "read the state and the cause of the upgrade on the Node"},
		{UpgradeGivenUp, "upgrade", Waits, "An upgrade was given up after it had begun to change the driver.", "nothing: the upgrade to the desired driver follows"},
		{UpgradeHalted, "upgrade", Fails, "Too many nodes failed with this driver, so no other node begins.", "read the cause on the nodes that failed; a new driver version, or outrigger.dev/driver-upgrade-requested=true on one of them, tries again"},
		{WaitingForUpgradeSlot, "upgrade", Waits, "Other nodes come first.", "nothing: the node begins when they are done"},
		{WaitingForPods, "upgrade", Waits, "Pods that hold GPUs have not gone yet.", "nothing, unless this lasts: then delete the pods that the text names"},
		{PodsLeft, "upgrade", Fails, "Pods that hold GPUs have not gone in time.", "delete the pods that the text names, or raise the time limit in upgradePolicy"},
		{PodsRefused, "upgrade", Fails, "Pods that hold GPUs may not be evicted.", "delete the pods that the text names, or set force or deleteEmptyDir in upgradePolicy"},
		{UpgradeInterrupted, "upgrade", Fails, "An upgrade ended three times in the same state, with the agent.", "read the log of the agent's previous container, and the kernel log"},
		{UpgradeFailed, "upgrade", Fails, "An upgrade failed for a reason that has no code of its own.", "read the text and the agent's log"},
		{TemporaryFailure, "upgrade", Waits, "A step that leaves the driver untouched failed, and is tried again.", "nothing, unless this lasts: then let the node reach the API server"},
		{VGPULicenseLost, "license", Fails, "A virtual GPU has lost its license.", "check that the license server answers, and that it has a license left"},
		{VGPULicenseMissing, "license", Fails, "A virtual GPU has not got a license since the driver was loaded.", "check the configuration and the token of the license client, and that the license server answers"},
		{Starting, "node", Waits, "The node has not been checked yet.", "nothing, unless this lasts: then see the log of feature discovery on the node"},
		{DriverClaimed, "node", Waits, "Another agent has exclusive use of the driver, for a MIG change or a driver upgrade, and the node has not been checked yet.", "nothing, unless the part that the message names hangs: see its log"},
		{DriverNotFound, "node", Waits, "There is no library or no kernel module, their versions differ, or the agent has no access to the device nodes.", "install NVIDIA's driver on the node, or read the log of the pod that does (driver-loader, or NVIDIA's nvidia-driver-daemonset); nouveau must not hold the GPU (lspci -k -d 10de:), and the modules i2c_core and ipmi_msghandler must be there (lsmod)"},
		{DriverHangs, "node", Fails, "The driver does not answer. No container that uses a GPU can start.", "look for NVRM in dmesg of the node, drain it, and reset the GPU or reboot"},
		{DriverFails, "node", Fails, "The driver answers with an error for the whole node.", "look for NVRM and Xid in dmesg of the node; reset the GPUs or reboot"},
		{AllGPUsFaulty, "node", Fails, "The driver lists GPUs, and none of them works.", "look for NVRM and Xid in dmesg of the node; reset the GPUs or reboot"},
		{MIGNotReady, "node", Waits, "The file mig-ready does not exist: the MIG manager has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{MIGStale, "node", Waits, "The file mig-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{MIGWriterDead, "node", Waits, "The process that wrote the file mig-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{MIGUnreadable, "node", Fails, "The file mig-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"},
		{ToolkitNotReady, "node", Waits, "The file toolkit-ready does not exist: the container toolkit has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{ToolkitStale, "node", Waits, "The file toolkit-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{ToolkitWriterDead, "node", Waits, "The process that wrote the file toolkit-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{ToolkitUnreadable, "node", Fails, "The file toolkit-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"},
		{PluginNotReady, "node", Waits, "The file plugin-ready or dra-ready does not exist: the device plugin or DRA plugin has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{PluginStale, "node", Waits, "The file plugin-ready or dra-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{PluginWriterDead, "node", Waits, "The process that wrote the file plugin-ready or dra-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{PluginUnreadable, "node", Fails, "The file plugin-ready or dra-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"},
		{CUDANotReady, "node", Waits, "The file cuda-ready does not exist: the validation has not reported it yet.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{CUDAStale, "node", Waits, "The file cuda-ready is from before the last boot, or for another driver.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{CUDAWriterDead, "node", Waits, "The process that wrote the file cuda-ready has ended.", "kubectl get pods -A --field-selector spec.nodeName=NODE shows whether the part that the message names runs there; its log says more"},
		{CUDAUnreadable, "node", Fails, "The file cuda-ready cannot be read or parsed.", "remove the file that the message names from the node: its writer writes it again"},
		{ImagePullBackOff, "pod", Fails, "The image of a pod cannot be pulled.", "correct repository, image and version in the values, or imagePullSecrets, or let the node reach the registry"},
		{InvalidImageName, "pod", Fails, "The name of an image is wrong.", "correct repository, image, version and imagePullPolicy in the values"},
		{ErrImageNeverPull, "pod", Fails, "The node does not have an image, and imagePullPolicy is Never.", "correct repository, image, version and imagePullPolicy in the values"},
		{CrashLoopBackOff, "pod", Fails, "A container ends again and again.", "kubectl logs --previous -n NAMESPACE POD has the error"},
		{OOMKilled, "pod", Fails, "A container needed more memory than its limit.", "raise resources.limits.memory of the agent in the values"},
		{CreateContainerConfigError, "pod", Fails, "A ConfigMap or Secret of a pod does not exist.", "create the ConfigMap or Secret that the message names in namespace NAMESPACE, or correct the values"},
		{CreateContainerError, "pod", Fails, "The container engine rejects a container.", "the container engine rejects the container: look at its log on the node (journalctl -u containerd, crio or docker)"},
		{RunContainerError, "pod", Fails, "The container engine cannot start a container.", "the container engine rejects the container: look at its log on the node (journalctl -u containerd, crio or docker)"},
		{CreatePodSandboxError, "pod", Fails, "The container engine cannot make the sandbox of a pod.", "the container engine rejects the container: look at its log on the node (journalctl -u containerd, crio or docker)"},
		{Unschedulable, "pod", Fails, "No node takes a pod.", "free what the message names on the node, or tolerate its taint (tolerations in the values)"},
		{Terminating, "pod", Starts, "A pod is being deleted.", "kubectl describe pod -n NAMESPACE POD: the node does not confirm that its containers have ended"},
		{PodFailed, "pod", Fails, "A pod has failed.", "kubectl describe pod -n NAMESPACE POD has the reason; the DaemonSet replaces the pod"},
		{ContainerCreating, "pod", Starts, "The containers of a pod have not started.", "kubectl describe pod -n NAMESPACE POD: its events name the volume, RuntimeClass, network or image that is missing"},
		{NotReady, "pod", Waits, "An agent runs and is not ready.", "kubectl logs -n NAMESPACE POD says what the agent waits for"},
		{NodeNotReady, "pod", Waits, "The node itself is not Ready.", "kubectl describe node NODE: its kubelet, network or machine does not work"},
		{PoolsOverlap, "pod", Fails, "Two pools select the node, which stays in the first one.", "change the labels of the node, or the nodeSelector of one of the pools"},
		{DeviceXID, "device", Fails, "The driver reported an XID that counts.", "do what the text says; NVIDIA's catalog describes the XID"},
		{DeviceLost, "device", Fails, "The GPU left the bus, or the MIG device is gone from its GPU.", "look for NVRM and Xid in dmesg of the node; reset the GPU or reboot"},
		{DeviceFault, "device", Fails, "NVML cannot read the device.", "look for NVRM and Xid in dmesg of the node; reset the GPU or reboot"},
		{DeviceRecovery, "device", Fails, "The driver asks for a reset of the GPU, a reboot of the node, or that programs end.", "do what the text says"},
		{DeviceHang, "device", Fails, "The driver does not return from a call.", "look for NVRM in dmesg of the node, drain it, and reset the GPU or reboot"},
		{DeviceDriver, "device", Waits, "There is no driver, or it does not answer.", "install NVIDIA's driver on the node, or enable the part that does"},
		{DeviceClaimed, "device", Waits, "Another agent has exclusive use of NVML.", "nothing, unless the agent that the text names hangs"},
		{DeviceUnprepared, "device", Waits, "A device node, CDI spec or file that containers need is missing.", "do what the text says"},
		{DeviceMPS, "device", Waits, "The MPS control daemon of the device does not answer.", "see the log of mps-control-daemon on this node"},
		{DeviceMIG, "device", Fails, "The MIG strategy has no resource for the device.", "set the MIG strategy mixed, or give all GPUs of the node one layout"},
		{DeviceConfig, "device", Fails, "The config requests what the device cannot do.", "correct the config as the text says"},
		{DeviceExcluded, "device", Waits, "The config excludes the device, or another agent advertises it.", "nothing: this is what the config asks for"},
		{DeviceUnhealthy, "device", Fails, "Devices became unhealthy.", "do what the message says"},
		{DeviceNotOffered, "device", Fails, "A GPU or MIG device cannot be advertised.", "do what the message says"},
		{GPUsNotOffered, "device", Waits, "No GPU can be advertised in the current state: no driver, a driver that hangs, or a CDI spec that cannot be generated.", "do what the message says"},
		{ConfigRefused, "device", Fails, "A newer config was rejected. The last good one stays in effect.", "correct every error that the message lists"},
		{MIGConfigWaiting, "mig", Waits, "A MIG config waits for the pods and processes that use the GPUs.", "end the processes that the message names, or wait for them"},
		{MIGConfigRebooting, "mig", Waits, "A MIG config takes effect after a reboot of the node.", "nothing, if the agent may reboot the node; else reboot it"},
		{MIGConfigFailed, "mig", Fails, "A MIG config cannot be applied. The GPUs have the layouts from before.", "do what the message says; the agent tries again"},
		{LeftBehind, "policy", Fails, "The policy is deleted, and something is left on nodes that could not be reached.", "orchestrator delete --verify lists it"},
	}
}
