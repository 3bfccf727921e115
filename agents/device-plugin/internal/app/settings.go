package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/parts"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/hostfs"
)

// settings holds the values of flags, environment variables and the config file.
type settings struct {
	gpus    gpuconfig.Settings
	cluster cluster.Settings
	// quiet is the time after which a GPU is healthy again if it reports no other XID.
	quiet time.Duration
	// toolkitDir is the folder of the container toolkit on the host.
	toolkitDir string

	// load sets the fields below.
	live   *gpuconfig.Live
	driver *driver.Driver
}

// flags returns the flags of the device plugin. They have the names, environment variables and
// defaults of NVIDIA's device plugin. docs/device-plugin-migration.md lists the differences.
func (s *settings) flags() []cli.Flag {
	return slices.Concat(
		s.gpus.HostFlags(),
		s.gpus.File.Flags(""),
		[]cli.Flag{
			s.cluster.NodeNameFlag(), s.cluster.EventsFlag("changes of GPUs"), s.cluster.OwnerFlag("is deleted"),
			s.cluster.NamespaceFlag("the DaemonSet"),
		},
		s.gpus.Flags("", slices.Concat(config.DeviceOptions(), config.PluginOptions())...),
		[]cli.Flag{parts.ToolkitFlag(&s.toolkitDir), cmdline.Positive(&cli.DurationFlag{
			Name: "health-quiet-window", EnvVars: []string{"HEALTH_QUIET_WINDOW"}, Value: health.DefaultQuiet, Destination: &s.quiet, Category: category.Health,
			Usage: "`TIME` without another XID after which a GPU that answers is healthy again, for XIDs that need no reset",
		})},
	)
}

// load reads the config file, and opens the driver. A label of the node selects the config file.
// load gets the label from api.
func (s *settings) load(ctx context.Context, api *cluster.API, log *slog.Logger) (err error) {
	if s.live, err = s.gpus.Load(ctx, api, log); err != nil {
		return err
	}
	s.live.Config.HealthChecks.Quiet = s.quiet
	if err := hostfs.CheckSocketPath(s.live.Config.KubeletSocket); err != nil {
		return cmdline.Usagef("flag --kubelet-socket: %v", err)
	}
	s.driver, err = driver.New(s.gpus.Host, s.live.Config.Driver)
	return err
}

// rules returns which faults make a device unhealthy, and for how long.
func (s *settings) rules(c config.Config, log *slog.Logger) health.Rules {
	rules, unknown := c.Rules()
	if len(unknown) > 0 {
		log.Warn("unknown words in the lists of XIDs, ignoring them", "items", unknown)
	}
	return rules
}

func (s *settings) socketDir() string { return filepath.Dir(s.live.Config.KubeletSocket) }

// follower applies each new config, and the health rules derived from it, to the inventory.
func (s *settings) follower(inv *inventory.Inventory, log *slog.Logger) configfile.Follower[config.Config] {
	return configfile.Follower[config.Config]{
		Configure: func(c config.Config) { inv.Configure(c, s.rules(c, log)) },
		Reject:    inv.Reject,
	}
}

// run passes each new config to a Follower, until ctx ends.
func (s *settings) run(ctx context.Context, to configfile.Follower[config.Config]) error {
	configure := to.Configure
	to.Configure = func(c config.Config) {
		c.HealthChecks.Quiet = s.quiet
		configure(c)
	}
	return s.live.Run(ctx, to)
}

// effective returns the settings in effect.
func (s *settings) effective() []slog.Attr {
	return append(append(s.gpus.Effective(s.live.Config), s.driver.Effective()...), slog.String("toolkit_install_dir", s.toolkitDir))
}
