// Package gpus reads the GPUs of the node for programs that do not link NVML. It runs
// toolkit-gpus, the one program that does, and reads /proc where the node has no NVML.
package gpus

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"outrigger.dev/pkg/driverroot"
)

// Program is the name of the program that links NVML.
const Program = "toolkit-gpus"

// Timeout is how long Program may take by default: the first use of a GPU can take some
// seconds for each of them.
const Timeout = 60 * time.Second

// Config says where the driver is, as the flags of Program do.
type Config struct {
	// Program is the path of toolkit-gpus. If it is empty, Read finds it.
	Program string
	// HostDriverRoot and DriverRootCtrPath are where the host and this process see the
	// driver root, and DevRoot is the folder on the host with dev/nvidia*; empty to
	// find it.
	HostDriverRoot, DriverRootCtrPath, DevRoot string
	// ProcRoot and SysRoot are the host's /proc and /sys.
	ProcRoot, SysRoot string
	// RunRoot is the folder in which the agents of a node share files.
	RunRoot string
	// Timeout limits one run of the program. Default: Timeout.
	Timeout time.Duration
}

// DriverRoot returns the driver installation.
func (c Config) DriverRoot() driverroot.Config {
	return driverroot.Config{
		HostPath: c.HostDriverRoot, CtrPath: c.DriverRootCtrPath, DevRoot: c.DevRoot, ProcRoot: c.ProcRoot, SysRoot: c.SysRoot,
	}
}

// Command returns a call of Program for the driver, with more arguments.
func (c Config) Command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	for _, f := range []struct{ name, value string }{
		{"driver-root", c.HostDriverRoot},
		{"driver-root-ctr-path", c.DriverRootCtrPath},
		{"dev-root", c.DevRoot},
		{"proc-root", c.ProcRoot},
		{"sys-root", c.SysRoot},
		{"run-root", c.RunRoot},
	} {
		if f.value != "" {
			all = append(all, "--"+f.name+"="+f.value)
		}
	}
	return exec.CommandContext(ctx, c.program(), append(all, args...)...)
}

// program returns the path of Program: beside the program that runs, or where a
// package installs what no person calls.
func (c Config) program() string {
	if c.Program != "" {
		return c.Program
	}
	var paths []string
	if self, err := os.Executable(); err == nil {
		paths = append(paths, filepath.Join(filepath.Dir(self), Program))
	}
	installed := filepath.Join("/usr/libexec/nvidia-container-toolkit", Program)
	for _, p := range append(paths, installed) {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	return installed
}
