// Init is the first process of the guest: it mounts the disk and the file systems that programs
// expect, loads the modules in /guest/modules, runs the program of /guest/args, prints its exit
// code and powers off. In a guest with the unit /guest/guest.service, it becomes systemd instead.
// The unit then starts Init again to run the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mount is a file system of the guest.
type mount struct{ fstype, dir, options string }

// mounts returns the file systems in mount order.
func mounts() []mount {
	return []mount{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"tmpfs", "/tmp", "mode=1777"},
		{"tmpfs", "/run", "mode=755"},
		{"cgroup2", "/sys/fs/cgroup", ""},
		{"bpf", "/sys/fs/bpf", "mode=700"},
	}
}

func main() {
	code, err := 125, error(nil)
	if os.Getpid() == 1 {
		err = prepare()
	}
	if err == nil {
		code, err = run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	unix.Sync()
	fmt.Fprintf(os.Stderr, "\nguest-exit-code=%d\n", code)
	fmt.Fprintln(os.Stderr, "init:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// loadModules loads the modules of a folder in the order of their names.
func loadModules(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		f, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil {
			return fmt.Errorf("load module %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func writeUsers() error {
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/:/bin/sh\n"), 0o644)
}

// enterRoot makes the root of the guest a mount that programs can leave by pivot_root. The kernel
// does not allow pivot_root for the initial root.
func enterRoot() error {
	const dir = "/root"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind /: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := unix.Mount(dir, "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	return unix.Chroot(".")
}

// prepare makes the guest ready for programs.
func prepare() error {
	if err := enterRoot(); err != nil {
		return err
	}
	for _, m := range mounts() {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.fstype, m.dir, m.fstype, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	// Programs of the guest look up the owner of files.
	if err := writeUsers(); err != nil {
		return err
	}
	if err := loadModules("/guest/modules"); err != nil {
		return err
	}
	if err := mountDisk(); err != nil {
		return err
	}
	return becomeSystemd("/guest/guest.service")
}

// mountDisk mounts the disk at the folder named in /guest/disk, if this file exists.
func mountDisk() error {
	const disk = "/dev/vda"
	at, err := os.ReadFile("/guest/disk")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(at), 0o755); err != nil {
		return err
	}
	// The kernel may detect the disk after the start of this program.
	for range 3000 {
		if err = unix.Mount(disk, string(at), "ext4", 0, ""); !errors.Is(err, unix.ENOENT) {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", disk, at, err)
	}
	return nil
}

// becomeSystemd replaces this process with systemd, which starts only the unit in a file. It
// returns nil if the file does not exist.
func becomeSystemd(unit string) error {
	if _, err := os.Stat(unit); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	const units = "/run/systemd/system"
	name := filepath.Base(unit)
	if err := os.MkdirAll(units, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(unit, filepath.Join(units, name)); err != nil {
		return err
	}
	const systemd = "/usr/lib/systemd/systemd"
	return fmt.Errorf("become %s: %w", systemd, unix.Exec(systemd, []string{systemd, "--unit=" + name, "--show-status=no", "--log-target=console"}, environment()))
}

// environment returns the environment variables of the guest's programs.
func environment() []string {
	return []string{"PATH=/bin:/usr/bin:/sbin:/usr/sbin", "HOME=/tmp"}
}

func run(ctx context.Context) (int, error) {
	args, err := os.ReadFile("/guest/args")
	if err != nil {
		return 125, err
	}
	words := strings.Split(string(args), "\x00")
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	cmd.Dir = "/tmp"
	cmd.Env = environment()
	env, err := os.ReadFile("/guest/env")
	if err != nil {
		return 125, err
	}
	if len(env) > 0 {
		cmd.Env = append(cmd.Env, strings.Split(string(env), "\x00")...)
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 126, err
	}
	return 0, nil
}
