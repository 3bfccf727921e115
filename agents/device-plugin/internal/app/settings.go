package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/hostfs"
)

// settings is what flags, environment and config file set.
type settings struct {
	live   *gpuconfig.Live
	driver *driver.Driver
	// quiet is the time without another XID after which a GPU is healthy again.
	quiet time.Duration
}

// read reads flags, environment and config file. If a label of the node selects the
// file, it comes from api.
func read(c *cli.Context, api *cluster.API, log *slog.Logger) (settings, error) {
	host, err := agent.HostOf(c)
	s := settings{quiet: c.Duration("health-quiet-window")}
	if s.quiet <= 0 {
		err = errors.Join(err, agent.BadFlag("health-quiet-window", s.quiet.String(), "a time above 0, like 5m"))
	}
	if err != nil {
		return settings{}, err
	}
	if s.live, err = gpuconfig.Load(c, api, log); err != nil {
		return settings{}, err
	}
	if err := hostfs.CheckSocketPath(s.live.Config.KubeletSocket); err != nil {
		return settings{}, agent.Usagef("flag --kubelet-socket: %v", err)
	}
	s.driver, err = driver.New(host, s.live.Config.Driver)
	return s, err
}

// rules returns the XIDs that make a device unhealthy, and for how long.
func (s settings) rules(c config.Config, log *slog.Logger) health.Rules {
	rules, unknown := health.ParseRules(c.HealthChecks.Disable, c.HealthChecks.Enable)
	if len(unknown) > 0 {
		log.Warn("unknown words in the lists of XIDs, ignoring them", "items", unknown)
	}
	rules.Quiet = s.quiet
	return rules
}

func (s settings) socketDir() string { return filepath.Dir(s.live.Config.KubeletSocket) }

// follower makes an inventory follow the config, with the rules that come from it.
func (s settings) follower(inv *inventory.Inventory, log *slog.Logger) configfile.Follower[config.Config] {
	return configfile.Follower[config.Config]{
		Configure: func(c config.Config) { inv.Configure(c, s.rules(c, log)) },
		Reject:    inv.Reject,
	}
}

// effective returns the settings in effect.
func (s settings) effective(c *cli.Context) []slog.Attr {
	return append(gpuconfig.Effective(c, s.live.Config), s.driver.Effective()...)
}
