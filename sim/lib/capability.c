/* capability.c: the rights of the process on the instances of a GPU, for both
 * libraries. MIG user guide, "Device Nodes and Capabilities": an action needs
 * access to the node of its capability, /dev/nvidia-caps/nvidia-cap<minor>.
 * CAP_SYS_ADMIN grants all of them. */
#include "capability.h"

#include <linux/capability.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "place.h"

/* capability_administrator reports whether the process has CAP_SYS_ADMIN, which
 * the kernel driver also checks. Root in a plain container does not have it. */
bool capability_administrator(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_SYS_ADMIN) != 0;
}

static bool may_open(uint32_t minor)
{
	char node[48];

	snprintf(node, sizeof(node), "nvidia-caps/nvidia-cap%u", minor);
	return place_access(node) == ACCESS_ALLOWED;
}

/* capability_config reports whether the process may make and destroy instances. */
bool capability_config(void)
{
	return capability_administrator() || may_open(SIM_CAP_CONFIG);
}

/* capability_monitor reports whether the process may monitor all instances. */
bool capability_monitor(void)
{
	return capability_administrator() || may_open(SIM_CAP_MONITOR);
}

/* capability_instance reports whether the process may use a compute instance. It
 * needs the capabilities of the compute instance and of the GPU instance. */
bool capability_instance(uint32_t gpu_minor, const struct sim_ci *ci)
{
	return capability_administrator() || (may_open(sim_gi_minor(gpu_minor, ci->gi)) &&
					      may_open(sim_ci_minor(gpu_minor, ci->gi, ci->id)));
}
