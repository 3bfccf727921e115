package pci_test

import (
	"errors"
	"io/fs"
	"testing"

	"outrigger.dev/pkg/pci"
)

func TestNUMANode(t *testing.T) {
	sys := t.TempDir()
	put(t, sys, "10000:e1:00.0", files{"numa_node": "1\n"})
	put(t, sys, "0000:07:00.0", files{"numa_node": "-1\n"})
	put(t, sys, "0000:0f:00.0", files{"numa_node": "many\n"})
	for id, want := range map[string]int{"10000:e1:00.0": 1, "0000:07:00.0": -1, "0000:0f:00.0": -1, "0000:17:00.0": -1, "": -1} {
		if got := pci.NUMANode(sys, id); got != want {
			t.Errorf("NUMANode(%s) = %d, want %d", id, got, want)
		}
	}
}

func TestClass(t *testing.T) {
	sys := t.TempDir()
	put(t, sys, "0000:c1:00.0", files{"class": "0x068000\n"})
	put(t, sys, "0000:07:00.0", files{"class": "0x1068000\n"})
	if got, err := pci.Class(sys, "0000:c1:00.0"); err != nil || got != 0x068000 {
		t.Errorf("Class() = %#x, %v", got, err)
	}
	if got, err := pci.Class(sys, "0000:07:00.0"); err == nil {
		t.Errorf("Class() = %#x of more than 24 bits", got)
	}
	if _, err := pci.Class(sys, "0000:ff:00.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Class() of no device says %v", err)
	}
}
