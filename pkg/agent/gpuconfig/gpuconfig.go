// Package gpuconfig gives an agent the config of package config: it makes flags
// of the table of options, and a Config of flags, environment and the config file
// that the agents of a node share.
package gpuconfig

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/config/strict"
)

// Live is a Config that follows its file and the node's label.
type Live = configfile.Live[config.Config]

// Flags returns the flags of options. Each has its variables, and one more with
// the prefix, if that is not empty.
func Flags(prefix string, options ...config.Option) []cli.Flag {
	flags := make([]cli.Flag, len(options))
	defaults := config.Default()
	for i, o := range options {
		values := o.Values(defaults)
		env := configfile.Prefixed(prefix, o.Variables)
		switch {
		case o.Shape() == config.Bool:
			flags[i] = &cli.BoolFlag{Name: o.Name, EnvVars: env, Usage: o.Usage, Value: values[0] == "true"}
		case o.Shape() == config.List:
			f := &cli.StringSliceFlag{Name: o.Name, EnvVars: env, Usage: o.Usage}
			if len(values) > 0 {
				f.Value = cli.NewStringSlice(values...)
			}
			flags[i] = f
		default:
			flags[i] = &cli.StringFlag{Name: o.Name, EnvVars: env, Usage: o.Usage, Value: strings.Join(values, "")}
		}
	}
	return flags
}

// explicit returns what flags and environment set of options.
func explicit(c *cli.Context, options []config.Option) config.Explicit {
	out := config.Explicit{}
	set := c.FlagNames() // IsSet goes through all flags for each one
	for _, o := range options {
		switch {
		case !slices.Contains(set, o.Name):
		case o.Shape() == config.Bool:
			out[o.Name] = []string{strconv.FormatBool(c.Bool(o.Name))}
		case o.Shape() == config.List:
			out[o.Name] = agent.Words(c, o.Name)
		default:
			out[o.Name] = []string{c.String(o.Name)}
		}
	}
	return out
}

// options returns the options that the agent has flags for.
func options(c *cli.Context) []config.Option {
	return slices.DeleteFunc(config.Options(), func(o config.Option) bool { return c.Value(o.Name) == nil })
}

// Load returns the config of flags, environment and the config file that the flags
// of configfile.Flags select.
func Load(c *cli.Context, labels configfile.Labels, log *slog.Logger) (*Live, error) {
	has := options(c)
	set := explicit(c, has)
	var warned []string
	return configfile.Load(c, configfile.Spec[config.Config]{
		Parse: func(name string, data []byte) (config.Config, error) {
			cfg, err := parse(set, name, data)
			if err == nil && !slices.Equal(warned, cfg.Warnings) {
				warned = cfg.Warnings
				warn(log, warned)
			}
			return cfg, err
		},
		NeedsRestart: func(old, changed config.Config) []string {
			return slices.DeleteFunc(config.NeedsRestart(old, changed), func(name string) bool {
				return !slices.ContainsFunc(has, func(o config.Option) bool { return o.Name == name })
			})
		},
		Labels: labels,
		Log:    log,
	})
}

func warn(log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn("config accepted with a warning", "warning", w)
	}
}

// Parse returns the config that a file with the name and the data makes of flags
// and environment.
func Parse(c *cli.Context, name string, data []byte) (config.Config, error) {
	return parse(explicit(c, options(c)), name, data)
}

// parse returns an error of the command line for what is wrong in flags alone: a
// wrong file is no fault of the command line.
func parse(set config.Explicit, name string, data []byte) (config.Config, error) {
	cfg, err := config.Load(set, data, name)
	if err != nil && !InFile(err) {
		return cfg, agent.Usagef("%s", err)
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
func Effective(c *cli.Context, cfg config.Config) []slog.Attr {
	var out []slog.Attr
	for _, o := range options(c) {
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
