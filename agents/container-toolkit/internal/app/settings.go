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
	host     agent.Host
	root     *driverroot.Root
	contract contract.Dir
	// hostRoot is where the agent sees the host's root.
	hostRoot string
	// dir is the folder of the installation, sourceRoot that of the tools to install, and
	// config their config.toml.
	dir        install.Dir
	sourceRoot string
	config     []byte
	pidFile    string

	cdi      bool
	cdiDir   string
	kinds    generate.Options
	control  bool
	snapshot string
	gpus     gpus.Config
	engine   engineSettings
	nri      nriSettings
}

// read reads the flags.
func read(c *cli.Context) (settings, error) {
	host, hostErr := agent.HostOf(c)
	if !c.IsSet("dev-root") {
		host.DevRoot = "" // the driver root, if it has device nodes
	}
	s := settings{
		host: host, contract: contract.Dir{Root: host.RunRoot, ProcRoot: host.ProcRoot},
		dir: install.Dir(c.Path("toolkit-install-dir")), sourceRoot: tools(c), pidFile: c.Path("toolkit-pid-file"),
		cdi: c.Bool("cdi-enabled"), cdiDir: c.Path("cdi-output-dir"),
		gpus: gpus.Config{
			HostDriverRoot: host.DriverRoot, DriverRootCtrPath: host.DriverRootCtrPath, DevRoot: host.DevRoot,
			ProcRoot: host.ProcRoot, SysRoot: host.SysRoot, RunRoot: host.RunRoot,
		},
	}
	errs := []error{hostErr}
	for _, flag := range []string{"toolkit-install-dir", "toolkit-pid-file", "cdi-output-dir"} {
		if !filepath.IsAbs(c.Path(flag)) {
			errs = append(errs, agent.BadFlag(flag, c.Path(flag), "an absolute path"))
		}
	}
	var err error
	s.snapshot, err = agent.GPUSource(c)
	errs = append(errs, err, s.readCDI(c))
	s.engine, err = readEngine(c, s.dir.Tools())
	s.engine.ProcRoot = host.ProcRoot
	errs = append(errs, err)
	s.hostRoot = c.Path("host-root-mount")
	s.nri, err = readNRI(c)
	errs = append(errs, err)
	s.engine.enabled = s.engine.enabled && !s.nri.enabled
	if s.config, err = s.tools(c).config(); err == nil {
		s.kinds.Features, err = specFeatures(s.config)
	}
	if err != nil {
		errs = append(errs, agent.Usagef("config of the tools: %s", err))
	}
	if err := errors.Join(errs...); err != nil {
		return settings{}, err
	}
	s.root, err = driverroot.New(s.gpus.DriverRoot())
	return s, err
}

// tools returns the folder with the tools to install.
func tools(c *cli.Context) string {
	dir := c.Path("toolkit-source-root")
	if _, err := os.Stat(dir); err != nil && !c.IsSet("toolkit-source-root") {
		if self, err := os.Executable(); err == nil {
			return filepath.Dir(self)
		}
	}
	return dir
}

func (s *settings) readCDI(c *cli.Context) error {
	kind := c.String("cdi-kind")
	of, managed := strings.CutPrefix(kind, "management.")
	vendor, class, ok := strings.Cut(of, "/")
	if !managed || !ok || vendor == "" || class == "" {
		return agent.BadFlag("cdi-kind", kind, "management.VENDOR/CLASS")
	}
	s.kinds = generate.Options{Vendor: vendor, Class: class, HookPath: s.hook(), OneHook: true}
	for _, word := range c.StringSlice("create-device-nodes") {
		switch strings.TrimSpace(word) {
		case "control":
			s.control = true
		case "", "none":
		default:
			return agent.BadFlag("create-device-nodes", word, "control or none")
		}
	}
	return nil
}

// hook returns the path on the host of the hook that CDI specs name.
func (s *settings) hook() string { return filepath.Join(s.dir.Tools(), hookName) }

// hostDir returns where the agent sees the folder of the installation in the host's root,
// empty if it does not.
func (s *settings) hostDir() string {
	dir := filepath.Join(s.hostRoot, string(s.dir))
	there, err := os.Stat(dir)
	own, errOwn := os.Stat(string(s.dir))
	if err != nil || errOwn != nil || !os.SameFile(there, own) {
		return ""
	}
	return dir
}

// tools returns the settings of the tools.
func (s *settings) tools(c *cli.Context) toolSettings {
	return toolSettings{
		tools: s.dir.Tools(), driverRoot: s.host.DriverRoot, specDirs: specDirs(s.cdiDir),
		acceptEnv:    c.Bool("accept-nvidia-visible-devices-envvar-when-unprivileged"),
		acceptMounts: c.Bool("accept-nvidia-visible-devices-as-volume-mounts"),
		skipMode:     c.Bool("nvidia-container-runtime-hook-skip-mode-detection"),
		runtimeDebug: c.String("nvidia-container-runtime-debug"),
		logLevel:     c.String("nvidia-container-runtime-log-level"),
		mode:         c.String("nvidia-container-runtime-mode"),
		defaultKind:  c.String("nvidia-container-runtime-modes-cdi-default-kind"),
		prefixes:     agent.Words(c, "nvidia-container-runtime-modes-cdi-annotation-prefixes"),
		runtimes:     agent.Words(c, "nvidia-container-runtime-runtimes"),
		cliDebug:     c.String("nvidia-container-cli-debug"),
		features:     agent.Words(c, "opt-in-features"),
	}
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
func (s settings) source(log *slog.Logger) gpu.Source {
	if s.snapshot != "" {
		return file.New(s.snapshot, log)
	}
	return gpus.New(s.gpus)
}

// watchDriver returns the function that reports when a driver may have been installed.
func (s settings) watchDriver(log *slog.Logger) func(context.Context, func()) error {
	paths := append(s.root.Changing(), s.contract.Path(contract.DriverReady), filepath.Dir(s.contract.NVML().Path()))
	return func(ctx context.Context, changed func()) error {
		hostfs.Watch(ctx, log, changed, paths...)
		return nil
	}
}

// owner returns the DaemonSet of the agent.
func (s settings) owner(c *cli.Context, log *slog.Logger) (*cluster.Owner, error) {
	if c.String("daemonset-name") == "" {
		return cluster.OwnerOf(c, nil, log), nil
	}
	api, err := cluster.Open(c, name, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, agent.Usagef("flag --daemonset-name: it needs the API server, and %s", err)
	}
	if err != nil {
		return nil, err
	}
	owner := cluster.OwnerOf(c, api, log)
	owner.Watched, owner.ByHand = true, unconfigure(s.dir.Tools())
	return owner, nil
}
