// SPDX-License-Identifier: MIT OR GPL-2.0
/* Parameters with the names and types of NVIDIA's module. Like there, they are in
 * /proc/driver/nvidia/params and not in sysfs. */
#include <linux/seq_file.h>
#include <nv-standin.h>

/* NUMBERS has the name and the default of each numeric parameter. The parameter also has the prefix
 * NVreg_, which /proc/driver/nvidia/params omits. */
#define NUMBERS(X)                                                             \
	X(ResmanDebugLevel, ~0U)                                               \
	X(RmLogonRC, 1)                                                        \
	X(ModifyDeviceFiles, 1)                                                \
	X(DeviceFileUID, 0)                                                    \
	X(DeviceFileGID, 0)                                                    \
	X(DeviceFileMode, 0666)                                                \
	X(InitializeSystemMemoryAllocations, 1)                                \
	X(UsePageAttributeTable, ~0U)                                          \
	X(EnableMSI, 1)                                                        \
	X(EnablePCIeGen3, 0)                                                   \
	X(MemoryPoolSize, 0)                                                   \
	X(KMallocHeapMaxSize, 0)                                               \
	X(VMallocHeapMaxSize, 0)                                               \
	X(IgnoreMMIOCheck, 0)                                                  \
	X(EnableStreamMemOPs, 0)                                               \
	X(EnableUserNUMAManagement, 1)                                         \
	X(NvLinkDisable, 0)                                                    \
	X(PreserveVideoMemoryAllocations, 0)                                   \
	X(EnableS0ixPowerManagement, 0)                                        \
	X(DynamicPowerManagement, 3)                                           \
	X(RegisterPCIDriver, 1)                                                \
	X(EnablePCIERelaxedOrderingMode, 0)                                    \
	X(EnableResizableBar, 0)                                               \
	X(EnableGpuFirmware, 18)                                               \
	X(EnableGpuFirmwareLogs, 2)                                            \
	X(EnableDbgBreakpoint, 0)                                              \
	X(OpenRmEnableUnsupportedGpus, 1)                                      \
	X(DmaRemapPeerMmio, 1)                                                 \
	X(ImexChannelCount, 2048)                                              \
	X(CreateImexChannel0, 0)

#define TEXTS(X)                                                               \
	X(RegistryDwords)                                                      \
	X(RegistryDwordsPerDevice)                                             \
	X(RmMsg)                                                               \
	X(GpuBlacklist)                                                        \
	X(TemporaryFilePath)                                                   \
	X(ExcludedGpus)                                                        \
	X(CoherentGPUMemoryMode)

#define DECLARE_NUMBER(name, value)                                            \
	static unsigned int NVreg_##name = value;                              \
	module_param(NVreg_##name, uint, 0);
#define DECLARE_TEXT(name)                                                     \
	static char *NVreg_##name;                                             \
	module_param(NVreg_##name, charp, 0);

NUMBERS(DECLARE_NUMBER)
/* This parameter has another name in /proc/driver/nvidia/params. */
DECLARE_NUMBER(RestrictProfilingToAdminUsers, 1)
TEXTS(DECLARE_TEXT)

void nv_params_show(struct seq_file *m)
{
#define SHOW_NUMBER(name, value) seq_printf(m, "%s: %u\n", #name, NVreg_##name);
#define SHOW_TEXT(name) seq_printf(m, "%s: \"%s\"\n", #name, NVreg_##name ? NVreg_##name : "");
	NUMBERS(SHOW_NUMBER)
	seq_printf(m, "RmProfilingAdminOnly: %u\n", NVreg_RestrictProfilingToAdminUsers);
	TEXTS(SHOW_TEXT)
}
