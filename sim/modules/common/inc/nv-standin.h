/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Declarations of the stand-in modules. The symbols have the names of NVIDIA's modules. */
#ifndef NV_STANDIN_H
#define NV_STANDIN_H

#include <linux/fs.h>
#include <linux/module.h>
#include <linux/types.h>

/* Numbers of device nodes, which NVIDIA's documentation fixes. */
#define NV_MAJOR 195
#define NV_MINOR_MODESET 254
#define NV_MINOR_CTL 255
#define NV_MAX_GPUS 32

/* Symbols of nvidia. */
int nvidia_get_rm_ops(void);
int nvUvmInterfaceSessionCreate(void);
int nvidia_p2p_get_pages(void);
/* Symbols of nvidia-modeset. */
int nvKmsGetKapiFunctionsTable(void);

/* The GPUs of the parameter sim_gpus. */
extern int nv_gpu_count;
extern char *nv_gpus[NV_MAX_GPUS];

int nv_procfs_init(void);
void nv_procfs_exit(void);
struct seq_file;
void nv_params_show(struct seq_file *m);

/* NV_STANDIN_PARAMETERS declares the parameter sim_init_errno, the error of a module's init. */
#define NV_STANDIN_PARAMETERS                                                  \
	static int sim_init_errno = SIM_INIT_ERRNO;                            \
	module_param(sim_init_errno, int, 0444);                               \
	MODULE_PARM_DESC(sim_init_errno, "Error number with which the initialization fails, 0 for none (int)")

#ifndef SIM_INIT_ERRNO
#define SIM_INIT_ERRNO 0
#endif

#endif
