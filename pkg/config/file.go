package config

import "outrigger.dev/pkg/config/strict"

// file is the content of a config file.
type file struct {
	settings settings
	sharing  Sharing
	// sharingAt is the place in the file that configures sharing.
	sharingAt string
	resources Resources
	filter    Filter
	health    Health
}

// read reads a config file of version v1, in YAML or JSON. The keys are the keys of NVIDIA's device
// plugin and three additions: devices, health, and more policies.
func read(name string, doc *strict.Doc, options []Option) file {
	f := file{settings: settings{}}
	m := doc.Root().Map("version", "flags", "resources", "sharing", "imex", "devices", "health")
	if v := m.Get("version"); v.Set() {
		if text, ok := v.Text(); ok && text != "" && text != "v1" {
			v.Bad("v1")
		}
	}
	for _, section := range []string{"flags", "imex"} {
		f.settings.readOptions(m.Get(section), section, options)
	}
	f.resources = readResources(m.Get("resources"))
	f.sharing, f.sharingAt = readSharing(name, m.Get("sharing"), f.resources)
	f.filter = readFilter(m.Get("devices"))
	f.health = readHealth(m.Get("health"))
	return f
}
