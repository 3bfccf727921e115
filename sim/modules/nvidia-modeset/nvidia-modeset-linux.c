// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nvidia-modeset: its device node, and a symbol that nvidia-drm needs. */
#include <linux/cdev.h>
#include <linux/init.h>
#include <nv-standin.h>

NV_STANDIN_PARAMETERS;

static bool disable_hdmi_frl;
module_param(disable_hdmi_frl, bool, 0400);
MODULE_PARM_DESC(disable_hdmi_frl, "Accepted, without effect (bool)");

int nvKmsGetKapiFunctionsTable(void)
{
	return 0;
}
EXPORT_SYMBOL(nvKmsGetKapiFunctionsTable);

static int nvkms_open(struct inode *inode, struct file *file)
{
	return 0;
}

static const struct file_operations nvkms_fops = { .owner = THIS_MODULE, .open = nvkms_open };
static struct cdev nvkms_cdev;

static int __init nvkms_init(void)
{
	dev_t device = MKDEV(NV_MAJOR, NV_MINOR_MODESET);
	int err = sim_init_errno ? -sim_init_errno : nvidia_get_rm_ops();

	if (err)
		return err;
	err = register_chrdev_region(device, 1, "nvidia-modeset");
	if (err)
		return err;
	cdev_init(&nvkms_cdev, &nvkms_fops);
	nvkms_cdev.owner = THIS_MODULE;
	err = cdev_add(&nvkms_cdev, device, 1);
	if (err)
		unregister_chrdev_region(device, 1);
	return err;
}

static void __exit nvkms_exit(void)
{
	cdev_del(&nvkms_cdev);
	unregister_chrdev_region(MKDEV(NV_MAJOR, NV_MINOR_MODESET), 1);
}

module_init(nvkms_init);
module_exit(nvkms_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module nvidia-modeset");
