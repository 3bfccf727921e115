// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for NVIDIA's core module: its device nodes, and symbols that dependents need. */
#include <linux/cdev.h>
#include <linux/init.h>
#include <nv-standin.h>

NV_STANDIN_PARAMETERS;

int nv_gpu_count;
char *nv_gpus[NV_MAX_GPUS];
module_param_array_named(sim_gpus, nv_gpus, charp, &nv_gpu_count, 0444);
MODULE_PARM_DESC(sim_gpus, "PCI addresses of the GPUs, such as 0000:01:00.0 (array of charp)");

/* Other modules only refer to this symbol, to depend on this module. */
int nvidia_get_rm_ops(void)
{
	return 0;
}
EXPORT_SYMBOL(nvidia_get_rm_ops);

int nvUvmInterfaceSessionCreate(void)
{
	return 0;
}
EXPORT_SYMBOL(nvUvmInterfaceSessionCreate);

int nvidia_p2p_get_pages(void)
{
	return 0;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages);

static int nv_open(struct inode *inode, struct file *file)
{
	return iminor(inode) < nv_gpu_count ? 0 : -ENODEV;
}

static int nv_open_ctl(struct inode *inode, struct file *file)
{
	return 0;
}

/* Because of the owner, the kernel does not unload the module while a file is open. */
static const struct file_operations nv_fops = { .owner = THIS_MODULE, .open = nv_open };
static const struct file_operations nv_ctl_fops = { .owner = THIS_MODULE, .open = nv_open_ctl };
static struct cdev nv_gpus_cdev, nv_ctl_cdev;

static int nv_register(struct cdev *cdev, const struct file_operations *fops, int minor, int count, const char *name)
{
	int err = register_chrdev_region(MKDEV(NV_MAJOR, minor), count, name);

	if (err)
		return err;
	cdev_init(cdev, fops);
	cdev->owner = THIS_MODULE;
	err = cdev_add(cdev, MKDEV(NV_MAJOR, minor), count);
	if (err)
		unregister_chrdev_region(MKDEV(NV_MAJOR, minor), count);
	return err;
}

static void nv_unregister(struct cdev *cdev, int minor, int count)
{
	cdev_del(cdev);
	unregister_chrdev_region(MKDEV(NV_MAJOR, minor), count);
}

static int __init nvidia_init_module(void)
{
	int err;

	if (sim_init_errno) {
		pr_err("NVRM: the stand-in was asked to fail with error %d\n", sim_init_errno);
		return -sim_init_errno;
	}
	err = nv_register(&nv_gpus_cdev, &nv_fops, 0, NV_MINOR_MODESET, "nvidia");
	if (err)
		return err;
	err = nv_register(&nv_ctl_cdev, &nv_ctl_fops, NV_MINOR_CTL, 1, "nvidiactl");
	if (err)
		goto gpus;
	err = nv_procfs_init();
	if (err)
		goto ctl;
	pr_info("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  %s  (stand-in)\n", NV_VERSION_STRING);
	return 0;
ctl:
	nv_unregister(&nv_ctl_cdev, NV_MINOR_CTL, 1);
gpus:
	nv_unregister(&nv_gpus_cdev, 0, NV_MINOR_MODESET);
	return err;
}

static void __exit nvidia_exit_module(void)
{
	nv_procfs_exit();
	nv_unregister(&nv_ctl_cdev, NV_MINOR_CTL, 1);
	nv_unregister(&nv_gpus_cdev, 0, NV_MINOR_MODESET);
}

module_init(nvidia_init_module);
module_exit(nvidia_exit_module);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module");
/* The GPUs that NVIDIA's module declares: displays and 3D controllers of its PCI vendor. */
MODULE_ALIAS("pci:v000010DEd*sv*sd*bc03sc00i00*");
MODULE_ALIAS("pci:v000010DEd*sv*sd*bc03sc02i00*");
