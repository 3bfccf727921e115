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

// sourceRoot is the folder of the image that contains the tools.
const sourceRoot = "/usr/libexec/container-toolkit"

// hookName is the name of the tool that CDI specs run.
const hookName = "nvidia-cdi-hook"

// settings holds the values of the flags, and values derived from them.
type settings struct {
	host    agent.Host
	cluster cluster.Settings
	// dir is the folder of the installation, sourceRoot the folder of the tools to install.
	dir        install.Dir
	sourceRoot string
	pidFile    string
	// once is true if the agent installs and configures once, and then exits.
	once        bool
	cdi         bool
	cdiDir      string
	cdiKind     string
	deviceNodes []string
	engine      engineSettings
	nri         nriSettings
	tools       toolSettings

	// The method complete sets the fields below. config is the config.toml of the tools.
	root     *driverroot.Root
	contract contract.Dir
	config   []byte
	kinds    generate.Options
	control  bool
	gpus     gpus.Config
}

// complete sets the fields that depend on several flags or on the node.
func (s *settings) complete(c *cli.Context) (err error) {
	if s.sourceRoot == "" {
		s.sourceRoot = defaultSourceRoot()
	}
	host := s.host
	if !c.IsSet("dev-root") {
		host.DevRoot = "" // selects the driver root, if it has device nodes
	}
	s.contract = contract.Dir{Root: host.RunRoot, ProcRoot: host.ProcRoot}
	s.gpus = gpus.Config{
		HostDriverRoot: host.DriverRoot, DriverRootCtrPath: host.DriverRootCtrPath, DevRoot: host.DevRoot,
		ProcRoot: host.ProcRoot, SysRoot: host.SysRoot, RunRoot: host.RunRoot, IndexDir: host.IndexDir,
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

// defaultSourceRoot returns the folder of the tools to install if no flag names one.
func defaultSourceRoot() string {
	if _, err := os.Stat(sourceRoot); err != nil {
		if self, err := os.Executable(); err == nil {
			return filepath.Dir(self)
		}
	}
	return sourceRoot
}

// kindOf returns the vendor and the class of the GPUs' CDI kind. management is the kind of the
// spec with all device nodes. Unless it has the form management.VENDOR/CLASS, one result is empty.
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

// hook returns the path of the hook on the host, for CDI specs.
func (s *settings) hook() string { return filepath.Join(s.dir.Tools(), hookName) }

// hostDir returns the path of the installation's folder below the host's root, as the agent
// sees it. It returns "" if the agent does not see the folder there.
func (s *settings) hostDir() string {
	dir := filepath.Join(s.engine.HostRoot, string(s.dir))
	there, err := os.Stat(dir)
	own, errOwn := os.Stat(string(s.dir))
	if err != nil || errOwn != nil || !os.SameFile(there, own) {
		return ""
	}
	return dir
}

// specFeatures returns the settings for CDI specs from the config of the tools.
func specFeatures(config []byte) (cdi.Features, error) {
	cfg, _, err := toolconfig.Parse(config)
	if err != nil {
		return cdi.Features{}, err
	}
	f, _, err := cdi.ParseFeatures(cfg.SpecFeatures())
	return f, err
}

// specDirs returns the folders where the runtime finds CDI specs. own is the agent's folder.
func specDirs(own string) []string {
	dirs := []string{"/etc/cdi", "/var/run/cdi"}
	if filepath.Clean(own) != dirs[1] {
		dirs = append(dirs, own)
	}
	return dirs
}

func (s *settings) source(log *slog.Logger) gpu.Source {
	if s.host.Snapshot != "" {
		return file.New(s.host.Snapshot, log)
	}
	return gpus.New(s.gpus)
}

// watchDriver returns the function that reports a possible installation of a driver.
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
		return nil, cmdline.Usagef("flag --daemonset-name: it needs the API server: %s", err)
	}
	if err != nil {
		return nil, err
	}
	owner := s.cluster.Owner(api, log)
	owner.Watched, owner.ByHand = true, unconfigure(s.dir.Tools())
	return owner, nil
}
