// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nvidia-fs, which depends on nvidia. */
#include <linux/init.h>
#include <linux/module.h>
#include <nv-p2p.h>

static int __init nvfs_init(void)
{
	return nvidia_p2p_get_pages();
}

static void __exit nvfs_exit(void)
{
}

module_init(nvfs_init);
module_exit(nvfs_exit);

MODULE_LICENSE("GPL v2");
MODULE_VERSION("2.27.3");
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module nvidia-fs");
