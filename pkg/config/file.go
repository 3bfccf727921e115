package config

import (
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// file is what a config file sets.
type file struct {
	Explicit
	sharing Sharing
	// sharingAt is where the file says how to share.
	sharingAt string
	resources Resources
	filter    Filter
}

// parse reads a config file of version v1, in YAML or JSON. The keys are those
// of NVIDIA's device plugin, and ours: devices, and more policies.
func parse(name string, data []byte) (file, error) {
	doc := strict.Parse(name, data)
	f := file{sharing: Sharing{Strategy: SharingNone}}
	m := doc.Root().Map("version", "flags", "resources", "sharing", "imex", "devices")
	if v := m.Get("version"); v.Set() {
		if text, ok := v.Text(); ok && text != "" && text != "v1" {
			v.Bad("v1")
		}
	}
	f.readFlags(m.Get("flags"))
	f.resources = readResources(m.Get("resources"))
	f.sharing, f.sharingAt = readSharing(name, m.Get("sharing"), f.resources)
	f.readIMEX(m.Get("imex"))
	f.filter = readFilter(m.Get("devices"))
	return f, doc.Err()
}

func (f *file) readFlags(v strict.Value) {
	m := v.Map("migStrategy", "failOnInitError", "mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot", "gdrcopyEnabled",
		"gdsEnabled", "mofedEnabled", "useNodeFeatureAPI", "deviceDiscoveryStrategy", "plugin", "gfd")
	f.MIGStrategy = word(m.Get("migStrategy"), migStrategies())
	f.FailOnInitError = boolean(m.Get("failOnInitError"))
	f.MPSRoot = path(m.Get("mpsRoot"), true)
	f.DriverRoot = path(m.Get("nvidiaDriverRoot"), false)
	f.DevRoot = path(m.Get("nvidiaDevRoot"), true)
	f.GDRCopy = boolean(m.Get("gdrcopyEnabled"))
	f.GDS = boolean(m.Get("gdsEnabled"))
	f.MOFED = boolean(m.Get("mofedEnabled"))
	f.Discovery = discovery(m.Get("deviceDiscoveryStrategy"))
	f.readPlugin(m.Get("plugin"))
	f.UseNodeFeatureAPI = boolean(m.Get("useNodeFeatureAPI"))
	f.readGFD(m.Get("gfd"))
}

// readGFD reads the keys of feature discovery, which reads the same file.
func (f *file) readGFD(v strict.Value) {
	m := v.Map("oneshot", "noTimestamp", "sleepInterval", "outputFile", "machineTypeFile")
	f.OneShot = boolean(m.Get("oneshot"))
	f.NoTimestamp = boolean(m.Get("noTimestamp"))
	f.OutputFile = path(m.Get("outputFile"), true)
	f.MachineTypeFile = path(m.Get("machineTypeFile"), true)
	f.SleepInterval = text(m.Get("sleepInterval"))
	if t := f.SleepInterval; t != nil {
		if _, ok := parseInterval(*t); !ok {
			m.Get("sleepInterval").Bad(intervalAllowed)
		}
	}
}

func (f *file) readPlugin(v strict.Value) {
	m := v.Map("passDeviceSpecs", "deviceListStrategy", "deviceIDStrategy", "cdiAnnotationPrefix", "nvidiaCTKPath",
		"containerDriverRoot", "sharedDevicesAllocationPolicy")
	f.PassDeviceSpecs = boolean(m.Get("passDeviceSpecs"))
	f.ListStrategies = readListStrategies(m.Get("deviceListStrategy"))
	f.IDStrategy = word(m.Get("deviceIDStrategy"), idStrategies())
	f.CDIAnnotationPrefix = text(m.Get("cdiAnnotationPrefix"))
	f.HookPath = path(m.Get("nvidiaCTKPath"), true)
	f.DriverRootCtrPath = path(m.Get("containerDriverRoot"), false)
	f.Policy = word(m.Get("sharedDevicesAllocationPolicy"), policies())
}

func (f *file) readIMEX(v strict.Value) {
	m := v.Map("channelIDs", "required")
	f.IMEXRequired = boolean(m.Get("required"))
	ids := m.Get("channelIDs")
	if !ids.Set() {
		return
	}
	f.IMEXChannels = []int{}
	for _, id := range ids.List() {
		t, ok := id.Text()
		switch {
		case !ok:
		case t != "0":
			id.Bad(imexAllowed)
		default:
			f.IMEXChannels = append(f.IMEXChannels, 0)
		}
	}
}

// readListStrategies takes a list, a word, or words joined by commas, as flag
// and environment do.
func readListStrategies(v strict.Value) []ListStrategy {
	if !v.Set() {
		return nil
	}
	allowed := oneOf(listStrategies())
	var out []ListStrategy
	add := func(v strict.Value, word string) {
		s := ListStrategy(strings.TrimSpace(word))
		if !slices.Contains(listStrategies(), s) {
			v.Bad(allowed)
			return
		}
		out = append(out, s)
	}
	if !v.IsList() {
		joined, ok := v.Text()
		if !ok {
			return nil
		}
		for word := range strings.SplitSeq(joined, ",") {
			add(v, word)
		}
		return out
	}
	entries := v.List()
	for _, entry := range entries {
		if word, ok := entry.Text(); ok {
			add(entry, word)
		}
	}
	if len(entries) == 0 {
		v.Fail("the list is empty: must have one or more of %s", allowed)
	}
	return out
}

func discovery(v strict.Value) *Discovery {
	if t, ok := v.Text(); ok && t == discoveryTegra {
		v.Bad(oneOf(discoveries()) + ": " + noTegra)
		return nil
	}
	return word(v, discoveries())
}

func word[T ~string](v strict.Value, allowed []T) *T {
	t, ok := v.Text()
	if !ok {
		return nil
	}
	if !slices.Contains(allowed, T(t)) {
		v.Bad(oneOf(allowed))
		return nil
	}
	out := T(t)
	return &out
}

func boolean(v strict.Value) *bool {
	b, ok := v.Bool()
	if !ok {
		return nil
	}
	return &b
}

func text(v strict.Value) *string {
	t, ok := v.Text()
	if !ok {
		return nil
	}
	return &t
}

// path returns an absolute path, or an empty one where that has a meaning.
func path(v strict.Value, empty bool) *string {
	t := text(v)
	if t == nil || *t == "" && empty || filepath.IsAbs(*t) {
		return t
	}
	v.Bad("an absolute path")
	return nil
}
