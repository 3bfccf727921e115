// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nvidia-drm, which depends on nvidia-modeset. */
#include <linux/init.h>
#include <nv-standin.h>

NV_STANDIN_PARAMETERS;

static bool modeset;
module_param(modeset, bool, 0400);
MODULE_PARM_DESC(modeset, "Accepted, without effect (bool)");
static bool fbdev;
module_param(fbdev, bool, 0400);
MODULE_PARM_DESC(fbdev, "Accepted, without effect (bool)");

static int __init nv_linux_drm_init(void)
{
	return sim_init_errno ? -sim_init_errno : nvKmsGetKapiFunctionsTable();
}

static void __exit nv_linux_drm_exit(void)
{
}

module_init(nv_linux_drm_init);
module_exit(nv_linux_drm_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module nvidia-drm");
