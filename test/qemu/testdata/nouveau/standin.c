// SPDX-License-Identifier: MIT OR GPL-2.0
/* A stand-in for nouveau, the kernel's own driver: it takes a device on the PCI bus, and gives it a
 * device node as drivers for displays do. */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/version.h>

static struct class *drm_class;
static struct cdev card_cdev;
static dev_t card;

static int card_open(struct inode *inode, struct file *file)
{
	return 0;
}

static const struct file_operations card_fops = { .owner = THIS_MODULE, .open = card_open };

static int nouveau_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	return PTR_ERR_OR_ZERO(device_create(drm_class, &pdev->dev, card, NULL, "card0"));
}

static void nouveau_remove(struct pci_dev *pdev)
{
	device_destroy(drm_class, card);
}

/* The educational device of QEMU: there is no GPU. */
static const struct pci_device_id nouveau_ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, {} };
MODULE_DEVICE_TABLE(pci, nouveau_ids);

static struct pci_driver nouveau_driver = {
	.name = "nouveau",
	.id_table = nouveau_ids,
	.probe = nouveau_probe,
	.remove = nouveau_remove,
};

static int __init nouveau_init(void)
{
	int err = alloc_chrdev_region(&card, 0, 1, "drm");

	if (err)
		return err;
	cdev_init(&card_cdev, &card_fops);
	card_cdev.owner = THIS_MODULE;
	err = cdev_add(&card_cdev, card, 1);
	if (err)
		goto out_region;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	drm_class = class_create("drm");
#else
	drm_class = class_create(THIS_MODULE, "drm");
#endif
	err = PTR_ERR_OR_ZERO(drm_class);
	if (err)
		goto out_cdev;
	err = pci_register_driver(&nouveau_driver);
	if (!err)
		return 0;
	class_destroy(drm_class);
out_cdev:
	cdev_del(&card_cdev);
out_region:
	unregister_chrdev_region(card, 1);
	return err;
}

static void __exit nouveau_exit(void)
{
	pci_unregister_driver(&nouveau_driver);
	class_destroy(drm_class);
	cdev_del(&card_cdev);
	unregister_chrdev_region(card, 1);
}

module_init(nouveau_init);
module_exit(nouveau_exit);

MODULE_LICENSE("GPL and additional rights");
MODULE_DESCRIPTION("Stand-in for the kernel module nouveau");
