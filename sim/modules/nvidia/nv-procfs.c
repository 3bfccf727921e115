// SPDX-License-Identifier: MIT OR GPL-2.0
/* /proc/driver/nvidia, in the format of NVIDIA's module. */
#include <linux/compiler.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/utsname.h>
#include <nv-standin.h>

static struct proc_dir_entry *nv_root;

static int nv_version_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (stand-in)\n",
		   utsname()->machine, NV_VERSION_STRING);
	seq_printf(m, "GCC version:  %s\n", CONFIG_CC_VERSION_TEXT);
	return 0;
}

static int nv_parameters_show(struct seq_file *m, void *unused)
{
	nv_params_show(m);
	return 0;
}

static int nv_information_show(struct seq_file *m, void *unused)
{
	int minor = (int)(long)m->private;

	seq_puts(m, "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 0\n");
	seq_printf(m, "GPU UUID: \t GPU-00000000-0000-0000-0000-%012x\n", minor);
	seq_puts(m, "Video BIOS: \t 96.00.74.00.01\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n");
	seq_printf(m, "Bus Location: \t %s\nDevice Minor: \t %d\n", nv_gpus[minor], minor);
	seq_printf(m, "GPU Firmware: \t %s\nGPU Excluded:\t No\n", NV_VERSION_STRING);
	return 0;
}

static int nv_gpus_init(void)
{
	struct proc_dir_entry *gpus = proc_mkdir("gpus", nv_root);
	struct proc_dir_entry *gpu;
	int i;

	if (!gpus)
		return -ENOMEM;
	for (i = 0; i < nv_gpu_count; i++) {
		gpu = proc_mkdir(nv_gpus[i], gpus);
		if (!gpu || !proc_create_single_data("information", 0444, gpu, nv_information_show, (void *)(long)i))
			return -ENOMEM;
	}
	return 0;
}

int nv_procfs_init(void)
{
	int err;

	nv_root = proc_mkdir("driver/nvidia", NULL);
	if (!nv_root)
		return -ENOMEM;
	err = nv_gpus_init();
	if (err || !proc_create_single("version", 0444, nv_root, nv_version_show) ||
	    !proc_create_single("params", 0444, nv_root, nv_parameters_show)) {
		nv_procfs_exit();
		return err ? err : -ENOMEM;
	}
	return 0;
}

void nv_procfs_exit(void)
{
	proc_remove(nv_root);
}
