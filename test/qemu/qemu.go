// Package qemu runs a program in a virtual machine, with Debian's kernel. Tests use it
// for what they cannot have of the machine they run on: cgroups of version 2 alone, and
// a kernel that takes modules. The processor is emulated, so nothing but qemu is needed.
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
	// Kernel is the path of the kernel's image. The folder modules beside it has its modules.
	Kernel string
	// Init is the path of the static program that runs as the first process.
	Init string
	// Files are the files of the guest by their paths there. All can be executed.
	Files map[string][]byte
	// Links are symbolic links of the guest, by their paths, with their targets.
	Links map[string]string
	// Disk is the path of a disk of this machine, with ext4, "" for none. The guest mounts it
	// at the folder DiskAt. What it writes there is there again when it boots with the disk.
	Disk, DiskAt string
	// Discard is set if what the guest writes to the disk is lost instead.
	Discard bool
	// Devices are devices of the emulator, as values of its option -device.
	Devices []string
	// Env are variables of the program, as "NAME=value".
	Env []string
	// Options are added to the kernel's command line.
	Options []string
	// MemoryMiB is the guest's memory. Default 512.
	MemoryMiB int
}

// console has what the guest prints. After the exit code, the guest powers off; one that does
// not in a while is ended.
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

// Run boots the machine, runs the program args[0] of the guest, and returns its exit
// code and what the guest printed. It returns an error if the guest did not get as far.
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
		// Not NVMe: the one of Debian 12's qemu loses requests of one boot in some tens, for ever.
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

// addModules adds the drivers among the kernel's modules that the guest loads, in this order,
// before the others of /guest/modules. The kernel has those built in that are not there.
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
