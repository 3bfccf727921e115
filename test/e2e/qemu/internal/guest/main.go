// Guest is the first process of a virtual machine that shares the root of the machine
// below it: it runs one command there, and turns the machine off. What the command writes
// is gone with the machine. The control groups of the machine are of version 2 only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Command is the file /command of the initial file system.
type Command struct {
	Args, Env []string
	// Modules are files of kernel modules, in any order.
	Modules []string
}

func main() {
	err := run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		fmt.Fprintln(os.Stdout, "\nguest: exit code 0")
	case errors.As(err, &exit):
		fmt.Fprintf(os.Stdout, "\nguest: exit code %d\n", exit.ExitCode())
	default:
		fmt.Fprintln(os.Stdout, "\nguest:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	var c Command
	data, err := os.ReadFile("/command")
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return err
	}
	if err := loadAll(c.Modules); err != nil {
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, os.Stdout, os.Stdout
	return cmd.Run()
}

// loadAll loads modules. The kernel answers ENOENT for one that needs another one first.
func loadAll(modules []string) error {
	for len(modules) > 0 {
		var later []string
		for _, m := range modules {
			err := load(m)
			if errors.Is(err, unix.ENOENT) {
				later = append(later, m)
			} else if err != nil {
				return fmt.Errorf("load %s: %w", m, err)
			}
		}
		if len(later) == len(modules) {
			return fmt.Errorf("load %q: they need other modules", later)
		}
		modules = later
	}
	return nil
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// enter makes the root of the machine below, with what is written kept in memory, the
// root of this process.
func enter() error {
	const layers = "lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work"
	for _, m := range []struct{ source, at, fstype, options string }{
		{"host", "/host", "9p", "trans=virtio,version=9p2000.L,msize=524288,cache=loose"},
		{"memory", "/memory", "tmpfs", "mode=755"},
		{"root", "/root", "overlay", layers},
		{"proc", "/root/proc", "proc", ""},
		{"sysfs", "/root/sys", "sysfs", ""},
		{"cgroup", "/root/sys/fs/cgroup", "cgroup2", ""},
		{"dev", "/root/dev", "devtmpfs", ""},
		{"pts", "/root/dev/pts", "devpts", ""},
		{"shm", "/root/dev/shm", "tmpfs", ""},
		{"mqueue", "/root/dev/mqueue", "mqueue", ""},
		{"run", "/root/run", "tmpfs", "mode=755"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if m.at == "/root" {
			if err := errors.Join(os.Mkdir("/memory/upper", 0o755), os.Mkdir("/memory/work", 0o755)); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.source, m.at, m.fstype, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := unix.Chdir("/root"); err != nil {
		return err
	}
	// The initial file system cannot be unmounted: its place is taken.
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}
