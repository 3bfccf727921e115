package gpuconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"sync"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/health"
)

// advertised is the part of a config that decides which devices the device plugin advertises, how
// often, and under which names. Agents that describe devices need the same part.
type advertised struct {
	MIGStrategy config.MIGStrategy
	Sharing     config.Sharing
	Resources   config.Resources
	Filter      config.Filter
	// HealthChecks and Health decide which of the devices are healthy.
	HealthChecks config.HealthChecks
	Health       config.Health
}

// keyConfig is the key of the config, as JSON, in the file of the node contract.
const keyConfig = "CONFIG"

func encode(c config.Config) (string, error) {
	text, err := json.Marshal(advertised{
		MIGStrategy: c.MIGStrategy, Sharing: c.Sharing, Resources: c.Resources, Filter: c.Filter,
		HealthChecks: c.HealthChecks, Health: c.Health,
	})
	if err != nil {
		return "", fmt.Errorf("encode config: %w", err)
	}
	return string(text), nil
}

// decode returns c with the settings that text, a result of encode, contains.
func decode(text string, c config.Config) (config.Config, error) {
	var a advertised
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return c, fmt.Errorf("decode config: %w", err)
	}
	c.MIGStrategy, c.Sharing, c.Resources, c.Filter = a.MIGStrategy, a.Sharing, a.Resources, a.Filter
	c.HealthChecks, c.Health = a.HealthChecks, a.Health
	return c, nil
}

// WatchRules calls use with the health rules that the device plugin of the node publishes, now and after
// each change, until ctx ends. It does not call use while the plugin publishes none.
func WatchRules(ctx context.Context, dir contract.Dir, use func(health.Rules)) error {
	read := func() {
		fact := dir.Read(contract.PluginConfig)
		if fact.State != contract.Valid {
			return
		}
		if c, err := decode(fact.Values[keyConfig], config.Config{}); err == nil {
			rules, _ := c.Rules()
			use(rules)
		}
	}
	read()
	return dir.WatchFiles(ctx, read, dir.Path(contract.PluginConfig))
}

// Publisher keeps the config of the device plugin in the node contract, where Adopted reads it
// while the process lives.
type Publisher struct {
	keeper *contract.Keeper
	writer string
	first  config.Config
	// started is done after a config was published, so that Run does not replace it with the first
	// one.
	started sync.Once
	log     *slog.Logger
}

// NewPublisher returns a Publisher of a config. It publishes the config while Run runs.
func NewPublisher(dir contract.Dir, writer string, first config.Config, log *slog.Logger) *Publisher {
	return &Publisher{keeper: dir.NewKeeper(dir.Path(contract.PluginConfig), log), writer: writer, first: first, log: log}
}

// Follow returns a Follower that passes everything to another Follower, and publishes each config
// that takes effect.
func (p *Publisher) Follow(to configfile.Follower[config.Config]) configfile.Follower[config.Config] {
	configure := to.Configure
	to.Configure = func(c config.Config) {
		configure(c)
		p.started.Do(func() {})
		p.publish(c)
	}
	return to
}

// Run keeps the config published until ctx ends, and then withdraws it.
func (p *Publisher) Run(ctx context.Context) error {
	p.started.Do(func() { p.publish(p.first) })
	return p.keeper.Run(ctx)
}

func (p *Publisher) publish(c config.Config) {
	text, err := encode(c)
	if err != nil {
		p.log.Error("cannot publish the config to other agents", "err", err)
		return
	}
	p.keeper.Publish(contract.Record{Writer: p.writer, Values: map[string]string{keyConfig: text}})
}

// Adopted is the config of an agent that describes devices. If the agent has no explicit config, it
// uses the config that the device plugin of the node publishes. When the plugin ends, its last
// config stays in effect, so that an update changes no labels.
type Adopted struct {
	// Config is the config at the start. Run passes later ones to the Follower.
	Config config.Config

	live *Live
	// own is set if the agent has an explicit config.
	own bool
	dir contract.Dir
	log *slog.Logger
}

// Adopt returns the config of an agent. A config file, or one of the flags --mig-strategy and
// --resource-config, is an explicit config.
func (s *Settings) Adopt(live *Live, dir contract.Dir, log *slog.Logger) *Adopted {
	own := s.File.Path != "" || s.File.Dir != "" || s.set["mig-strategy"] != nil || s.set["resource-config"] != nil
	a := &Adopted{live: live, own: own, dir: dir, log: log}
	a.Config = a.adopt(live.Config)
	return a
}

// Run follows the explicit config of the agent or, without one, the config of the device plugin
// until ctx ends. It returns the errors of Live.Run.
func (a *Adopted) Run(ctx context.Context, to configfile.Follower[config.Config]) error {
	if a.own {
		return a.live.Run(ctx, to)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.live.Run(ctx, to) })
	last := a.Config
	g.Go(func() error {
		return a.dir.WatchFiles(ctx, func() {
			// Reflection is necessary here and below, because a config has slices of slices.
			if next := a.adopt(last); !reflect.DeepEqual(last, next) {
				last = next
				to.Configure(next)
			}
		}, a.dir.Path(contract.PluginConfig))
	})
	return g.Wait()
}

// adopt returns the current config: last, unless the plugin publishes another one.
func (a *Adopted) adopt(last config.Config) config.Config {
	if a.own {
		return last
	}
	fact := a.dir.Read(contract.PluginConfig)
	if fact.State != contract.Valid {
		return last
	}
	c, err := decode(fact.Values[keyConfig], a.live.Config)
	switch {
	case err != nil:
		a.log.Warn("cannot use the config of the device plugin, ignoring it", "file", a.dir.Path(contract.PluginConfig), "err", err)
		return last
	case !reflect.DeepEqual(c, last):
		a.log.Info("using the config of the device plugin", "mig_strategy", c.MIGStrategy, "sharing", c.Sharing)
	}
	return c
}
