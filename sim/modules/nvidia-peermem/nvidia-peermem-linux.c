// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nvidia-peermem. It depends on nvidia, and works, only if it was built with the headers of the
 * driver of network adapters. */
#include <linux/init.h>
#include <nv-standin.h>
#if defined(NV_PEER_MEMORY) && __has_include(<rdma/peer_mem.h>)
#include <rdma/peer_mem.h>
#endif

NV_STANDIN_PARAMETERS;

static int peerdirect_support;
module_param(peerdirect_support, int, 0444);
MODULE_PARM_DESC(peerdirect_support, "Accepted, without effect (int)");

static int __init nv_mem_client_init(void)
{
	if (sim_init_errno)
		return -sim_init_errno;
#ifdef NV_PEER_MEMORY
	return nvidia_p2p_get_pages();
#else
	/* Like NVIDIA's module, it logs nothing. */
	return -EINVAL;
#endif
}

static void __exit nv_mem_client_exit(void)
{
}

module_init(nv_mem_client_init);
module_exit(nv_mem_client_exit);

MODULE_LICENSE("Linux-OpenIB");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module nvidia-peermem");
