// SPDX-License-Identifier: GPL-2.0
// A module for the tests of this package: it has a parameter of each type that the kernel
// has, and exports a symbol. README.md says how sample.ko is made of it.
#include <linux/module.h>
#include <linux/moduleparam.h>

static bool truth;
module_param(truth, bool, 0444);
MODULE_PARM_DESC(truth, "A bool: with a colon");
static int bare;
module_param(bare, bint, 0444);
static bool inverse;
module_param(inverse, invbool, 0444);
static unsigned char one;
module_param(one, byte, 0444);
static short two;
module_param(two, short, 0444);
static unsigned short utwo;
module_param(utwo, ushort, 0444);
static int answer;
module_param(answer, int, 0444);
MODULE_PARM_DESC(answer, "An int");
static unsigned int uanswer;
module_param(uanswer, uint, 0444);
static long eight;
module_param(eight, long, 0444);
static unsigned long ueight;
module_param(ueight, ulong, 0444);
static unsigned long long ull;
module_param(ull, ullong, 0444);
static unsigned int hex;
module_param(hex, hexint, 0444);
static char *words;
module_param(words, charp, 0444);
static char text[8];
module_param_string(text, text, sizeof(text), 0444);
static int list[4];
static int listed;
module_param_array(list, int, &listed, 0444);

int sample_answer(void);
int sample_answer(void)
{
	return answer;
}
EXPORT_SYMBOL_GPL(sample_answer);

static int __init sample_init(void)
{
	pr_info("sample: answer %d\n", answer);
	return 0;
}

static void __exit sample_exit(void)
{
}

module_init(sample_init);
module_exit(sample_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A sample");
MODULE_VERSION("1.2.3");
MODULE_SOFTDEP("pre: i2c_core post: dummy");
