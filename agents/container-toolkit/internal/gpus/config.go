// Package gpus reads the GPUs of the node for programs that do not link NVML. It runs the
// program toolkit-gpus, which links NVML. On a node without NVML it reads /proc.
package gpus

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/index"
)

// Program is the name of the program that links NVML.
const Program = "toolkit-gpus"

// Timeout is the default time limit of Program. The first use of each GPU can take some seconds.
const Timeout = 60 * time.Second

// Config has the places of the driver, as in the flags of Program.
type Config struct {
	// Program is the path of toolkit-gpus. If it is empty, Read finds it.
	Program string
	// HostDriverRoot and DriverRootCtrPath are the paths of the driver root on the host and in
	// this process. DevRoot is the folder on the host that contains dev/nvidia*; if it is
	// empty, it is detected.
	HostDriverRoot, DriverRootCtrPath, DevRoot string
	// ProcRoot and SysRoot are the host's /proc and /sys.
	ProcRoot, SysRoot string
	// RunRoot is the folder with the files that the agents of a node share.
	RunRoot string
	// IndexDir is the folder that keeps the indices of the GPUs over a reboot (index.Config.Dir), ""
	// for the default.
	IndexDir string
	// Timeout limits one run of the program. Default: Timeout.
	Timeout time.Duration
	// LeaseWait is how long Read waits while another program has claimed NVML, for example to change
	// GPUs. If it is 0, Read fails at once. Waiting is called with the error before Read waits; it may
	// be nil.
	LeaseWait time.Duration
	Waiting   func(error)
}

// ClaimedCode is the exit code of Program while another program has claimed NVML. "nvidia-ctk cdi
// generate" and mig-manager have the same code.
const ClaimedCode = 3

// DriverRoot returns the config of the driver root.
func (c Config) DriverRoot() driverroot.Config {
	return driverroot.Config{
		HostPath: c.HostDriverRoot, CtrPath: c.DriverRootCtrPath, DevRoot: c.DevRoot, ProcRoot: c.ProcRoot, SysRoot: c.SysRoot,
	}
}

// Pins returns the indices of the GPUs of the node.
func (c Config) Pins() *index.Pins {
	return index.New(index.Config{
		Contract: contract.Dir{Root: c.RunRoot, ProcRoot: c.ProcRoot}, Dir: index.Dir(c.IndexDir, c.RunRoot), Writer: Program,
	})
}

// Command returns the command that calls Program for the driver, with more arguments.
func (c Config) Command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	for _, f := range []struct{ name, value string }{
		{"driver-root", c.HostDriverRoot},
		{"driver-root-ctr-path", c.DriverRootCtrPath},
		{"dev-root", c.DevRoot},
		{"proc-root", c.ProcRoot},
		{"sys-root", c.SysRoot},
		{"run-root", c.RunRoot},
		{"index-dir", c.IndexDir},
	} {
		if f.value != "" {
			all = append(all, "--"+f.name+"="+f.value)
		}
	}
	return exec.CommandContext(ctx, c.program(), append(all, args...)...)
}

// program returns the path of Program: in the folder of the running program, or in the folder
// for installed programs that people do not call.
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
