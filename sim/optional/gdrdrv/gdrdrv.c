// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for gdrdrv, which depends on nvidia. */
#include <linux/init.h>
#include <linux/module.h>
#include <nv-p2p.h>

static int __init gdrdrv_init(void)
{
	return nvidia_p2p_get_pages();
}

static void __exit gdrdrv_exit(void)
{
}

module_init(gdrdrv_init);
module_exit(gdrdrv_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("2.5");
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module gdrdrv");
