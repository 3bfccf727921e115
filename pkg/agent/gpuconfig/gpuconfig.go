// Package gpuconfig gives an agent the config of package config. It makes flags from the table of
// options, and a Config from the flags, the environment and the config file that the agents of a
// node share.
package gpuconfig

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/config/strict"
)

// Live is a Config that follows its file and the Node's label.
type Live = configfile.Live[config.Config]

// Settings holds the values of the flags of an agent with a Config.
type Settings struct {
	// Host locates the node, and File the config file.
	Host agent.Host
	File configfile.File
	// options are the options with a flag. set holds the values that flags and the environment set.
	options []config.Option
	set     config.Explicit
}

// Flags returns the flags of options. Each flag has its variables. With a prefix, it also has one
// variable with this prefix.
func (s *Settings) Flags(prefix string, options ...config.Option) []cli.Flag {
	s.options = append(s.options, options...)
	flags := make([]cli.Flag, len(options))
	for i, o := range options {
		flags[i] = s.flag(o, configfile.Prefixed(prefix, o.Variables))
	}
	return flags
}

// HostFlags returns the flags that set Host. Some of them are also options.
func (s *Settings) HostFlags() []cli.Flag {
	s.options = append(s.options, config.DriverOptions()...)
	flags := s.Host.GPUFlags()
	for _, f := range flags {
		if f, ok := f.(*cli.PathFlag); ok {
			check := f.Action
			f.Action = func(c *cli.Context, v string) error {
				s.record(f.Name, v)
				return check(c, v)
			}
		}
	}
	return flags
}

// record records that the command line or the environment sets an option.
func (s *Settings) record(option string, values ...string) {
	if s.set == nil {
		s.set = config.Explicit{}
	}
	s.set[option] = values
}

// flag returns the flag of an option. Its action runs if the command line or the environment sets
// the option.
func (s *Settings) flag(o config.Option, env []string) cli.Flag {
	values := o.Values(config.Default())
	switch o.Shape() {
	case config.Bool:
		return &cli.BoolFlag{
			Name: o.Name, Aliases: o.Aliases, EnvVars: env, Usage: o.Usage, Category: o.Category, Value: values[0] == "true",
			Action: func(_ *cli.Context, v bool) error { s.record(o.Name, strconv.FormatBool(v)); return nil },
		}
	case config.List:
		isBlank := func(v string) bool { return v == "" } // an empty value is an empty list
		f := &cli.StringSliceFlag{
			Name: o.Name, Aliases: o.Aliases, EnvVars: env, Usage: o.Usage, Category: o.Category,
			Action: func(_ *cli.Context, v []string) error {
				s.record(o.Name, slices.DeleteFunc(slices.Clone(v), isBlank)...)
				return nil
			},
		}
		if len(values) > 0 {
			f.Value = cli.NewStringSlice(values...)
		}
		return f
	default:
		return &cli.StringFlag{
			Name: o.Name, Aliases: o.Aliases, EnvVars: env, Usage: o.Usage, Category: o.Category, Value: strings.Join(values, ""),
			Action: func(_ *cli.Context, v string) error { s.record(o.Name, v); return nil },
		}
	}
}

// Load returns the config from flags, environment and config file.
func (s *Settings) Load(ctx context.Context, labels configfile.Labels, log *slog.Logger) (*Live, error) {
	var warned []string
	return configfile.Load(ctx, s.File, configfile.Spec[config.Config]{
		Parse: func(name string, data []byte) (config.Config, error) {
			cfg, err := s.Parse(name, data)
			if err == nil && !slices.Equal(warned, cfg.Warnings) {
				warned = cfg.Warnings
				warn(log, warned)
			}
			return cfg, err
		},
		NeedsRestart: func(old, changed config.Config) []string {
			return slices.DeleteFunc(config.NeedsRestart(old, changed), func(name string) bool {
				return !slices.ContainsFunc(s.options, func(o config.Option) bool { return o.Name == name })
			})
		},
		Labels:  labels,
		RunRoot: s.Host.RunRoot,
		Log:     log,
	})
}

func warn(log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn("config accepted with a warning", "warning", w)
	}
}

// Parse returns the config from flags, environment and a config file with this name and content.
// The error is an error of the command line only if the flags are wrong without the file.
func (s *Settings) Parse(name string, data []byte) (config.Config, error) {
	cfg, err := config.Load(s.set, data, name)
	if err != nil && !InFile(err) {
		return cfg, cmdline.Usagef("%s", err)
	}
	return cfg, err
}

// InFile reports whether an error is about the config file itself, rather than
// about a flag.
func InFile(err error) bool {
	file := (*strict.Error)(nil)
	return errors.As(err, &file)
}

// Effective returns the settings in effect for the first line of the log: the options of the agent,
// and the sections of the config file that are set.
func (s *Settings) Effective(cfg config.Config) []slog.Attr {
	var out []slog.Attr
	for _, o := range s.options {
		key, values := agent.SettingKey(o.Name), o.Values(cfg)
		switch {
		case values == nil:
		case o.Shape() == config.Bool:
			out = append(out, slog.Bool(key, values[0] == "true"))
		case o.Shape() == config.List:
			out = append(out, slog.Any(key, values))
		default:
			out = append(out, slog.String(key, values[0]))
		}
	}
	if len(cfg.Sharing.Shares) > 0 {
		out = append(out, slog.Any("sharing", cfg.Sharing))
	}
	if len(cfg.Resources.GPUs)+len(cfg.Resources.MIG) > 0 {
		out = append(out, slog.Any("resources", cfg.Resources))
	}
	if len(cfg.Filter.Include)+len(cfg.Filter.Exclude) > 0 {
		out = append(out, slog.Any("devices", cfg.Filter))
	}
	return out
}
