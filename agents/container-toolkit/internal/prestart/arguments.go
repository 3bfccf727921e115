package prestart

import (
	"os"
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// arguments returns the arguments of nvidia-container-cli for a container.
func arguments(cfg *toolconfig.Config, asked *request.Request, pid int, rootfs string) []string {
	a := &argv{}
	cli := cfg.CLI
	a.value("--root", cli.Root)
	a.flag("--load-kmods", cli.LoadKmods)
	a.flag("--no-create-imex-channels", cfg.Features.DisableIMEXChannelCreation)
	a.flag("--no-pivot", cli.NoPivot)
	a.value("--debug", cli.Debug)
	a.value("--ldcache", cli.LDCache)
	a.value("--user", cli.User)
	a.list = append(a.list, "configure")
	a.value("--cuda-compat-mode", compatMode(cfg))
	a.value("--ldconfig", "@"+cli.LdconfigPath(exists))
	a.flag("--no-cgroups", cli.NoCgroups)
	a.value("--device", strings.Join(names(asked), ","))
	if asked.MIGConfig {
		a.value("--mig-config", "all")
	}
	if asked.MIGMonitor {
		a.value("--mig-monitor", "all")
	}
	for _, channel := range asked.IMEX {
		a.value("--imex-channel", channel)
	}
	for _, capability := range asked.Capabilities {
		a.flag("--"+capability, true)
	}
	for _, r := range asked.Requirements {
		a.value("--require", r.Condition)
	}
	a.value("--pid", strconv.Itoa(pid))
	return append(a.list, rootfs)
}

// names returns the device names that the container uses.
func names(asked *request.Request) []string {
	var out []string
	for _, d := range asked.Devices {
		out = append(out, d.Asked)
	}
	return out
}

// compatMode returns the mode for the CUDA compatibility libraries of an image. For the mode hook,
// NVIDIA's runtime adds a hook with the effect of nvidia-container-cli's mode ldconfig.
func compatMode(cfg *toolconfig.Config) string {
	switch {
	case cfg.Features.AllowCUDACompatLibsFromContainer:
		return "mount"
	case cfg.Runtime.CUDACompatMode != "hook":
		return cfg.Runtime.CUDACompatMode
	case cfg.Features.DisableCUDACompatLibHook:
		return "disabled"
	}
	return "ldconfig"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// argv collects arguments.
type argv struct{ list []string }

// value adds a flag with its value, unless the value is empty.
func (a *argv) value(name, value string) {
	if value != "" {
		a.list = append(a.list, name+"="+value)
	}
}

func (a *argv) flag(name string, set bool) {
	if set {
		a.list = append(a.list, name)
	}
}
