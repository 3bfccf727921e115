package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
)

// Host holds the folders through which an agent sees its node.
type Host struct {
	// DriverRoot is the driver root on the host: "/" or, for a driver in a
	// container, "/run/nvidia/driver". Paths that the agent passes on, in CDI specs
	// and answers to the kubelet, are below it.
	DriverRoot string
	// DriverRootCtrPath is the path at which the agent itself sees the driver root.
	DriverRootCtrPath string
	// DevRoot is the folder that contains "dev/nvidia*".
	DevRoot string
	// ProcRoot and SysRoot are the host's /proc and /sys.
	ProcRoot string
	SysRoot  string
	// RunRoot is the folder of the node contract, see package contract.
	RunRoot string
}

// ctrDriverRoot is where the agents' charts mount the driver root.
const ctrDriverRoot = "/driver-root"

// HostFlags returns the flags that HostOf reads.
func HostFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "driver-root", Aliases: []string{"nvidia-driver-root"}, EnvVars: []string{"NVIDIA_DRIVER_ROOT"}, Value: "/",
			Usage: "root `FOLDER` of the driver installation on the host",
		},
		&cli.PathFlag{
			Name: "driver-root-ctr-path", Aliases: []string{"container-driver-root"}, EnvVars: []string{"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}, Value: ctrDriverRoot,
			Usage: "`FOLDER` at which the agent sees the driver root; if the default does not exist, driver-root itself",
		},
		&cli.PathFlag{
			Name: "dev-root", Aliases: []string{"nvidia-dev-root"}, EnvVars: []string{"NVIDIA_DEV_ROOT"}, Value: "/",
			Usage: "`FOLDER` on the host that contains dev/nvidia*",
		},
		&cli.PathFlag{
			Name: "proc-root", EnvVars: []string{"PROC_ROOT"}, Value: "/proc",
			Usage: "`FOLDER` at which the agent sees /proc of the host",
		},
		&cli.PathFlag{
			Name: "sys-root", EnvVars: []string{"SYS_ROOT"}, Value: "/sys",
			Usage: "`FOLDER` at which the agent sees /sys of the host",
		},
		&cli.PathFlag{
			Name: "run-root", EnvVars: []string{"RUN_ROOT"}, Value: "/run/nvidia",
			Usage: "`FOLDER` in which the agents of a node share files",
		},
	}
}

// HostOf reads the flags of HostFlags. All must be absolute paths, except that
// dev-root may be empty, for a root that the agent chooses itself.
func HostOf(c *cli.Context) (Host, error) {
	h := Host{
		DriverRoot:        c.Path("driver-root"),
		DriverRootCtrPath: c.Path("driver-root-ctr-path"),
		DevRoot:           c.Path("dev-root"),
		ProcRoot:          c.Path("proc-root"),
		SysRoot:           c.Path("sys-root"),
		RunRoot:           c.Path("run-root"),
	}
	var errs []error
	for _, p := range []struct {
		flag string
		path *string
	}{
		{"driver-root", &h.DriverRoot},
		{"driver-root-ctr-path", &h.DriverRootCtrPath},
		{"dev-root", &h.DevRoot},
		{"proc-root", &h.ProcRoot},
		{"sys-root", &h.SysRoot},
		{"run-root", &h.RunRoot},
	} {
		if p.flag == "dev-root" && *p.path == "" {
			continue
		}
		if !filepath.IsAbs(*p.path) {
			errs = append(errs, BadFlag(p.flag, *p.path, "an absolute path"))
			continue
		}
		*p.path = filepath.Clean(*p.path)
	}
	if !c.IsSet("driver-root-ctr-path") && !isDir(h.DriverRootCtrPath) {
		h.DriverRootCtrPath = h.DriverRoot
	}
	return h, errors.Join(errs...)
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// Effective returns the roots in effect for Agent.Effective.
func (h Host) Effective() []slog.Attr {
	return []slog.Attr{
		slog.String(SettingKey("driver-root"), h.DriverRoot),
		slog.String(SettingKey("driver-root-ctr-path"), h.DriverRootCtrPath),
	}
}

// GPUFlags returns HostFlags and the flag that GPUSource reads.
func GPUFlags() []cli.Flag {
	return append(HostFlags(), &cli.StringFlag{
		Name: "gpu-source", EnvVars: []string{"GPU_SOURCE"}, Value: "nvml",
		Usage: "`SOURCE` of the state of GPUs: nvml, or file:PATH for a file with the output of the command snapshot",
	})
}

// GPUSource reads --gpu-source. It returns the path of the snapshot for
// "file:PATH", and "" for "nvml".
func GPUSource(c *cli.Context) (file string, err error) {
	v := c.String("gpu-source")
	if v == "nvml" {
		return "", nil
	}
	if file, ok := strings.CutPrefix(v, "file:"); ok && file != "" {
		return file, nil
	}
	return "", BadFlag("gpu-source", v, "nvml or file:PATH")
}
