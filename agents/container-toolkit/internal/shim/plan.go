package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/require"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// Plan describes the changes of a container, with their reasons.
type Plan struct {
	Request *request.Request
	// Mode is "cdi" or "legacy", and Reason explains it. Both are empty if the container does not ask
	// for GPUs.
	Mode, Reason string
	// Devices has the devices of CDI specs.
	Devices []inject.Device
	// Left has the paths in CDI specs that are left out, because the container's driver capabilities do
	// not need them.
	Left []string
	// Warnings name requested hardware that the node lacks. The container starts without it.
	Warnings []string
	Edits    oci.Edits
}

// Make returns the plan of a container. If the container is refused, the error has the reason, and
// the plan has the decisions up to that point.
func Make(c request.Container, t inject.Target, cfg *toolconfig.Config) (*Plan, error) {
	p := &Plan{}
	if cfg.Runtime.Mode == toolconfig.ModeLegacy {
		c.Annotations = nil
	}
	var err error
	if p.Request, err = request.Derive(c, cfg); err != nil || !p.Request.GPU() {
		return p, err
	}
	gpus, extra := p.devices(cfg.Runtime.CDI.DefaultKind)
	set := inject.Load(cfg.Runtime.CDI.SpecDirs, inject.Kinds(slices.Concat(gpus, extra, p.Request.Optional())))
	p.Mode, p.Reason = p.Request.Mode(cfg.Runtime.Mode, set.HasKind, gpus[0].Kind)
	switch p.Mode {
	case toolconfig.ModeCSV:
		return p, errors.New("inject GPUs in the mode csv: Tegra is not supported: set nvidia-container-runtime.mode to auto in config.toml")
	case toolconfig.ModeLegacy:
		gpus, extra = nil, nil
	}
	if i := slices.IndexFunc(gpus, func(d request.Device) bool { return d.ByInstance }); i >= 0 {
		return p, fmt.Errorf("inject GPUs: device %q has a name of drivers before 470, and CDI specs do not have such names: use the UUID that nvidia-smi -L prints, or the mode auto", gpus[i].Asked)
	}
	found, err := set.Resolve(append(gpus, extra...))
	if err != nil {
		return p, err
	}
	t.NoGIDs = cfg.Features.NoAdditionalGIDs
	p.Devices = append(found, p.optional(set, t, cfg)...)
	if p.Mode == toolconfig.ModeCDI {
		if err := p.check(); err != nil {
			return p, err
		}
		if t.Filter, err = p.filter(gpus); err != nil {
			return p, err
		}
	}
	p.Edits, err = t.Edits(p.Devices)
	if t.Filter != nil {
		p.Left = t.Filter.Left
	}
	return p, err
}

// devices returns the GPUs that the container asks for, which is at least one device, and the
// additional devices.
func (p *Plan) devices(defaultKind string) (gpus, extra []request.Device) {
	gpus = slices.Clone(p.Request.Devices)
	if p.Request.None {
		gpus = append(gpus, inject.None(defaultKind))
	}
	return gpus, p.Request.Extra()
}

// filter returns the filter for the driver capabilities. A container that names CDI devices, but no
// capabilities, gets the complete CDI devices, as it would without this runtime.
func (p *Plan) filter(gpus []request.Device) (*inject.Filter, error) {
	qualified := !slices.ContainsFunc(gpus, func(d request.Device) bool { return !d.Qualified })
	if qualified && !p.Request.CapabilitiesSet {
		return nil, nil
	}
	f, err := inject.NewFilter(p.Request.Capabilities)
	if err != nil {
		return nil, fmt.Errorf("inject GPUs: %w", err)
	}
	return f, nil
}

// check returns an error if a requirement does not hold.
func (p *Plan) check() error {
	if len(p.Request.Requirements) == 0 {
		return nil
	}
	driver, gpus, err := p.facts()
	if err != nil {
		return err
	}
	for _, r := range p.Request.Requirements {
		if err := require.Check(r.Variable, r.Condition, driver, gpus...); err != nil {
			return fmt.Errorf("inject GPUs: %w", err)
		}
	}
	return nil
}

// facts returns the known facts about the driver and the container's GPUs. A spec of another
// program has no facts. Then only the driver version is known.
func (p *Plan) facts() (require.Driver, []require.GPU, error) {
	var driver require.Driver
	var gpus []require.GPU
	read := map[string]*facts.Facts{}
	for _, d := range p.Devices {
		if !inject.IsGPUKind(d.File.Spec.Kind) {
			continue
		}
		f, known := read[d.File.Path]
		if !known {
			var err error
			if f, err = facts.Read(d.File.Path, d.File.Data); err != nil {
				return driver, nil, err
			}
			read[d.File.Path] = f
		}
		if f == nil {
			gpus = append(gpus, require.GPU{Name: d.Name})
			continue
		}
		driver = require.Driver{Version: f.Driver, CUDA: f.CUDA}
		for _, g := range f.ForDevice(d.Name) {
			gpus = append(gpus, require.GPU{Name: g.Names[0], Arch: g.Arch, Brand: g.Brand})
		}
	}
	if driver.Version == "" {
		// Without a driver, the version is not known.
		driver.Version, _ = driverproc.Root("").Version()
	}
	return driver, gpus, nil
}

// HostPublic reports whether every user of the host can read a file or connect to a socket.
func HostPublic(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return mode&0o004 != 0
	case mode&fs.ModeSocket != 0:
		return mode&0o006 == 0o006
	}
	return false
}

// HostNode returns a device node of the host. It does not follow links.
func HostNode(path string) (inject.Node, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		err = &fs.PathError{Op: "stat", Path: path, Err: err}
		if _, noDriver := driverproc.Root("").Version(); errors.Is(noDriver, fs.ErrNotExist) && strings.HasPrefix(path, "/dev/nvidia") {
			err = fmt.Errorf("%w: %w: the kernel module nvidia is not loaded", err, gpu.ErrNoDriver)
		}
		return inject.Node{}, err
	}
	n := inject.Node{Mode: fs.FileMode(st.Mode &^ unix.S_IFMT), Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		n.Type = "b"
	case unix.S_IFCHR:
		n.Type = "c"
	case unix.S_IFIFO:
		n.Type = "p"
	default:
		return n, fmt.Errorf("%s is not a device node", path)
	}
	return n, nil
}
