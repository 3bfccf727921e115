// Package configfile gives an agent the config of package config: from flags,
// the environment and the config file that it shares with other agents, of which
// a label of the node may choose one, and keeps it up to date while the agent
// runs.
package configfile

import (
	"errors"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/config/strict"
)

// Settings is all that flags, environment and config file say of the GPUs.
type Settings struct {
	// Explicit is what flags and environment set: with another content of the
	// file, config.Load makes another config of it.
	Explicit config.Explicit
	File     File
	// Config is what holds at the start.
	Config config.Config
	// labels are those of the node, and label is the value at the start of the one
	// that chooses the file.
	labels Labels
	label  string
	// flags are the names of those that the agent has.
	flags []string
}

// Load reads flags, environment and the config file. If a label of the node
// chooses the file, Load waits for the labels, but not for long.
func Load(c *cli.Context, labels Labels, log *slog.Logger) (Settings, error) {
	s := Settings{Explicit: Explicit(c), labels: labels}
	for _, f := range c.App.Flags {
		s.flags = append(s.flags, f.Names()...)
	}
	var err error
	if s.File, err = FileOf(c); err != nil {
		return Settings{}, err
	}
	if s.File.Dir != "" {
		if s.label, err = firstLabel(c.Context, labels, s.File.Label, log); err != nil {
			return Settings{}, err
		}
	}
	s.Config, err = s.load(s.label)
	return s, err
}

// load reads the config file of a node on which the label has the value, empty
// for none, and puts it together with what flags and environment set. What is
// wrong in the file is no fault of the command line, and gives no usage error.
func (s Settings) load(label string) (config.Config, error) {
	path, data, err := s.File.read(label)
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(s.Explicit, data, path)
	if err != nil && !InFile(err) {
		return cfg, agent.Usagef("%s", err)
	}
	return cfg, err
}

// InFile reports whether an error of config.Load is about the config file
// itself, rather than about a flag.
func InFile(err error) bool {
	file := (*strict.Error)(nil)
	return errors.As(err, &file)
}
