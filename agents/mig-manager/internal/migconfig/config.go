// Package migconfig reads, derives and writes MIG configs: files in the format v1 of
// mig-parted, which name layouts and the GPUs that shall have them, and checkpoints of the
// layouts that GPUs have. It does no I/O.
package migconfig

import (
	"fmt"
	"maps"
	"slices"

	"outrigger.dev/pkg/config/strict"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/text"
)

// version is the only version of the format.
const version = "v1"

// Config is a config file: what each name asks of the GPUs of a node.
type Config struct {
	Entries map[string][]Item
}

// Item asks the same of some GPUs.
type Item struct {
	// All selects all GPUs, and GPUs those with these NVML indices.
	All  bool
	GPUs []int
	// Filters restricts both to some products. It is empty for no restriction.
	Filters []Filter
	mig.Desired
	// At is the place of the item in its file, for errors; empty if it has none.
	At string
}

// Names returns the names of the config in order.
func (c Config) Names() []string { return slices.Sorted(maps.Keys(c.Entries)) }

// Merge returns a config with the names of both. What user has for a name replaces what c
// has for it.
func (c Config) Merge(user Config) Config {
	out := Config{Entries: map[string][]Item{}}
	maps.Copy(out.Entries, c.Entries)
	maps.Copy(out.Entries, user.Entries)
	return out
}

// Read reads a config file, which errors call file. It reports all errors at once, each
// with file, line and key.
func Read(file string, data []byte) (Config, error) {
	doc := strict.Parse(file, data)
	r := reader{file: file, out: Config{Entries: map[string][]Item{}}}
	root := doc.Root().Map("version", "mig-configs")
	if v := root.Get("version"); !v.Set() {
		v.Missing(version)
	} else if word, ok := v.Text(); ok && word != version {
		v.Bad(version)
	}
	configs := root.Get("mig-configs")
	entries := configs.Entries()
	if !configs.Set() || configs.IsMap() && len(entries) == 0 {
		configs.Missing("at least one config by its name")
	}
	for _, e := range entries {
		r.entry(e)
	}
	if err := doc.Err(); err != nil {
		return Config{}, err
	}
	return r.out, nil
}

type reader struct {
	file string
	out  Config
}

// entry reads the list of items of one name.
func (r *reader) entry(e strict.Entry) {
	items := e.List()
	if e.Name == "" || text.Printable(e.Name) != e.Name {
		e.Fail("is no name of a config: must be characters that can be printed")
		return
	}
	if !e.Set() || e.IsList() && len(items) == 0 {
		e.Missing("a list of at least one item with devices and mig-enabled")
	}
	for _, v := range items {
		r.out.Entries[e.Name] = append(r.out.Entries[e.Name], r.item(v))
	}
}

func (r *reader) item(v strict.Value) Item {
	m := v.Map("devices", "device-filter", "mig-enabled", "mig-devices")
	item := Item{At: fmt.Sprintf("%s:%d: %s", r.file, v.Line(), v.Key())}
	item.All, item.GPUs = devices(m.Get("devices"))
	item.Filters = filters(m.Get("device-filter"))
	mode := m.Get("mig-enabled")
	if !mode.Set() {
		mode.Missing("true or false")
	}
	enabled, known := mode.Bool()
	item.Enabled = enabled
	counts := m.Get("mig-devices")
	item.Devices = profiles(counts)
	switch {
	case !known:
	case enabled && !counts.Set():
		counts.Missing("a mapping from MIG profiles to their number; {} for none, as mig-enabled is true")
	case !enabled && counts.IsMap() && len(counts.Entries()) > 0:
		counts.Fail("mig-enabled is false: remove mig-devices, or set mig-enabled to true")
	}
	return item
}

// devices reads which GPUs an item selects.
func devices(v strict.Value) (all bool, indices []int) {
	const allowed = "all, or a list of GPU indices such as [0, 2]"
	if !v.Set() {
		v.Missing(allowed)
		return false, nil
	}
	if !v.IsList() {
		if word, ok := v.Text(); !ok || word != "all" {
			if ok {
				v.Bad(allowed)
			}
			return false, nil
		}
		return true, nil
	}
	for _, entry := range v.List() {
		n, ok := entry.Int(0, maxIndex)
		switch {
		case !ok:
		case slices.Contains(indices, n):
			entry.Fail("GPU %d is in the list twice", n)
		default:
			indices = append(indices, n)
		}
	}
	if len(v.List()) == 0 {
		v.Fail("the list is empty: must be %s", allowed)
	}
	return false, indices
}

// profiles reads how many MIG devices of each profile an item asks for.
func profiles(v strict.Value) map[gpu.Profile]int {
	var out map[gpu.Profile]int
	entries := v.Entries()
	valid := true
	for _, e := range entries {
		p, err := gpu.ParseProfile(e.Name)
		if err != nil {
			e.Fail("%v", err)
			valid = false
			continue
		}
		if !e.Set() {
			e.Missing("a number of MIG devices")
		}
		n, ok := e.Int(0, maxDevices)
		if valid = valid && ok; n == 0 {
			continue
		}
		if out == nil {
			out = map[gpu.Profile]int{}
		}
		out[p] += n
	}
	if valid && len(entries) > 0 && len(out) == 0 {
		v.Fail("all numbers are 0: ask for at least one MIG device, or write {} for none")
	}
	return out
}

// The bounds of what a config can ask for. Nodes have up to 16 GPUs, and GPUs up to 7 MIG
// devices.
const (
	maxDevices = 64
	maxIndex   = 255
)
