package driverproc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverproc"
)

const (
	versionFile = "driver/nvidia/version"
	minorsFile  = "driver/nvidia-caps/mig-minors"
	bus         = "0000:07:00.0"
	information = "driver/nvidia/gpus/" + bus + "/information"
)

// root returns a /proc with one file of the driver.
func root(t *testing.T, file, text string) driverproc.Root {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, file, text)
	return driverproc.Root(dir)
}

func put(t *testing.T, dir, file, text string) {
	t.Helper()
	path := filepath.Join(dir, file)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestVersion(t *testing.T) {
	const gcc = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
	for name, c := range map[string]struct{ text, want string }{
		"proprietary module": {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Wed Oct 22 19:29:53 UTC 2025\n" + gcc, "580.95.05"},
		"open module":        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@host)\n" + gcc, "580.95.05"},
		"two numbers":        {"NVRM version: NVIDIA UNIX aarch64 Kernel Module  470.82  Wed\n", "470.82"},
		"four numbers":       {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1.2.3  Wed\n", "580.1.2.3"},
		"empty file":         {"", ""},
		"other lines alone":  {gcc, ""},
		"cut in the version": {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95", ""},
		"binary":             {"\x7fELF\x00\xff\xfe" + strings.Repeat("\x00", 100), ""},
		"a number without end": {
			"NVRM version: NVIDIA UNIX x86_64 Kernel Module  5" + strings.Repeat("0", 1000) + ".1  Wed\n", "",
		},
		"huge": {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Wed\n" + strings.Repeat("x", 1<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := root(t, versionFile, c.text).Version()
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("Version() = %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if _, err := driverproc.Root(t.TempDir()).Version(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Version() without a driver = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestFilesThatWouldBlockAreRejected(t *testing.T) {
	r := root(t, versionFile, "")
	path := filepath.Join(string(r), versionFile)
	assert.NilError(t, errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)))
	done := make(chan error, 1)
	go func() { _, err := r.Version(); done <- err }()
	select {
	case err := <-done:
		assert.ErrorContains(t, err, "not a regular file")
	case <-time.After(5 * time.Minute):
		t.Fatal("Version() of a FIFO blocks")
	}
}

func TestGPU(t *testing.T) {
	none := driverproc.GPU{BusID: bus, Minor: driverproc.NoMinor}
	for name, c := range map[string]struct {
		text string
		want driverproc.GPU
	}{
		"in use": {
			"Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 42\nGPU UUID: \t GPU-1234\nBus Location: \t 0000:07:00.0\nDevice Minor: \t 3\nGPU Excluded:\t No\n",
			driverproc.GPU{BusID: bus, Name: "NVIDIA A100-SXM4-40GB", UUID: "GPU-1234", Minor: 3},
		},
		"never initialized": {
			"Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 0\n",
			driverproc.GPU{BusID: bus, Name: "NVIDIA L4", Minor: 0},
		},
		"cut in a line":     {"Model: \t\t NVIDIA L4\nDevice Min", driverproc.GPU{BusID: bus, Name: "NVIDIA L4", Minor: driverproc.NoMinor}},
		"empty":             {"", none},
		"nonsense":          {"Device Minor: x\n:::\n", none},
		"a negative minor":  {"Device Minor: -7\n", none},
		"binary":            {"\x00\x01\x02\nGPU UUID: GPU-\x00\nDevice Minor: 99999999999999999999\n", none},
		"control sequences": {"Model: NVIDIA\x1b[2J L4\n", driverproc.GPU{BusID: bus, Name: "NVIDIA?[2J L4", Minor: driverproc.NoMinor}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := root(t, information, c.text).GPU(bus)
			if d := cmp.Diff(c.want, got); d != "" || err != nil {
				t.Errorf("GPU(), error %v (-want +got):\n%s", err, d)
			}
		})
	}
	if _, err := root(t, information, strings.Repeat("Model: x\n", 1<<17)).GPU(bus); err == nil {
		t.Error("GPU() accepts a file of 1 MiB")
	}
	if _, err := root(t, "passwd", "").GPU("../../.."); err == nil || !strings.Contains(err.Error(), "not a bus ID") {
		t.Errorf("GPU() of a path that leaves the folder = %v", err)
	}
}

func TestBusIDs(t *testing.T) {
	r := root(t, information, "")
	for _, name := range []string{"0000:e1:00.0", "00010000:07:00.0", "00000000:17:00.0", "..nothing", "0000:07:00.0\n", "GPU-1"} {
		put(t, string(r), filepath.Join("driver/nvidia/gpus", name, "information"), "")
	}
	want := []string{"00000000:17:00.0", "0000:07:00.0", "0000:e1:00.0", "00010000:07:00.0"}
	if d := cmp.Diff(want, r.BusIDs()); d != "" {
		t.Errorf("BusIDs() (-want +got):\n%s", d)
	}
	if got := driverproc.Root(t.TempDir()).BusIDs(); got != nil {
		t.Errorf("BusIDs() without a driver = %q", got)
	}
}

func TestMIGMinors(t *testing.T) {
	const lines = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi1/ci1/access 14\n" +
		"gpu0/gi1/ci2/access x\ngpu0/gi1/ci3/access 5 6\ngpu/gi1/access 1\ngpu0/gi/access 1\ngpu10/gi1/access 1362\n" +
		"gpu0/gi2/access 99999999999\n\x00\xff\ngpu0/gi3/acce"
	whole := driverproc.WholeInstance
	want := map[driverproc.Capability]int{{0, 1, whole}: 12, {0, 1, 1}: 14, {10, 1, whole}: 1362}
	got, err := root(t, minorsFile, lines).MIGMinors(driverproc.Capability{0, 1, whole}, driverproc.Capability{0, 1, 1},
		driverproc.Capability{0, 1, 2}, driverproc.Capability{0, 1, 3}, driverproc.Capability{0, 2, whole},
		driverproc.Capability{0, 3, whole}, driverproc.Capability{1, 1, whole}, driverproc.Capability{10, 1, whole})
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("MIGMinors(), error %v (-want +got):\n%s", err, d)
	}
	for name, text := range map[string]string{
		"a line without end":   strings.Repeat("x", 1<<20),
		"a file that is huge":  strings.Repeat("gpu0/gi1/access 12\n", 1<<18),
		"a file of NULs alone": strings.Repeat("\x00", 1<<20),
	} {
		if _, err := root(t, minorsFile, text).MIGMinors(driverproc.Capability{0, 1, whole}); err == nil {
			t.Errorf("MIGMinors() accepts %s", name)
		}
	}
	r := driverproc.Root(t.TempDir())
	if _, err := r.MIGMinors(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), minorsFile) {
		t.Errorf("MIGMinors() without a driver = %v", err)
	}
}

func TestGPUInstances(t *testing.T) {
	r := driverproc.Root(t.TempDir())
	for _, path := range []string{
		"gpu0/mig/gi2/access", "gpu0/mig/gi10/access", "gpu0/mig/gi10/ci1/access", "gpu0/mig/gi10/ci0/access",
		"gpu0/mig/gix/access", "gpu0/mig/gi3x/access", "gpu0/mig/gi99999999999/access", "gpu1/mig/gi7/access",
	} {
		put(t, string(r), filepath.Join("driver/nvidia/capabilities", path), "")
	}
	if d := cmp.Diff([]uint32{2, 10}, r.GPUInstances(0)); d != "" {
		t.Errorf("GPUInstances() (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]uint32{0, 1}, r.ComputeInstances(0, 10)); d != "" {
		t.Errorf("ComputeInstances() (-want +got):\n%s", d)
	}
	if got := append(r.GPUInstances(2), r.ComputeInstances(0, 2)...); got != nil {
		t.Errorf("a GPU without MIG and an empty GPU instance have %v", got)
	}
}
