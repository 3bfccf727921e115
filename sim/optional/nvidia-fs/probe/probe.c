// SPDX-License-Identifier: MIT OR GPL-2.0
/* A test of the kernel, as the sources of NVIDIA compile it before their module. */
#include <linux/module.h>

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A test of the kernel");
