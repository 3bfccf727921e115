package agent

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/gpu/index"
)

// Host holds the folders through which an agent sees its node.
type Host struct {
	// DriverRoot is the driver root on the host: "/" or, for a driver in a container,
	// "/run/nvidia/driver". The paths in CDI specs and in answers to the kubelet are below it.
	DriverRoot string
	// DriverRootCtrPath is the driver root's path for the agent itself.
	DriverRootCtrPath string
	// DevRoot is the folder that contains "dev/nvidia*". If it is empty, the agent chooses the
	// folder itself.
	DevRoot string
	// ProcRoot and SysRoot are the host's /proc and /sys.
	ProcRoot string
	SysRoot  string
	// RunRoot is the folder of the node contract (package contract).
	RunRoot string
	// IndexDir is a folder that survives a reboot, for the indices of the GPUs.
	IndexDir string
	// Snapshot is the file with the GPUs, "" if the agent reads them from NVML.
	Snapshot string
}

// ctrDriverRoot is the mount path of the driver root in the charts of the agents.
const ctrDriverRoot = "/driver-root"

// Flags returns the flags that set the folders. short are aliases of the first flags, in the same
// order.
func (h *Host) Flags(short ...string) []cli.Flag {
	paths := []*cli.PathFlag{
		{
			Name: "driver-root", Aliases: []string{"nvidia-driver-root"}, EnvVars: []string{"NVIDIA_DRIVER_ROOT"}, Value: "/", Destination: &h.DriverRoot,
			Usage: "root `FOLDER` of the driver installation on the host",
		},
		{
			Name: "driver-root-ctr-path", Aliases: []string{"container-driver-root"}, EnvVars: []string{"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"},
			DefaultText: `"` + ctrDriverRoot + `"`, Destination: &h.DriverRootCtrPath,
			Usage: "`FOLDER` at which the agent sees the driver root; if the default does not exist, the value of --driver-root",
		},
		{
			Name: "dev-root", Aliases: []string{"nvidia-dev-root"}, EnvVars: []string{"NVIDIA_DEV_ROOT"}, Value: "/", Destination: &h.DevRoot,
			Usage: "`FOLDER` on the host that contains dev/nvidia*",
		},
		{
			Name: "proc-root", EnvVars: []string{"PROC_ROOT"}, Value: "/proc", Destination: &h.ProcRoot,
			Usage: "`FOLDER` at which the agent sees /proc of the host",
		},
		{
			Name: "sys-root", EnvVars: []string{"SYS_ROOT"}, Value: "/sys", Destination: &h.SysRoot,
			Usage: "`FOLDER` at which the agent sees /sys of the host",
		},
		{
			Name: "run-root", EnvVars: []string{"RUN_ROOT"}, Value: "/run/nvidia", Destination: &h.RunRoot,
			Usage: "`FOLDER` in which the agents of a node share files",
		},
	}
	flags := make([]cli.Flag, len(paths))
	for i, f := range paths {
		if i < len(short) {
			f.Aliases = append(f.Aliases, short[i])
		}
		flags[i] = cmdline.Check(f, "an absolute path", func(v string) bool {
			if v == "" {
				return f.Destination == &h.DevRoot
			}
			*f.Destination = filepath.Clean(v)
			return filepath.IsAbs(v)
		})
	}
	return cmdline.Under(category.Node, flags...)
}

// IndexFlag returns the flag that sets IndexDir.
func (h *Host) IndexFlag() cli.Flag {
	return cmdline.Check(&cli.PathFlag{
		Name: "index-dir", EnvVars: []string{"INDEX_DIR"}, DefaultText: index.DefaultDir + ", or none with another --run-root", Destination: &h.IndexDir, Category: category.Node,
		Usage: "`FOLDER` in which the agents of a node remember over a reboot which GPU each index names; they do not remember it if the folder does not exist",
	}, "an absolute path", func(v string) bool { return v == "" || filepath.IsAbs(v) })
}

// GPUFlags returns the flags of Flags and the flags that set IndexDir and Snapshot.
func (h *Host) GPUFlags() []cli.Flag {
	return append(h.Flags(), h.IndexFlag(), cmdline.Check(&cli.StringFlag{
		Name: "gpu-source", EnvVars: []string{"GPU_SOURCE"}, Value: "nvml", Category: category.Node,
		Usage: "`SOURCE` of the state of GPUs: nvml, or file:PATH for a file with the output of the command snapshot",
	}, "nvml or file:PATH", func(v string) bool {
		path, isFile := strings.CutPrefix(v, "file:")
		if isFile {
			h.Snapshot = path
		}
		return v == "nvml" || h.Snapshot != ""
	}))
}

// complete sets DriverRootCtrPath after the flags are parsed, if the command line does not set it.
func (h *Host) complete() {
	if h.DriverRootCtrPath != "" {
		return
	}
	h.DriverRootCtrPath = ctrDriverRoot
	if fi, err := os.Stat(ctrDriverRoot); err != nil || !fi.IsDir() {
		h.DriverRootCtrPath = filepath.Clean(h.DriverRoot)
	}
}
