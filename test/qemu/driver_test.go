//go:build e2e

package qemu_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/qemu"
)

// TestDriverInAGuest imports drivers with stand-ins for NVIDIA's kernel modules into a store,
// and builds the modules on this machine for the guest's kernel. Guests load them.
func TestDriverInAGuest(t *testing.T) {
	m := machine(t)
	addLoader(t, &m)
	addPlugin(t, &m)
	for _, boot := range []struct {
		name, test string
		options    []string
	}{
		{"first boot", "TestFirstBoot", nil},
		{"after a reboot", "TestReboot", nil},
		{"signatures enforced", "TestSignatures", []string{"module.sig_enforce=1"}},
	} {
		t.Run(boot.name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			m := m
			m.Options = boot.options
			code, out, err := m.Run(ctx, "/usr/bin/test", "-test.v", "-test.run", "^"+boot.test+"$")
			if err != nil || code != 0 || !strings.Contains(out, "--- PASS: "+boot.test) {
				t.Errorf("exit code %d, %v\n%s", code, err, out)
			}
		})
	}
}

// addLoader adds the driver loader, its store on a disk, and its tests.
func addLoader(t *testing.T, m *qemu.Machine) {
	t.Helper()
	host := filepath.Join(os.Getenv("OUTRIGGER_BIN"), "qemu/root")
	loader := build(t, "../../agents/driver-loader", "build", ".")
	releases, err := filepath.Glob(filepath.Join(host, "lib/modules/*"))
	if err != nil || len(releases) != 1 {
		t.Fatalf("%q, %v: run: make everything", releases, err)
	}
	release := filepath.Base(releases[0])
	store := t.TempDir()
	// The loader removes drivers that were imported before those that it needs. The last one
	// fails to initialize with EIO.
	for _, version := range []string{"580.95.05", "580.105.08", "590.44.01"} {
		flags := map[string]string{"590.44.01": "ccflags-y += -DSIM_INIT_ERRNO=5\n"}[version]
		command(t, loader, "--store="+store, "import", driver(t, version, flags))
		command(t, loader, "--store="+store, "--host-root="+host, "--driver-version="+version, "build", "--kernel="+release)
	}
	m.Disk, m.DiskAt = disk(t, store), "/var/lib/outrigger/driver"
	m.Files["/usr/bin/driver-loader"] = read(t, loader)
	m.Files["/usr/bin/test"] = read(t, build(t, "internal/driver", "test", "-tags=e2e", "-c", "."))
	m.Files["/lib/modules/"+release+"/modules.builtin"] = read(t, filepath.Join(releases[0], "modules.builtin"))
}

// addPlugin adds the device plugin, and simulated libraries with one GPU.
func addPlugin(t *testing.T, m *qemu.Machine) {
	t.Helper()
	bin, node := os.Getenv("OUTRIGGER_BIN"), filepath.Join(t.TempDir(), "node")
	command(t, filepath.Join(bin, "gpu-sim"), "create", "--root="+node, "--gpus=1", "--model=h100-80")
	defer command(t, filepath.Join(bin, "gpu-sim"), "delete", "--root="+node)
	states, err := filepath.Glob(filepath.Join(node, "driver/lib/firmware/nvidia/*/gsp_sim.bin"))
	if err != nil || len(states) != 1 {
		t.Fatal(states, err)
	}
	m.Files["/sim/lib/firmware/nvidia/1/gsp_sim.bin"] = read(t, states[0])
	addProgram(t, m, filepath.Join(bin, "lib/libnvidia-ml.so.1"), "/sim/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
	addProgram(t, m, filepath.Join(bin, "device-plugin"), "/usr/bin/device-plugin")
}

// driver returns a driver root with the simulated libraries, and the sources of the stand-in
// modules with more flags for the compiler.
func driver(t *testing.T, version, flags string) string {
	t.Helper()
	root := t.TempDir()
	sources := filepath.Join(root, "usr/src/nvidia-"+version)
	if err := os.CopyFS(sources, os.DirFS("../../sim/modules")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(sources, "dkms.conf"), func(text string) string { return strings.ReplaceAll(text, "580.95.05", version) })
	edit(t, filepath.Join(sources, "Kbuild"), func(text string) string { return text + flags })
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libnvidia-ml.so.", "libcuda.so."} {
		data := read(t, filepath.Join(os.Getenv("OUTRIGGER_BIN"), "lib", name+"1"))
		if err := os.WriteFile(filepath.Join(libraries, name+version), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func edit(t *testing.T, file string, change func(string) string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(change(string(read(t, file)))), 0o600); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// disk returns a disk that has the content of a folder.
func disk(t *testing.T, folder string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	command(t, "/sbin/mke2fs", "-q", "-t", "ext4", "-d", folder, file, "64M")
	return file
}
