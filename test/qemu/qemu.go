// Package qemu runs a program in a virtual machine with Debian's kernel. Tests use it for features
// that this machine may lack: only cgroups of version 2, and a kernel that loads modules. The
// processor is emulated, so only qemu is needed.
package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Machine is a virtual machine that runs one program.
type Machine struct {
	// Kernel is the path of the kernel's image. The folder modules next to it has its modules.
	Kernel string
	// Init is the path of the static program that runs as the first process.
	Init string
	// Files are the files of the guest, by path. All are executable.
	Files map[string][]byte
	// Links are the targets of the guest's symbolic links, by path.
	Links map[string]string
	// Disk is the path of a disk image with ext4 on this machine, or "" for none. The guest mounts
	// it at the folder DiskAt. Its content persists across boots.
	Disk, DiskAt string
	// Discard discards the guest's writes to the disk at the end.
	Discard bool
	// Devices are values of the emulator's option -device.
	Devices []string
	// Env is the environment of the program, as "NAME=value".
	Env []string
	// Options are added to the kernel's command line.
	Options []string
	// MemoryMiB is the guest's memory. The minimum is 512.
	MemoryMiB int
}

// console collects the output of the guest. The guest powers off after its exit code. If it does
// not within ten seconds, console ends the emulator.
type console struct {
	bytes.Buffer
	end    func()
	ending bool
}

func (c *console) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if !c.ending && exitCode.Match(c.Bytes()) {
		c.ending = true
		time.AfterFunc(10*time.Second, c.end)
	}
	return n, err
}

var exitCode = regexp.MustCompile(`(?m)^guest-exit-code=(\d+)\r?$`)

// Run boots the machine, runs the program args[0] of the guest, and returns its exit code and the
// output of the guest. It returns an error if the guest did not report an exit code.
func (m Machine) Run(ctx context.Context, args ...string) (code int, output string, err error) {
	dir, err := os.MkdirTemp("", "qemu")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	initrd, err := m.initrd(dir, args)
	if err != nil {
		return 0, "", err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	out := console{end: end}
	options := []string{
		"-accel", "tcg,thread=multi", "-cpu", "max",
		"-m", strconv.Itoa(max(m.MemoryMiB, 512)), "-smp", "1", "-nodefaults", "-no-user-config", "-no-reboot",
		"-display", "none", "-monitor", "none", "-serial", "stdio", "-kernel", m.Kernel, "-initrd", initrd,
		"-append", strings.Join(append([]string{"console=ttyS0 loglevel=5 no_timer_check panic=-1 mitigations=off"}, m.Options...), " "),
	}
	if m.Disk != "" {
		// Not NVMe: in one of some tens of boots, the NVMe device of Debian 12's qemu loses
		// requests for good.
		snapshot := map[bool]string{true: "on", false: "off"}[m.Discard]
		options = append(options, "-drive", "if=virtio,format=raw,snapshot="+snapshot+",file="+m.Disk)
	}
	for _, device := range m.Devices {
		options = append(options, "-device", device)
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", options...)
	cmd.Stdout, cmd.Stderr = &out, &out
	ran := cmd.Run()
	output = strings.ReplaceAll(out.String(), "\r\n", "\n")
	found := exitCode.FindStringSubmatch(output)
	if found == nil {
		return 0, output, fmt.Errorf("run %s in a virtual machine: the guest did not report an exit code: %w", args[0], errors.Join(ran, ctx.Err()))
	}
	code, err = strconv.Atoi(found[1])
	return code, output, err
}

// initrd writes the archive of the guest's files.
func (m Machine) initrd(dir string, args []string) (string, error) {
	files := map[string][]byte{
		"/guest/args": []byte(strings.Join(args, "\x00")),
		"/guest/env":  []byte(strings.Join(m.Env, "\x00")),
	}
	if m.Disk != "" {
		files["/guest/disk"] = []byte(m.DiskAt)
		if err := m.addModules(files, "virtio/virtio_ring", "virtio/virtio", "virtio/virtio_pci_legacy_dev",
			"virtio/virtio_pci_modern_dev", "virtio/virtio_pci", "block/virtio_blk"); err != nil {
			return "", err
		}
	}
	maps.Copy(files, m.Files)
	init, err := os.ReadFile(m.Init)
	if err != nil {
		return "", err
	}
	files["/init"] = init
	path := filepath.Join(dir, "initrd")
	return path, os.WriteFile(path, archive(files, m.Links), 0o600)
}

// addModules adds drivers from the kernel's modules. The guest loads them in this order, before the
// other modules in /guest/modules. A driver without a module file is built into the kernel.
func (m Machine) addModules(files map[string][]byte, drivers ...string) error {
	for i, driver := range drivers {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(m.Kernel), "modules/drivers", driver+".ko"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files[fmt.Sprintf("/guest/modules/%02d-%s.ko", i, filepath.Base(driver))] = data
	}
	return nil
}
