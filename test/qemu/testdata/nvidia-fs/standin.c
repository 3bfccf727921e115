// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nvidia-fs that fails, and logs why in two lines. */
#include <linux/init.h>
#include <nv-standin.h>

static int __init nvfs_init(void)
{
	pr_err("nvidia_fs: the symbol of the storage driver is missing\n");
	pr_err("nvidia_fs: initialization failed\n");
	return nvidia_p2p_get_pages() ? -EIO : -ENODEV;
}

static void __exit nvfs_exit(void)
{
}

module_init(nvfs_init);
module_exit(nvfs_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module nvidia-fs");
