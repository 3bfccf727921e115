package node

import (
	"fmt"
	"io/fs"

	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

// nvidiaMajor is the driver's fixed character major. The kernel assigns the other majors when it
// loads their modules.
const (
	nvidiaMajor  = 195
	minorCtl     = 255
	minorModeset = 254
)

// devices returns the part of /dev that every node has, with the kernel's fixed numbers.
func devices() []tree.Entry {
	entries := []tree.Entry{
		tree.CharDevice("dev/null", 0o666, 1, 3),
		tree.CharDevice("dev/zero", 0o666, 1, 5),
		tree.CharDevice("dev/full", 0o666, 1, 7),
		tree.CharDevice("dev/random", 0o666, 1, 8),
		tree.CharDevice("dev/urandom", 0o666, 1, 9),
		tree.CharDevice("dev/kmsg", 0o644, 1, 11),
		tree.CharDevice("dev/tty", 0o666, 5, 0),
		tree.CharDevice("dev/console", 0o600, 5, 1),
		tree.CharDevice("dev/fuse", 0o666, 10, 229),
		tree.CharDevice("dev/net/tun", 0o666, 10, 200),
		tree.CharDevice("dev/ptmx", 0o666, 5, 2),
		tree.Symlink("dev/fd", "/proc/self/fd"),
		tree.Symlink("dev/stdin", "/proc/self/fd/0"),
		tree.Symlink("dev/stdout", "/proc/self/fd/1"),
		tree.Symlink("dev/stderr", "/proc/self/fd/2"),
	}
	for _, mount := range devMounts() {
		entries = append(entries, tree.Dir("dev/"+mount))
	}
	return entries
}

// devMounts returns the folders of /dev that are separate file systems.
func devMounts() []string { return []string{"pts", "shm", "mqueue"} }

// devGPU returns the device node of a GPU.
func devGPU(g state.GPU) tree.Entry {
	return tree.CharDevice(devGPUPath(g), 0o666, nvidiaMajor, uint32(g.Minor))
}

func devGPUPath(g state.GPU) string { return fmt.Sprintf("dev/nvidia%d", g.Minor) }

// The device nodes that do not belong to a GPU. The control node appears last, so that a program
// that waits for it finds all others.
const (
	devCtl     = "dev/nvidiactl"
	devModeset = "dev/nvidia-modeset"
	devUVM     = "dev/nvidia-uvm"
	devTools   = "dev/nvidia-uvm-tools"
	devCaps    = "dev/nvidia-caps"
	devIMEX    = "dev/nvidia-caps-imex-channels"
)

// devDriver returns the device nodes of the driver that do not belong to a GPU.
func devDriver(m majors) []tree.Entry {
	capNode := func(minor uint32, perm fs.FileMode) tree.Entry {
		return tree.CharDevice(fmt.Sprintf("%s/nvidia-cap%d", devCaps, minor), perm, m.caps, minor)
	}
	return []tree.Entry{
		capNode(capConfig, 0o400),
		capNode(capMonitor, 0o444),
		tree.CharDevice(devUVM, 0o666, m.uvm, 0),
		tree.CharDevice(devTools, 0o666, m.uvm, 1),
		tree.CharDevice(devModeset, 0o666, nvidiaMajor, minorModeset),
		tree.CharDevice(devCtl, 0o666, nvidiaMajor, minorCtl),
	}
}

// devChannels returns the device nodes of the IMEX channels.
func devChannels(m majors, count int) []tree.Entry {
	var entries []tree.Entry
	for n := range count {
		entries = append(entries, tree.CharDevice(fmt.Sprintf("%s/channel%d", devIMEX, n), 0o666, m.imex, uint32(n)))
	}
	return entries
}
