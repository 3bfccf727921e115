package pci

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Scan returns NVIDIA's devices, GPUs and others, ordered by bus ID. With an error it still returns
// the devices that it could read. The error names the devices that it could not read, or means that
// sysRoot has no sysfs. For a machine without a PCI bus, Scan returns no devices and no error.
func Scan(sysRoot string) ([]Device, error) {
	dir := devicesDir(sysRoot)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) && isSysfs(sysRoot) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w: set --sys-root to the folder with the node's sysfs", err)
	}
	var devices []Device
	var errs []error
	for _, e := range entries {
		d, err := read(dir, e.Name())
		switch {
		case deviceGone(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("read PCI device %s: %w", e.Name(), err))
		case d.Vendor == nvidia:
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b Device) int {
		// Bus IDs have leading zeros, but a domain may have more than four digits.
		return cmp.Or(cmp.Compare(len(a.BusID), len(b.BusID)), cmp.Compare(a.BusID, b.BusID))
	})
	return devices, errors.Join(errs...)
}

// Present reports whether the node has a PCI device of a vendor.
func Present(sysRoot string, vendor uint16) bool {
	dir := devicesDir(sysRoot)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		number, err := readNumber(filepath.Join(dir, e.Name()), "vendor", 16)
		return err == nil && number == uint64(vendor)
	})
}

// isSysfs reports whether root looks like a sysfs, even without a PCI bus.
func isSysfs(root string) bool {
	_, err := os.Stat(filepath.Join(root, "bus"))
	return err == nil
}

// deviceGone reports whether a device left the bus while it was read. The kernel removes its
// attributes before its entry on the bus, and reading an open attribute fails with ENODEV.
func deviceGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// read reads a device. It only reads the vendor if the vendor is not NVIDIA.
func read(devices, busID string) (Device, error) {
	dir := filepath.Join(devices, busID)
	vendor, err := readNumber(dir, "vendor", 16)
	if err != nil || vendor != nvidia {
		return Device{}, err
	}
	product, err := readNumber(dir, "device", 16)
	if err != nil {
		return Device{}, err
	}
	class, err := readNumber(dir, "class", 24)
	if err != nil {
		return Device{}, err
	}
	driver, err := driverOf(dir)
	if err != nil {
		return Device{}, err
	}
	return Device{
		BusID: busID, Vendor: nvidia, Product: uint16(product), Class: uint32(class), Driver: driver,
		VGPU: vgpu(readConfig(dir)),
	}, nil
}

// driverOf returns the target of the link "driver" in a device's folder.
func driverOf(dir string) (string, error) {
	target, err := os.Readlink(filepath.Join(dir, "driver"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return filepath.Base(target), nil
}
