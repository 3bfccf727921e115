// Package gpuconfig gives an agent the config of package config: it makes flags
// of the table of options, and a Config of flags, environment and the config file
// that the agents of a node share.
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

// Live is a Config that follows its file and the node's label.
type Live = configfile.Live[config.Config]

// Settings is what the flags of an agent with a Config set.
type Settings struct {
	// Host is where the node is, and File the config file.
	Host agent.Host
	File configfile.File
	// options have flags, and set is what flags and environment set of them.
	options []config.Option
	set     config.Explicit
}

// Flags returns the flags of options. Each has its variables, and one more with
// the prefix, if that is not empty.
func (s *Settings) Flags(prefix string, options ...config.Option) []cli.Flag {
	s.options = append(s.options, options...)
	flags := make([]cli.Flag, len(options))
	for i, o := range options {
		flags[i] = s.flag(o, configfile.Prefixed(prefix, o.Variables))
	}
	return flags
}

// HostFlags returns the flags that set Host. Some of them are options too.
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
// it.
func (s *Settings) flag(o config.Option, env []string) cli.Flag {
	values := o.Values(config.Default())
	switch o.Shape() {
	case config.Bool:
		return &cli.BoolFlag{
			Name: o.Name, Aliases: o.Aliases, EnvVars: env, Usage: o.Usage, Value: values[0] == "true",
			Action: func(_ *cli.Context, v bool) error { s.record(o.Name, strconv.FormatBool(v)); return nil },
		}
	case config.List:
		isBlank := func(v string) bool { return v == "" } // an empty value is an empty list
		f := &cli.StringSliceFlag{
			Name: o.Name, Aliases: o.Aliases, EnvVars: env, Usage: o.Usage,
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
			Name: o.Name, Aliases: o.Aliases, EnvVars: env, Usage: o.Usage, Value: strings.Join(values, ""),
			Action: func(_ *cli.Context, v string) error { s.record(o.Name, v); return nil },
		}
	}
}

// Load returns the config of flags, environment and config file.
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

// Parse returns the config that a file with the name and the data makes of flags
// and environment. The error is one of the command line for what is wrong in flags alone: a
// wrong file is no fault of the command line.
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

// Effective returns the settings in effect for the first line of the log: the
// options that the agent has, and the sections of the config file that are set.
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
