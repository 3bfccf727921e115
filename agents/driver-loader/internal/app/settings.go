package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/daemons"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/hostfs"
)

// maxConfig is the largest size of a file with module parameters, in bytes.
const maxConfig = 1 << 20

// settings holds the values of the flags.
type settings struct {
	host    agent.Host
	config  loader.Config
	desired loader.Desired
	// params is the folder with the parameters of the modules.
	params                         string
	payload, moduleType            string
	autoUpgrade, disableVGPUCheck  bool
	newKernels                     bool
	signingKey, signingCertificate string

	// The fields below are only used in a cluster.
	cluster       cluster.Settings
	upgradePolicy string
	pauseLabel    string
	grantUpgrades bool

	// The method complete sets the fields below, and the rest of config.
	policy  upgrade.Policy
	daemons *daemons.Supervisor
	machine string
}

// defaultHostRoot is the folder where the chart mounts the root of the host.
const defaultHostRoot = "/host"

// autoType lets the loader choose the type of the kernel modules.
const autoType = "auto"

// complete sets the values that depend on several flags or on the node.
func (s *settings) complete(log *slog.Logger) error {
	cfg := &s.config
	if cfg.HostRoot == "" {
		cfg.HostRoot = defaultHostRoot
		if _, err := os.Stat(cfg.HostRoot); err != nil {
			cfg.HostRoot = "/"
		}
	}
	host, proc, sys := cfg.HostRoot, s.host.ProcRoot, s.host.SysRoot
	cfg.Kernel = kernel.Root{Proc: proc, Sys: sys, Modules: filepath.Join(host, "lib/modules"), Dev: filepath.Join(host, "dev")}
	s.machine = kernel.Machine(cfg.Kernel)
	cfg.PodLogs, cfg.Log = filepath.Join(host, "var/log/pods"), log
	cfg.Place.Proc, cfg.Place.Sys = proc, sys
	cfg.Contract = contract.Dir{Root: s.host.RunRoot, ProcRoot: proc}
	cfg.Nodes = devnode.Config{Proc: proc, Dev: cfg.Kernel.Dev, Char: filepath.Join(cfg.Kernel.Dev, "char")}
	cfg.Builder = &build.Builder{Places: build.Places{Root: host, Store: cfg.Store, Container: host != "/"}, Repositories: &build.Repositories{}, Log: log}
	fabric, err := daemons.FabricSettings(os.Environ())
	if err != nil {
		return cmdline.Usagef("%s", err)
	}
	s.daemons = daemons.New(daemons.Config{Root: cfg.Place.At, Host: host, Proc: proc, Sys: sys, Fabric: fabric})
	cfg.Daemons = s.daemons
	cfg.Desired = s.observeDesired
	s.desired.Keep = !s.autoUpgrade
	if s.moduleType != autoType {
		s.desired.Flavour = payload.Flavour(s.moduleType)
	}
	return errors.Join(s.completeSigner(), s.completeUpgrade())
}

func (s *settings) completeSigner() (err error) {
	switch key, certificate := s.signingKey, s.signingCertificate; {
	case key == "" && certificate == "":
		return nil
	case key == "" || certificate == "":
		return cmdline.Usagef("flags --signing-key and --signing-certificate: set both or none")
	default:
		s.config.Signer, err = build.NewSigner(key, certificate)
		return err
	}
}

// observeDesired returns the desired state of the node: the flags, and the module parameters, whose
// files can change.
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
	if s.upgrading() {
		s.applyUpgradeJournal(&d)
	}
	return d, errors.Join(errs...)
}
