// Package migconfig reads, derives and writes MIG configs in mig-parted's format v1, which have
// layouts and select GPUs for them. It also reads and writes checkpoints of layouts. It does no I/O,
// except in Files.
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

// version is the only version of the file formats.
const version = "v1"

// Config is a config file: the desired states of GPUs, by the name of a config.
type Config struct {
	Entries map[string][]Item
}

// Item is the desired state of some GPUs.
type Item struct {
	// All selects all GPUs. GPUs selects GPUs by their NVML indices.
	All  bool
	GPUs []int
	// Filters restricts All and GPUs to some products. If empty, all products are selected.
	Filters []Filter
	mig.Desired
	// At is the place of the item in its file, for errors; empty without a file.
	At string
}

// Names returns the names of the configs in order.
func (c Config) Names() []string { return slices.Sorted(maps.Keys(c.Entries)) }

// Merge returns a Config with the entries of both. An entry of user replaces the entry of c with the
// same name.
func (c Config) Merge(user Config) Config {
	out := Config{Entries: map[string][]Item{}}
	maps.Copy(out.Entries, c.Entries)
	maps.Copy(out.Entries, user.Entries)
	return out
}

// Read parses a config file. file is the name in errors. It reports all errors at once, each with
// file, line and key.
func Read(file string, data []byte) (Config, error) {
	doc := strict.Parse(file, data)
	r := reader{file: file, out: Config{Entries: map[string][]Item{}}}
	root := doc.Root().Map("version", "mig-configs")
	root.Get("version").Require(version)
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

// entry reads the items of a config.
func (r *reader) entry(e strict.Entry) {
	items := e.List()
	if e.Name == "" || text.Printable(e.Name) != e.Name {
		e.Fail("is not a valid config name: must be printable characters")
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

// devices reads the GPUs that an item selects.
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

// profiles reads the desired number of MIG devices for each profile of an item.
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
		v.Fail("all numbers are 0: set at least one to 1 or more, or write {} for no MIG devices")
	}
	return out
}

// The limits of a config. Nodes have up to 16 GPUs, and GPUs up to 7 MIG devices.
const (
	maxDevices = 64
	maxIndex   = 255
)
