//go:build e2e

package qemu_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		discard    bool
	}{
		{"drivers that cannot be loaded", "TestRejected", nil, true},
		{"nouveau is loaded", "TestNouveau", nil, true},
		{"optional modules fail", "TestOptional", nil, true},
		{"a driver is loaded by half", "TestHalfLoaded", nil, true},
		{"another program mounts over the driver", "TestForeignMount", nil, true},
		{"drivers of NVIDIA's images", "TestImages", nil, true},
		{"a wrong clock", "TestClock", nil, true},
		{"first boot", "TestFirstBoot", nil, false},
		{"after a reboot", "TestReboot", nil, false},
		{"signatures enforced", "TestSignatures", []string{"module.sig_enforce=1"}, false},
	} {
		t.Run(boot.name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			m := m
			m.Options, m.Discard = boot.options, boot.discard
			if boot.test == "TestOptional" {
				m.Devices = append(slices.Clip(m.Devices), "edu,addr=6") // the network adapter
			}
			code, out, err := m.Run(ctx, "/usr/bin/test", "-test.v", "-test.run", "^"+boot.test+"$")
			if err != nil || code != 0 || !strings.Contains(out, "--- PASS: "+boot.test) {
				t.Errorf("exit code %d, %v\n%s", code, err, out)
			}
			for line := range strings.Lines(out) { // what the guest's test has measured
				if strings.Contains(line, "_test.go:") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// addLoader adds the driver loader, its store on a disk, and its tests.
func addLoader(t *testing.T, m *qemu.Machine) {
	t.Helper()
	host, loader := filepath.Join(os.Getenv("OUTRIGGER_BIN"), "qemu/root"), filepath.Join(os.Getenv("OUTRIGGER_BIN"), "driver-loader")
	releases, err := filepath.Glob(filepath.Join(host, "lib/modules/*"))
	if err != nil || len(releases) != 1 {
		t.Fatalf("%q, %v: run: make everything", releases, err)
	}
	release := filepath.Base(releases[0])
	store := t.TempDir()
	// The loader removes drivers that were imported before those that it needs.
	gdrcopy := filepath.Join(t.TempDir(), "usr/src/gdrdrv-2.5")
	if err := os.CopyFS(gdrcopy, os.DirFS("../../sim/optional/gdrdrv")); err != nil {
		t.Fatal(err)
	}
	command(t, loader, "--store="+store, "import-sources", strings.TrimSuffix(gdrcopy, "/usr/src/gdrdrv-2.5"))
	for _, d := range []struct {
		version string
		change  func(sources string)
	}{
		{"580.95.05", nil},
		{"580.105.08", func(sources string) { // has stand-ins for nouveau, and for a nvidia_fs that fails, beside its own modules
			for _, module := range []string{"nouveau", "nvidia-fs"} {
				if err := os.CopyFS(filepath.Join(sources, module), os.DirFS("testdata/"+module)); err != nil {
					t.Fatal(err)
				}
			}
			edit(t, filepath.Join(sources, "Makefile"), func(text string) string { return strings.Replace(text, "ALL := ", "ALL := nouveau nvidia-fs ", 1) })
		}},
		{"590.44.01", func(sources string) { // fails to initialize with EIO
			edit(t, filepath.Join(sources, "Kbuild"), func(text string) string { return text + "ccflags-y += -DSIM_INIT_ERRNO=5\n" })
		}},
		{"590.44.02", func(sources string) { // needs udp_tunnel, which the guest does not have
			edit(t, filepath.Join(sources, "nvidia-drm/nvidia-drm-linux.c"), func(text string) string {
				return text + "#include <net/udp_tunnel.h>\nvoid *needed(void);\nvoid *needed(void) { return udp_tunnel_sock_release; }\n"
			})
		}},
	} {
		command(t, loader, "--store="+store, "--host-root="+host, "--gdrcopy-enabled", "build", "--source="+driver(t, d.version, d.change), "--kernel="+release)
	}
	modules := builtFor(t, store, "580.95.05")
	for version, change := range map[string][2]string{
		"580.95.06": {"vermagic=" + release + " SMP ", "vermagic=" + release + "     "},
		"580.95.07": {"vermagic=" + release + " ", "vermagic=" + strings.Replace(release, "6.", "5.", 1) + " "},
	} {
		changed := otherVersion(t, modules, version, func(_, module string) string { return strings.Replace(module, change[0], change[1], 1) })
		command(t, loader, "--store="+store, "import", redHatImage(t, changed, version, release))
	}
	addImages(t, []string{loader, "--store=" + store, "--host-root=" + host}, modules, release)
	for _, version := range []string{"580.95.12", "580.95.13"} {
		same := func(_, module string) string { return module }
		addFolder(t, m, redHatImage(t, otherVersion(t, modules, version, same), version, release), "/images/"+version)
	}
	// Only this tells the agent which options the kernel has.
	const installed = "kernel/drivers/net/dummy.ko"
	m.Files["/lib/modules/"+release+"/"+installed] = read(t, filepath.Join(releases[0], installed))
	m.Files["/lib/modules/"+release+"/modules.dep"] = []byte(installed + ":\n")
	// The guest's GPU, by the numbers that its tests give it.
	m.Devices = []string{"edu,addr=5"}
	m.Disk, m.DiskAt = disk(t, store), "/var/lib/outrigger/driver"
	m.Files["/usr/bin/driver-loader"] = read(t, loader)
	m.Files["/usr/bin/test"] = read(t, build(t, "internal/driver", "test", "-vet=off", "-c", "."))
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

// builtFor returns the folder in a store with the modules of a version.
func builtFor(t *testing.T, store, version string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store, "modules/*/*/nvidia.ko"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(string(read(t, file)), "version="+version+"\x00") {
			return filepath.Dir(file)
		}
	}
	t.Fatalf("%s has no modules of %s", store, version)
	return ""
}

// driver returns a driver root with the simulated libraries, and the sources of the stand-in
// modules after a change; nil for none.
func driver(t *testing.T, version string, change func(sources string)) string {
	t.Helper()
	root := simulated(t, version)
	sources := filepath.Join(root, "usr/src/nvidia-"+version)
	if err := os.CopyFS(sources, os.DirFS("../../sim/modules")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(sources, "dkms.conf"), func(text string) string { return strings.ReplaceAll(text, "580.95.05", version) })
	if change != nil {
		change(sources)
	}
	return root
}

// simulated returns a driver root with the simulated libraries.
func simulated(t *testing.T, version string) string {
	t.Helper()
	root := t.TempDir()
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
