// SPDX-License-Identifier: MIT OR GPL-2.0
/* It has the symbol of nvidia.ko, so that the build knows its version. It is never loaded. */
#include <linux/module.h>
#include <nv-p2p.h>

int nvidia_p2p_get_pages(void)
{
	return 0;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Symbols of nvidia.ko");
