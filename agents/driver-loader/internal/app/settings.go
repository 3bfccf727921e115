package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/daemons"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/root"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/hostfs"
)

// maxConfig bounds a file with parameters of a module.
const maxConfig = 1 << 20

// settings is what the flags set.
type settings struct {
	config  loader.Config
	daemons *daemons.Supervisor
	desired loader.Desired
	// params is the folder with the parameters of the modules.
	params  string
	payload string
	machine string
	// place is nil for an agent that is in no cluster.
	place *place
}

// read reads the flags.
func read(c *cli.Context, log *slog.Logger) (settings, error) {
	var errs []error
	path := func(flag string) string {
		if p := c.Path(flag); !filepath.IsAbs(p) {
			errs = append(errs, agent.BadFlag(flag, p, "an absolute path"))
		}
		return filepath.Clean(c.Path(flag))
	}
	host := path("host-root")
	if _, err := os.Stat(host); err != nil && !c.IsSet("host-root") {
		host = "/"
	}
	roots := kernel.Root{
		Proc: path("proc-root"), Sys: path("sys-root"), Modules: filepath.Join(host, "lib/modules"), Dev: filepath.Join(host, "dev"),
	}
	store := path("store")
	s := settings{
		params: path("kernel-module-config"), payload: c.Path("payload"), machine: machine(),
		config: loader.Config{
			Kernel: roots, HostRoot: host, PodLogs: filepath.Join(host, "var/log/pods"), Store: store, Jobs: c.Int("max-threads"), Log: log,
			Place:    root.Driver{At: path("driver-install-dir"), Proc: roots.Proc, Sys: roots.Sys},
			Contract: contract.Dir{Root: path("run-root"), ProcRoot: roots.Proc},
			Nodes:    devnode.Config{Proc: roots.Proc, Dev: roots.Dev, Char: filepath.Join(roots.Dev, "char")},
			Builder: &build.Builder{
				Places: build.Places{Root: host, Store: store}, Repositories: &build.Repositories{}, Log: log,
			},
		},
		desired: loader.Desired{
			Version: c.String("driver-version"), Keep: !c.Bool("auto-upgrade"),
			Options: stack.Options{
				DRM: c.Bool("drm-enabled"), RDMA: c.Bool("gpu-direct-rdma-enabled"), Storage: c.Bool("gds-enabled"), GDRCopy: c.Bool("gdrcopy-enabled"),
			},
		},
	}
	s.daemons = daemons.New(daemons.Config{Root: s.config.Place.At, Host: host, Proc: roots.Proc, Sys: roots.Sys})
	s.config.Daemons = s.daemons
	kind, err := agent.Choice(c, "kernel-module-type", "auto", string(payload.Open), string(payload.Proprietary))
	if kind != "auto" {
		s.desired.Flavour = payload.Flavour(kind)
	}
	errs = append(errs, err, s.readSigner(c))
	s.place, err = readPlace(c)
	errs = append(errs, err)
	if s.config.Jobs < 0 {
		errs = append(errs, agent.BadFlag("max-threads", c.String("max-threads"), "0 or more"))
	}
	s.config.Desired = s.observeDesired
	return s, errors.Join(errs...)
}

func (s *settings) readSigner(c *cli.Context) error {
	key, certificate := c.Path("signing-key"), c.Path("signing-certificate")
	switch {
	case key == "" && certificate == "":
		return nil
	case key == "" || certificate == "":
		return agent.Usagef("--signing-key and --signing-certificate belong together: set both or none")
	}
	var err error
	s.config.Signer, err = build.NewSigner(key, certificate)
	return err
}

// observeDesired returns what the node should run: the flags, and the parameters of the
// modules, whose files can change.
func (s *settings) observeDesired() (loader.Desired, error) {
	d := s.desired
	d.Params = stack.Params{}
	var errs []error
	for _, name := range stack.Files() {
		data, err := hostfs.ReadFile(filepath.Join(s.params, name), maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var params []string
		if err == nil {
			params, err = stack.ParseParams(name, string(data))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read the parameters of modules in %s: %w", s.params, err))
		}
		if len(params) > 0 {
			d.Params[stack.ModuleOf(name)] = params
		}
	}
	if s.place != nil {
		s.left(&d)
	}
	return d, errors.Join(errs...)
}

// machine returns the processor of the node, as uname -m.
func machine() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}
