package migconfig

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The structure of a config file.
type (
	document struct {
		Version string                  `json:"version" yaml:"version"`
		Configs map[string][]itemFields `json:"mig-configs" yaml:"mig-configs"`
	}
	itemFields struct {
		Filter  any            `json:"device-filter,omitempty" yaml:"device-filter,omitempty,flow"`
		Devices any            `json:"devices" yaml:"devices,flow"`
		Enabled bool           `json:"mig-enabled" yaml:"mig-enabled"`
		MIG     map[string]int `json:"mig-devices" yaml:"mig-devices"`
	}
)

// YAML returns the config in the format of Read and mig-parted, as YAML.
func (c Config) YAML() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(c.document()); err != nil {
		return nil, fmt.Errorf("write MIG config: %w", err)
	}
	return out.Bytes(), nil
}

// JSON returns the config in the format of Read and mig-parted, as JSON.
func (c Config) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(c.document(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write MIG config: %w", err)
	}
	return append(out, '\n'), nil
}

func (c Config) document() document {
	d := document{Version: version, Configs: map[string][]itemFields{}}
	for name, items := range c.Entries {
		for _, i := range items {
			d.Configs[name] = append(d.Configs[name], i.fields())
		}
	}
	return d
}

func (i Item) fields() itemFields {
	f := itemFields{Devices: any(i.GPUs), Enabled: i.Enabled, MIG: map[string]int{}}
	if i.All {
		f.Devices = "all"
	}
	var filters []string
	for _, filter := range i.Filters {
		filters = append(filters, filter.String())
	}
	switch len(filters) {
	case 0:
	case 1:
		f.Filter = filters[0]
	default:
		f.Filter = filters
	}
	for p, n := range i.Devices {
		f.MIG[p.String()] = n
	}
	return f
}
