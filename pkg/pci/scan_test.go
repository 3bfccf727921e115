package pci_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/pci"
)

// files of a device's folder, by name. A content that begins with "-> " is a
// link, one that is "/" a folder.
type files map[string]string

// gpuFiles are those of a GPU, with others in place of some; "" leaves one out.
func gpuFiles(other files) files {
	f := files{"vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n"}
	for name, content := range other {
		f[name] = content
		if content == "" {
			delete(f, name)
		}
	}
	return f
}

func put(t *testing.T, sys, busID string, device files) {
	t.Helper()
	dir := filepath.Join(sys, "bus/pci/devices", busID)
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	for name, content := range device {
		path := filepath.Join(dir, name)
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case link:
			assert.NilError(t, os.Symlink(target, path))
		case content == "/":
			assert.NilError(t, os.Mkdir(path, 0o755))
		default:
			assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
		}
	}
}

func device(busID string, change func(*pci.Device)) pci.Device {
	d := pci.Device{BusID: busID, Vendor: 0x10de, Product: 0x2330, Class: 0x030200}
	if change != nil {
		change(&d)
	}
	return d
}

func TestScan(t *testing.T) {
	const id, other = "0000:17:00.0", "0000:2a:00.0"
	for name, c := range map[string]struct {
		devices map[string]files
		want    []pci.Device
		// errs are parts of the error.
		errs []string
	}{
		"no device": {},
		"a GPU without a driver": {
			devices: map[string]files{id: gpuFiles(nil)},
			want:    []pci.Device{device(id, nil)},
		},
		"a GPU that is bound to a driver": {
			devices: map[string]files{id: gpuFiles(files{"driver": "-> ../../../bus/pci/drivers/vfio-pci"})},
			want:    []pci.Device{device(id, func(d *pci.Device) { d.Driver = "vfio-pci" })},
		},
		"devices of others, one of them broken behind its vendor": {
			devices: map[string]files{id: gpuFiles(nil), other: {"vendor": "0x15b3\n", "class": "/"}},
			want:    []pci.Device{device(id, nil)},
		},
		"the order is that of the numbers, and not of the letters": {
			devices: map[string]files{
				"10000:01:00.0": gpuFiles(nil), "0002:01:00.0": gpuFiles(nil), "2000:01:00.0": gpuFiles(nil), "0002:00:1f.0": gpuFiles(nil),
			},
			want: []pci.Device{
				device("0002:00:1f.0", nil), device("0002:01:00.0", nil), device("2000:01:00.0", nil), device("10000:01:00.0", nil),
			},
		},
		"a device that has no attributes any more is gone": {
			devices: map[string]files{id: gpuFiles(files{"vendor": ""}), other: gpuFiles(nil)},
			want:    []pci.Device{device(other, nil)},
		},
		"a device that goes while it is read": {
			devices: map[string]files{id: gpuFiles(files{"class": ""}), other: gpuFiles(nil)},
			want:    []pci.Device{device(other, nil)},
		},
		"broken devices cost only themselves": {
			devices: map[string]files{
				id: gpuFiles(files{"device": "/"}), other: gpuFiles(nil),
				"0000:3b:00.0": gpuFiles(files{"class": "none\n"}),
				"0000:4c:00.0": {"vendor": "\n"},
				"0000:5d:00.0": gpuFiles(files{"driver": "no link"}),
			},
			want: []pci.Device{device(other, nil)},
			errs: []string{id, "is a directory", "0000:3b:00.0", `"none"`, "0000:4c:00.0", "0000:5d:00.0", "driver"},
		},
		"a configuration space as an unprivileged reader gets it": {
			devices: map[string]files{id: gpuFiles(files{"config": strings.Repeat("\x10", 64)})},
			want:    []pci.Device{device(id, nil)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sys := t.TempDir()
			assert.NilError(t, os.MkdirAll(filepath.Join(sys, "bus/pci/devices"), 0o755))
			for busID, d := range c.devices {
				put(t, sys, busID, d)
			}
			got, err := pci.Scan(sys)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Scan() (-want +got):\n%s", diff)
			}
			if (err == nil) != (len(c.errs) == 0) {
				t.Errorf("Scan() says %v, want %q", err, c.errs)
			}
			for _, part := range c.errs {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("Scan() says %v, want %q in it", err, part)
				}
			}
		})
	}
}

func TestScanWithoutBus(t *testing.T) {
	sys := t.TempDir()
	if _, err := pci.Scan(sys); err == nil || !strings.Contains(err.Error(), "--sys-root") || !strings.Contains(err.Error(), sys) {
		t.Errorf("Scan() of an empty folder says %v, want the flag and the folder", err)
	}
	assert.NilError(t, os.MkdirAll(filepath.Join(sys, "bus/virtio"), 0o755))
	if got, err := pci.Scan(sys); len(got) != 0 || err != nil {
		t.Errorf("Scan() of a machine without PCI = %v, %v", got, err)
	}
}

func TestGPU(t *testing.T) {
	for class, want := range map[uint32]bool{
		0x030000: true, 0x030200: true, 0x038000: true, 0x0b4000: true,
		0x040300: false, 0x068000: false, 0x0b4100: false, 0x0c0330: false, 0x000003: false,
	} {
		if got := (pci.Device{Class: class}).GPU(); got != want {
			t.Errorf("GPU() of class %06x = %v, want %v", class, got, want)
		}
	}
}

func TestScanSimulatedNode(t *testing.T) {
	n := simtest.New(t, "--gpus=2", "--model=l4")
	var shown struct {
		GPUs []struct {
			BusID string `json:"busId"`
			PCIID uint32 `json:"pciId"`
		} `json:"gpus"`
	}
	assert.NilError(t, json.Unmarshal(n.Run("show", "--json"), &shown))
	var want []pci.Device
	for _, g := range shown.GPUs {
		want = append(want, pci.Device{
			BusID: g.BusID, Vendor: uint16(g.PCIID), Product: uint16(g.PCIID >> 16), Class: 0x030200, Driver: "nvidia", VGPU: pci.VGPU{Known: true},
		})
	}
	sys := filepath.Join(n.Root, "sys")
	got, err := pci.Scan(sys)
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got) != 2 {
		t.Errorf("Scan() says %v (-want +got):\n%s", err, diff)
	}
	n.Run("unplug", got[0].BusID)
	n.Run("set", "driver=off")
	want[1].Driver = ""
	got, err = pci.Scan(sys)
	if diff := cmp.Diff(want[1:], got); diff != "" || err != nil {
		t.Errorf("Scan() without a GPU and the driver says %v (-want +got):\n%s", err, diff)
	}
}

func TestPresent(t *testing.T) {
	sys := t.TempDir()
	if pci.Present(sys, pci.Mellanox) {
		t.Error("a node without a PCI bus has a network adapter")
	}
	put(t, sys, "0000:17:00.0", gpuFiles(nil))
	if pci.Present(sys, pci.Mellanox) {
		t.Error("a GPU is taken for a network adapter")
	}
	put(t, sys, "0000:18:00.0", files{"vendor": "0x15b3\n"})
	if !pci.Present(sys, pci.Mellanox) {
		t.Error("the network adapter is not found")
	}
}
