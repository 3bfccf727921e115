package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent"
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

// read reads what there is to read; labelled is as for configfile.Load.
func read(c *cli.Context, labelled func(key string) (string, error)) (settings, error) {
	host, hostErr := agent.HostOf(c)
	s := settings{quiet: c.Duration("health-quiet-window")}
	if s.quiet <= 0 {
		return settings{}, errors.Join(hostErr, agent.BadFlag("health-quiet-window", s.quiet.String(), "a time above 0, like 5m"))
	}
	var err error
	if s.Settings, err = configfile.Load(c, explicit(c), labelled); err != nil {
		return settings{}, errors.Join(hostErr, err)
	}
	s.driver, err = driver.Of(host, s.Config.Driver)
	return s, errors.Join(hostErr, err)
}

// explicit returns what flags and environment set.
func explicit(c *cli.Context) config.Explicit {
	return config.Explicit{
		MIGStrategy:         agent.SetText[config.MIGStrategy](c, "mig-strategy"),
		FailOnInitError:     agent.SetBool(c, "fail-on-init-error"),
		DriverRoot:          agent.SetText[string](c, "driver-root"),
		DriverRootCtrPath:   agent.SetText[string](c, "driver-root-ctr-path"),
		DevRoot:             agent.SetText[string](c, "dev-root"),
		ListStrategies:      agent.SetTexts[config.ListStrategy](c, "device-list-strategy"),
		IDStrategy:          agent.SetText[config.IDStrategy](c, "device-id-strategy"),
		PassDeviceSpecs:     agent.SetBool(c, "pass-device-specs"),
		CDIAnnotationPrefix: agent.SetText[string](c, "cdi-annotation-prefix"),
		HookPath:            agent.SetText[string](c, "nvidia-cdi-hook-path"),
		MPSRoot:             agent.SetText[string](c, "mps-root"),
		Policy:              agent.SetText[config.Policy](c, "shared-devices-allocation-policy"),
		Discovery:           agent.SetText[config.Discovery](c, "device-discovery-strategy"),
		GDS:                 agent.SetBool(c, "gds-enabled"),
		MOFED:               agent.SetBool(c, "mofed-enabled"),
		GDRCopy:             agent.SetBool(c, "gdrcopy-enabled"),
		IMEXChannels:        agent.SetInts(c, "imex-channel-ids"),
		IMEXRequired:        agent.SetBool(c, "imex-required"),
		KubeletSocket:       agent.SetText[string](c, "kubelet-socket"),
		CDIRoot:             agent.SetText[string](c, "cdi-root"),
		CDIFeatureFlags:     agent.SetTexts[string](c, "cdi-feature-flags"),
		CDIDisableHooks:     agent.SetTexts[string](c, "cdi-disable-hooks"),
		DisableHealthChecks: agent.SetText[string](c, "disable-healthchecks"),
		EnableHealthChecks:  agent.SetText[string](c, "enable-healthchecks"),
		ResourceConfig:      agent.SetText[string](c, "resource-config"),
	}
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
