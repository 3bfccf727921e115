package pci

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Class returns the 24-bit class of the device with this bus ID. The device may be from any vendor.
func Class(sysRoot, busID string) (uint32, error) {
	class, err := readNumber(filepath.Join(devicesDir(sysRoot), busID), "class", 24)
	return uint32(class), err
}

// NUMANode returns the NUMA node of the device with this bus ID, -1 if it has none or if it is
// unknown.
func NUMANode(sysRoot, busID string) int {
	text, err := attribute(filepath.Join(devicesDir(sysRoot), busID), "numa_node")
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(text)
	if err != nil || node < 0 {
		return -1
	}
	return node
}

// attribute reads a text file in a device's folder.
func attribute(dir, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	return string(bytes.TrimSpace(data)), err
}

// readNumber reads an attribute that sysfs writes in the form "0x10de".
func readNumber(dir, name string, bits int) (uint64, error) {
	text, err := attribute(dir, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}
	return n, nil
}
