#include <linux/module.h>

int nv_count(void);

static int __init uvm_init(void)
{
	return nv_count();
}

static void __exit uvm_exit(void)
{
}

module_init(uvm_init);
module_exit(uvm_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("580.95.05");
