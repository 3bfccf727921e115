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
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
)

// settings is all that flags, environment and config file say.
type settings struct {
	configfile.Settings
	driver *driver.Driver
	// quiet is how long a GPU has to stay without another XID to be healthy.
	quiet time.Duration
}

// read reads flags, environment and config file. A label of the node chooses the
// file, where api knows it.
func read(c *cli.Context, api *cluster.API, log *slog.Logger) (settings, error) {
	host, hostErr := agent.HostOf(c)
	s := settings{quiet: c.Duration("health-quiet-window")}
	if s.quiet <= 0 {
		return settings{}, errors.Join(hostErr, agent.BadFlag("health-quiet-window", s.quiet.String(), "a time above 0, like 5m"))
	}
	var err error
	if s.Settings, err = configfile.Load(c, api, log); err != nil {
		return settings{}, errors.Join(hostErr, err)
	}
	s.driver, err = driver.Of(host, s.Config.Driver)
	return s, errors.Join(hostErr, err)
}

// rules returns which XIDs count with a config, and for how long.
func (s settings) rules(c config.Config, log *slog.Logger) health.Rules {
	rules, unknown := health.ParseRules(c.HealthChecks.Disable, c.HealthChecks.Enable)
	if len(unknown) > 0 {
		log.Warn("not an XID in the lists of health checks, ignored", "items", unknown)
	}
	rules.Quiet = s.quiet
	return rules
}

func (s settings) socketDir() string { return filepath.Dir(s.Config.KubeletSocket) }

// configured hands an inventory the configs that follow.
type configured struct {
	*inventory.Inventory
	settings settings
	log      *slog.Logger
}

var _ configfile.Configured = configured{}

// Configure makes c what holds, with the rules that follow from it.
func (i configured) Configure(c config.Config) {
	i.Inventory.Configure(c, i.settings.rules(c, i.log))
}
