package nodeinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// machineDevices lists the device nodes of the machine that a node gets.
func machineDevices() []string {
	return []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse", "net/tun"}
}

// makeDevices creates a separate /dev for the node at the path dev. A privileged pod would change
// the machine if the node had the machine's /dev. A GPU node has the /dev of its simulated GPUs.
func makeDevices(s Spec, dev string) error {
	var err error
	if s.GPUSim == "" {
		err = plainDevices(dev)
	} else {
		err = bind(filepath.Join(s.GPUSim, "dev"), dev, 0)
	}
	if err != nil {
		return err
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return errors.Join(
		mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"),
		mount("tmpfs", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		mount("mqueue", filepath.Join(dev, "mqueue"), "mqueue", safe, ""),
	)
}

// plainDevices creates the device nodes of a node without GPUs.
func plainDevices(dev string) error {
	if err := mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, name := range machineDevices() {
		if err := copyDevice(filepath.Join("/dev", name), filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("link device: %w", err)
		}
	}
	return nil
}

// copyDevice creates a copy of a device node of the machine, if the machine has it.
func copyDevice(from, to string) error {
	var s unix.Stat_t
	err := unix.Stat(from, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stat device %s: %w", from, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("create folder of device: %w", err)
	}
	if err := unix.Mknod(to, s.Mode, int(s.Rdev)); err != nil {
		return fmt.Errorf("create device %s: %w", to, err)
	}
	if err := os.Chmod(to, os.FileMode(s.Mode&0o777)); err != nil {
		return fmt.Errorf("set mode of device: %w", err)
	}
	return nil
}
