package resource

import (
	"slices"

	"outrigger.dev/pkg/cause"
)

// filter omits the units that the config hides. It is the first stage, so that a hidden device does
// not break a MIG layout or count in a share.
func (d *derivation) filter(units []*unit) []*unit {
	f := d.config.Filter
	include, exclude := newMatcher(f.Include), newMatcher(f.Exclude)
	kept := slices.DeleteFunc(units, func(u *unit) bool {
		// Both are called, so that both record which entries match.
		_, in := include.match(u)
		by, out := exclude.match(u)
		ref := d.ambiguous(u)
		switch {
		case ref != "":
			d.omit(u, cause.DeviceIndex, "the config uses the index %s, and the index of this GPU has changed with a reboot: before, %s:"+
				" name GPUs by UUID in the config or, if it means the GPUs that the indices name now, remove %s on the node",
				ref, u.gpu.Earlier, u.gpu.Earlier.File)
		case out:
			d.omit(u, cause.DeviceExcluded, "the config excludes %q", by)
		case len(f.Include) > 0 && !in:
			d.omit(u, cause.DeviceExcluded, "the config includes only other devices")
		default:
			return false
		}
		return true
	})
	for _, e := range include.unused() {
		d.addNote("include %q: no device of this node matches", e)
	}
	for _, e := range exclude.unused() {
		d.addNote("exclude %q: no device of this node matches", e)
	}
	return kept
}

// ambiguous returns the first index in the config that may mean the GPU of the unit or another GPU, or
// "".
func (d *derivation) ambiguous(u *unit) string {
	if u.gpu.Earlier == nil {
		return ""
	}
	refs := slices.Concat(d.config.Filter.Include, d.config.Filter.Exclude)
	for _, s := range d.config.Sharing.Shares {
		for _, r := range s.Devices.Refs {
			refs = append(refs, string(r))
		}
	}
	if i := slices.IndexFunc(refs, u.ambiguous); i >= 0 {
		return refs[i]
	}
	return ""
}

// matcher compares units with the entries of a list, and records which entries matched.
type matcher struct {
	entries []string
	used    []bool
}

func newMatcher(entries []string) *matcher {
	return &matcher{entries: entries, used: make([]bool, len(entries))}
}

// match returns the first entry that names the unit or its GPU, or that is a pattern for one of
// them.
func (m *matcher) match(u *unit) (entry string, ok bool) {
	for i, e := range m.entries {
		if !u.hasName(e) && !matches(e, u.gpuTexts) && !matches(e, u.migTexts) {
			continue
		}
		m.used[i] = true
		if !ok {
			entry, ok = e, true
		}
	}
	return entry, ok
}

func (m *matcher) unused() []string {
	var out []string
	for i, e := range m.entries {
		if !m.used[i] {
			out = append(out, e)
		}
	}
	return out
}
