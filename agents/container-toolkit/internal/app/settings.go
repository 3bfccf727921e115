package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/agents/container-toolkit/internal/install"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/file"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
)

// sourceRoot is the folder of the image that has the tools.
const sourceRoot = "/usr/libexec/container-toolkit"

// hookName is the tool that CDI specs run.
const hookName = "nvidia-cdi-hook"

// settings is what the flags set.
type settings struct {
	host    agent.Host
	cluster cluster.Settings
	// dir is the folder of the installation, and sourceRoot that of the tools to install.
	dir        install.Dir
	sourceRoot string
	pidFile    string
	// once is set if the agent installs and configures once.
	once        bool
	cdi         bool
	cdiDir      string
	cdiKind     string
	deviceNodes []string
	engine      engineSettings
	nri         nriSettings
	tools       toolSettings

	// complete sets what follows. config is the config.toml of the tools.
	root     *driverroot.Root
	contract contract.Dir
	config   []byte
	kinds    generate.Options
	control  bool
	gpus     gpus.Config
}

// complete sets what depends on several flags or on the node.
func (s *settings) complete(c *cli.Context) (err error) {
	if s.sourceRoot == "" {
		s.sourceRoot = defaultSourceRoot()
	}
	host := s.host
	if !c.IsSet("dev-root") {
		host.DevRoot = "" // the driver root, if it has device nodes
	}
	s.contract = contract.Dir{Root: host.RunRoot, ProcRoot: host.ProcRoot}
	s.gpus = gpus.Config{
		HostDriverRoot: host.DriverRoot, DriverRootCtrPath: host.DriverRootCtrPath, DevRoot: host.DevRoot,
		ProcRoot: host.ProcRoot, SysRoot: host.SysRoot, RunRoot: host.RunRoot,
	}
	s.engine.complete(s.dir.Tools(), s.tools.prefixes)
	s.engine.ProcRoot = host.ProcRoot
	s.engine.enabled = s.engine.enabled && !s.nri.enabled
	if err := errors.Join(s.completeCDI(), s.checkNRI()); err != nil {
		return err
	}
	s.tools.tools, s.tools.driverRoot, s.tools.specDirs = s.dir.Tools(), host.DriverRoot, specDirs(s.cdiDir)
	if s.config, err = s.tools.config(); err == nil {
		s.kinds.Features, err = specFeatures(s.config)
	}
	if err != nil {
		return cmdline.Usagef("config of the tools: %s", err)
	}
	s.root, err = driverroot.New(s.gpus.DriverRoot())
	return err
}

// defaultSourceRoot returns the folder with the tools to install that no flag names.
func defaultSourceRoot() string {
	if _, err := os.Stat(sourceRoot); err != nil {
		if self, err := os.Executable(); err == nil {
			return filepath.Dir(self)
		}
	}
	return sourceRoot
}

// kindOf returns the vendor and the class of the GPUs' CDI kind, by that of the spec with all device
// nodes; one is empty if that has another form.
func kindOf(management string) (vendor, class string) {
	kind, _ := strings.CutPrefix(management, "management.")
	if kind != management {
		vendor, class, _ = strings.Cut(kind, "/")
	}
	return vendor, class
}

func (s *settings) completeCDI() error {
	vendor, class := kindOf(s.cdiKind)
	s.kinds = generate.Options{Vendor: vendor, Class: class, HookPath: s.hook(), OneHook: true}
	for _, word := range s.deviceNodes {
		switch word {
		case "control":
			s.control = true
		case "none":
		default:
			return cmdline.Usagef("flag --create-device-nodes: invalid value %q: must be control or none", word)
		}
	}
	return nil
}

// hook returns the path on the host of the hook that CDI specs name.
func (s *settings) hook() string { return filepath.Join(s.dir.Tools(), hookName) }

// hostDir returns where the agent sees the folder of the installation in the host's root,
// empty if it does not.
func (s *settings) hostDir() string {
	dir := filepath.Join(s.engine.HostRoot, string(s.dir))
	there, err := os.Stat(dir)
	own, errOwn := os.Stat(string(s.dir))
	if err != nil || errOwn != nil || !os.SameFile(there, own) {
		return ""
	}
	return dir
}

// specFeatures returns what the config of the tools says about CDI specs.
func specFeatures(config []byte) (cdi.Features, error) {
	cfg, _, err := toolconfig.Parse(config)
	if err != nil {
		return cdi.Features{}, err
	}
	f, _, err := cdi.ParseFeatures(cfg.SpecFeatures())
	return f, err
}

// specDirs returns the folders in which the runtime finds CDI specs.
func specDirs(own string) []string {
	dirs := []string{"/etc/cdi", "/var/run/cdi"}
	if filepath.Clean(own) != dirs[1] {
		dirs = append(dirs, own)
	}
	return dirs
}

// source returns the source of the GPUs.
func (s *settings) source(log *slog.Logger) gpu.Source {
	if s.host.Snapshot != "" {
		return file.New(s.host.Snapshot, log)
	}
	return gpus.New(s.gpus)
}

// watchDriver returns the function that reports when a driver may have been installed.
func (s *settings) watchDriver(log *slog.Logger) func(context.Context, func()) error {
	paths := append(s.root.Changing(), s.contract.Path(contract.DriverReady), filepath.Dir(s.contract.NVML().Path()))
	return func(ctx context.Context, changed func()) error {
		hostfs.Watch(ctx, log, changed, paths...)
		return nil
	}
}

// owner returns the DaemonSet of the agent.
func (s *settings) owner(log *slog.Logger) (*cluster.Owner, error) {
	if s.cluster.DaemonSet == "" {
		return s.cluster.Owner(nil, log), nil
	}
	api, err := s.cluster.Open(name, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, cmdline.Usagef("flag --daemonset-name: it needs the API server, and %s", err)
	}
	if err != nil {
		return nil, err
	}
	owner := s.cluster.Owner(api, log)
	owner.Watched, owner.ByHand = true, unconfigure(s.dir.Tools())
	return owner, nil
}
