//go:build e2e

// Package qemu_test runs tests of other packages in a virtual machine, whose control
// groups are of version 2 only: machines for tests often have version 1.
package qemu_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// limit is how long a machine may run: its processor is simulated as well.
const limit = 8 * time.Minute

// kernelVariable names a folder with a kernel as a package of Debian has it: boot/vmlinuz-*
// and lib/modules.
const kernelVariable = "OUTRIGGER_KERNEL"

// machine is a virtual machine that shares the root of this one.
type machine struct {
	t             *testing.T
	root, dir     string
	image         string
	modules       []string
	moduleContent map[string][]byte
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("this machine has no root user for the test: the virtual machine reads all of its files")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("this machine has no qemu-system-x86_64: apt-get install --no-install-recommends qemu-system-x86")
	}
	m := &machine{t: t, root: root, dir: t.TempDir(), moduleContent: map[string][]byte{}}
	m.kernel()
	return m
}

// kernel finds the kernel, and the modules without which it cannot share a root.
func (m *machine) kernel() {
	m.t.Helper()
	folder := os.Getenv(kernelVariable)
	images, err := filepath.Glob(filepath.Join("/", folder, "boot/vmlinuz-*"))
	if err != nil || len(images) == 0 {
		m.t.Skipf("this machine has no kernel in /boot: apt-get download a linux-image-*-amd64, unpack it with dpkg -x, and point %s to the folder", kernelVariable)
	}
	m.image = images[len(images)-1]
	_, release, _ := strings.Cut(filepath.Base(m.image), "-")
	found := map[string]string{}
	err = filepath.WalkDir(filepath.Join("/", folder, "lib/modules", release, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(p), ".ko"); ok {
			found[name] = p
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	// A module is missing here if the kernel has it built in.
	for _, name := range []string{
		"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci",
		"netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay",
	} {
		p, ok := found[name]
		if !ok {
			continue
		}
		data, err := os.ReadFile(p)
		if err != nil {
			m.t.Fatal(err)
		}
		at := "/" + filepath.Base(p)
		m.modules, m.moduleContent[at] = append(m.modules, at), data
	}
}

// run runs a command, and returns what it printed and whether it succeeded.
func (m *machine) run(env []string, args ...string) (string, bool) {
	m.t.Helper()
	init := filepath.Join(m.dir, "init")
	m.build([]string{"build", "-o", init, "./internal/guest"}, ".")
	program, err := os.ReadFile(init)
	if err != nil {
		m.t.Fatal(err)
	}
	command, err := json.Marshal(map[string]any{"Args": args, "Env": env, "Modules": m.modules})
	if err != nil {
		m.t.Fatal(err)
	}
	archive := &cpio{}
	for _, dir := range []string{"dev", "host", "memory", "root"} {
		archive.add(dir, 0o040755, nil)
	}
	archive.add("init", 0o100755, program)
	archive.add("command", 0o100644, command)
	for at, data := range m.moduleContent {
		archive.add(at[1:], 0o100644, data)
	}
	initrd := filepath.Join(m.dir, "initrd")
	if err := os.WriteFile(initrd, archive.end(), 0o600); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(m.t.Context(), limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1536",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
		"-kernel", m.image, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init").CombinedOutput()
	if err != nil {
		m.t.Fatalf("run the virtual machine: %v: %s", err, out)
	}
	text := strings.ReplaceAll(string(out), "\r\n", "\n")
	return text, strings.Contains(text, "\nguest: exit code 0\n")
}

// build runs go in a folder, without cgo: the guest has no C library at first.
func (m *machine) build(args []string, dir string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// cpio is the archive of an initial file system, in the format "newc" of the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst.
type cpio struct {
	bytes.Buffer
	inode int
}

func (c *cpio) add(name string, mode int, data []byte) {
	c.inode++
	fmt.Fprintf(c, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	c.pad()
	c.Write(data)
	c.pad()
}

func (c *cpio) pad() { c.Write(make([]byte, -c.Len()&3)) }

func (c *cpio) end() []byte {
	c.add("TRAILER!!!", 0, nil)
	return c.Bytes()
}

// TestContainerToolkitOnCgroup2 runs the tests of the container toolkit that ask the kernel
// what a container may open.
func TestContainerToolkitOnCgroup2(t *testing.T) {
	m := newMachine(t)
	for pkg, tc := range map[string]struct {
		tests   string
		skipped []string
	}{
		"devcgroup": {"Allow", []string{"TestAllowByFile", "TestAllowByFileBelowACgroupThatDoesNot"}},
		// A container that is started takes half a minute.
		"prestart": {"TestContainerGetsTheGPUsThatItAsksFor", nil},
	} {
		t.Run(pkg, func(t *testing.T) {
			m.t = t
			program := filepath.Join(m.dir, pkg+".test")
			m.build([]string{"test", "-c", "-o", program, "./internal/" + pkg}, filepath.Join(m.root, "agents/container-toolkit"))
			env := []string{
				"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/run",
				"OUTRIGGER_BIN=" + filepath.Join(m.root, "bin"),
			}
			out, ok := m.run(env, "/bin/sh", "-c", fmt.Sprintf("cd %s && exec %s -test.v -test.run=%s", filepath.Join(m.root, "agents/container-toolkit/internal", pkg), program, tc.tests))
			t.Log(out)
			if !ok {
				t.Error("the tests failed in the virtual machine")
			}
			for line := range strings.Lines(out) {
				name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- SKIP: ")
				name, _, _ = strings.Cut(name, " ")
				if ok && !slices.Contains(tc.skipped, name) {
					t.Errorf("%s is skipped in the virtual machine", name)
				}
			}
		})
	}
}
