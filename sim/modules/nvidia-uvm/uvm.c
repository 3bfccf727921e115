// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nvidia-uvm: two device nodes with a major number that the kernel chooses. */
#include <linux/cdev.h>
#include <linux/init.h>
#include <nv-standin.h>

NV_STANDIN_PARAMETERS;

static int uvm_disable_hmm;
module_param(uvm_disable_hmm, int, 0444);
MODULE_PARM_DESC(uvm_disable_hmm, "Accepted, without effect (int)");
static int uvm_debug_prints;
module_param(uvm_debug_prints, int, 0644);
MODULE_PARM_DESC(uvm_debug_prints, "Accepted, without effect (int)");

/* nvidia-uvm and nvidia-uvm-tools. */
#define UVM_MINORS 2
static dev_t uvm_devices;
static struct cdev uvm_cdev;

static int uvm_open(struct inode *inode, struct file *file)
{
	return 0;
}

static const struct file_operations uvm_fops = { .owner = THIS_MODULE, .open = uvm_open };

static int __init uvm_init(void)
{
	int err = sim_init_errno ? -sim_init_errno : nvUvmInterfaceSessionCreate();

	if (err)
		return err;
	err = alloc_chrdev_region(&uvm_devices, 0, UVM_MINORS, "nvidia-uvm");
	if (err)
		return err;
	cdev_init(&uvm_cdev, &uvm_fops);
	uvm_cdev.owner = THIS_MODULE;
	err = cdev_add(&uvm_cdev, uvm_devices, UVM_MINORS);
	if (err)
		unregister_chrdev_region(uvm_devices, UVM_MINORS);
	return err;
}

static void __exit uvm_exit(void)
{
	cdev_del(&uvm_cdev);
	unregister_chrdev_region(uvm_devices, UVM_MINORS);
}

module_init(uvm_init);
module_exit(uvm_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module nvidia-uvm");
