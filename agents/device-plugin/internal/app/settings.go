package app

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/config/strict"
	"outrigger.dev/pkg/agent"
)

// settings is all that flags, environment and config file say.
type settings struct {
	// explicit is what flags and environment set: with another content of the
	// file, config.Load makes another config of it.
	explicit config.Explicit
	file     configFile
	config   config.Config
	host     agent.Host
	// quiet is how long a GPU has to stay without another XID to be healthy.
	quiet time.Duration
	// devRoot is empty unless it is set.
	devRoot string
}

// read reads what there is to read, with the config file of a node on which the
// label has the value that labelled returns for its key. It is asked only where
// that matters; nil is a node without the label.
func read(c *cli.Context, labelled func(key string) (string, error)) (settings, error) {
	host, hostErr := agent.HostOf(c)
	s := settings{explicit: explicit(c), quiet: c.Duration("health-quiet-window")}
	if s.quiet <= 0 {
		return settings{}, errors.Join(hostErr, agent.BadFlag("health-quiet-window", s.quiet.String(), "a time above 0, like 5m"))
	}
	var err error
	if s.file, err = configFileOf(c); err != nil {
		return settings{}, errors.Join(hostErr, err)
	}
	if s.file.dir != "" && labelled != nil {
		if s.file.value, err = labelled(s.file.label); err != nil {
			return settings{}, errors.Join(hostErr, err)
		}
	}
	if s.config, err = s.load(s.file.value); err != nil {
		return settings{}, errors.Join(hostErr, err)
	}
	s.host, s.devRoot = place(host, s.config.Driver), s.config.Driver.DevRoot
	return s, hostErr
}

// load reads the config file of a node on which the label has the value, empty
// for none, and puts it together with what flags and environment set. What is
// wrong in the file is no fault of the command line, and gives no usage error.
func (s settings) load(label string) (config.Config, error) {
	name, data, err := s.file.read(label)
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(s.explicit, data, name)
	if err != nil && !inFile(err) {
		return cfg, agent.Usagef("%s", err)
	}
	return cfg, err
}

// inFile reports whether something is wrong in the config file itself.
func inFile(err error) bool {
	file := (*strict.Error)(nil)
	return errors.As(err, &file)
}

// place returns the host with the driver where the config has it.
func place(h agent.Host, d config.Driver) agent.Host {
	// Without a folder at the default, HostOf has put the driver root there.
	follows := h.DriverRootCtrPath == h.DriverRoot
	h.DriverRoot = d.Root
	switch {
	case d.CtrRoot != "":
		h.DriverRootCtrPath = d.CtrRoot
	case follows:
		h.DriverRootCtrPath = d.Root
	}
	return h
}

// explicit returns what flags and environment set.
func explicit(c *cli.Context) config.Explicit {
	return config.Explicit{
		MIGStrategy:         text[config.MIGStrategy](c, "mig-strategy"),
		FailOnInitError:     boolean(c, "fail-on-init-error"),
		DriverRoot:          text[string](c, "driver-root"),
		DriverRootCtrPath:   text[string](c, "driver-root-ctr-path"),
		DevRoot:             text[string](c, "dev-root"),
		ListStrategies:      texts[config.ListStrategy](c, "device-list-strategy"),
		IDStrategy:          text[config.IDStrategy](c, "device-id-strategy"),
		PassDeviceSpecs:     boolean(c, "pass-device-specs"),
		CDIAnnotationPrefix: text[string](c, "cdi-annotation-prefix"),
		HookPath:            text[string](c, "nvidia-cdi-hook-path"),
		MPSRoot:             text[string](c, "mps-root"),
		Policy:              text[config.Policy](c, "shared-devices-allocation-policy"),
		Discovery:           text[config.Discovery](c, "device-discovery-strategy"),
		GDS:                 boolean(c, "gds-enabled"),
		MOFED:               boolean(c, "mofed-enabled"),
		GDRCopy:             boolean(c, "gdrcopy-enabled"),
		IMEXChannels:        numbers(c, "imex-channel-ids"),
		IMEXRequired:        boolean(c, "imex-required"),
		KubeletSocket:       text[string](c, "kubelet-socket"),
		CDIRoot:             text[string](c, "cdi-root"),
		CDIFeatureFlags:     texts[string](c, "cdi-feature-flags"),
		CDIDisableHooks:     texts[string](c, "cdi-disable-hooks"),
		DisableHealthChecks: text[string](c, "disable-healthchecks"),
		EnableHealthChecks:  text[string](c, "enable-healthchecks"),
		ResourceConfig:      text[string](c, "resource-config"),
	}
}

func text[T ~string](c *cli.Context, flag string) *T {
	if !c.IsSet(flag) {
		return nil
	}
	v := T(c.String(flag))
	return &v
}

// texts returns the words of a list; an empty word is none, so that an empty
// variable is an empty list.
func texts[T ~string](c *cli.Context, flag string) []T {
	if !c.IsSet(flag) {
		return nil
	}
	out := []T{}
	for _, v := range c.StringSlice(flag) {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, T(v))
		}
	}
	return out
}

func boolean(c *cli.Context, flag string) *bool {
	if !c.IsSet(flag) {
		return nil
	}
	v := c.Bool(flag)
	return &v
}

func numbers(c *cli.Context, flag string) []int {
	if !c.IsSet(flag) {
		return nil
	}
	return append([]int{}, c.IntSlice(flag)...)
}

func (s settings) socketDir() string { return filepath.Dir(s.config.KubeletSocket) }
