#include <linux/module.h>

static int NVreg_EnableMSI = 1;
module_param(NVreg_EnableMSI, int, 0400);

int nv_count(void);
EXPORT_SYMBOL(nv_count);

static int __init nvidia_init(void)
{
	return nv_count() < 0 ? -ENODEV : 0;
}

static void __exit nvidia_exit(void)
{
}

module_init(nvidia_init);
module_exit(nvidia_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("580.95.05");
