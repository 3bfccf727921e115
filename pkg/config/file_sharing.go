package config

import (
	"fmt"
	"math"

	"outrigger.dev/pkg/config/strict"
)

// MaxReplicas bounds the replicas of a device: the list of even a few devices with
// more exceeds 4 MiB, the largest message that the kubelet accepts.
const MaxReplicas = 10_000

const sharedSuffix = ".shared"

// sharingReader reads the section of one sharing strategy.
type sharingReader struct {
	strategy  SharingStrategy
	resources Resources
	// rename is renameByDefault.
	rename bool
	// whole has the line of the entry that takes all devices of a name, and refs that
	// of the entry that takes one device.
	whole map[string]int
	refs  map[string]int
}

func readSharing(name string, v strict.Value, r Resources) (s Sharing, at string) {
	m := v.Map("timeSlicing", "mps")
	timeSlicing, mps := m.Get("timeSlicing"), m.Get("mps")
	if timeSlicing.Set() && mps.Set() {
		mps.Fail("sharing.timeSlicing is also set, in line %d: remove one of them, a GPU has one sharing strategy", timeSlicing.Line())
	}
	s = Sharing{Strategy: SharingNone}
	for _, way := range []struct {
		of   strict.Value
		read sharingReader
		fail bool
	}{
		{timeSlicing, sharingReader{strategy: SharingTimeSlicing, resources: r}, false},
		{mps, sharingReader{strategy: SharingMPS, resources: r}, true},
	} {
		if way.of.Set() {
			s = way.read.all(way.of, way.fail)
			at = fmt.Sprintf("%s:%d: %s", name, way.of.Line(), way.of.Key())
		}
	}
	return s, at
}

// all reads the section; fail is the default of failRequestsGreaterThanOne.
func (r sharingReader) all(v strict.Value, fail bool) Sharing {
	m := v.Map("renameByDefault", "failRequestsGreaterThanOne", "resources")
	r.rename, _ = m.Get("renameByDefault").Bool()
	if v, ok := m.Get("failRequestsGreaterThanOne").Bool(); ok {
		fail = v
	}
	r.whole, r.refs = map[string]int{}, map[string]int{}
	s := Sharing{Strategy: r.strategy, FailRequestsGreaterThanOne: fail}
	const allowed = "a list of entries with name, replicas and, optionally, rename and devices"
	list := m.Get("resources")
	if !list.Set() {
		list.Missing(allowed)
	}
	entries := list.List()
	if list.IsList() && len(entries) == 0 {
		list.Fail("the list is empty: must be %s", allowed)
	}
	for _, entry := range entries {
		s.Shares = append(s.Shares, r.share(entry))
	}
	return s
}

func (r sharingReader) share(v strict.Value) Share {
	m := v.Map("name", "rename", "devices", "replicas")
	var s Share
	name, named := readName(m.Get("name"), true)
	s.Name, s.Rename = name, name
	if t, ok := m.Get("rename").Text(); ok && t != "" {
		s.Rename, _ = readName(m.Get("rename"), false)
	} else if named && r.rename {
		s.Rename = name + sharedSuffix
		if len(s.Rename) > maxName {
			m.Get("name").Fail("%s is too long for renameByDefault, which would make it %s: set rename", name, s.Rename)
		}
	}
	replicas := m.Get("replicas")
	if !replicas.Set() {
		replicas.Missing(fmt.Sprintf("an integer from 1 to %d, where 1 only renames", MaxReplicas))
	}
	s.Replicas, _ = replicas.Int(1, MaxReplicas)
	s.Devices = readSelection(m.Get("devices"))
	if named {
		r.checkShare(s, m)
	}
	return s
}

// checkShare reports an entry that cannot have an effect, or that no hardware
// supports.
func (r sharingReader) checkShare(s Share, m strict.Map) {
	name, devices := m.Get("name"), m.Get("devices")
	if why := unknownName(s.Name, r.resources); why != "" {
		name.Fail("%s", why)
		return
	}
	if r.strategy == SharingMPS && onlyMIG(s.Name, r.resources) {
		name.Fail("MPS cannot share MIG devices (%s): use sharing.timeSlicing for them", s.Name)
	}
	if line := r.whole[s.Name]; line > 0 {
		name.Fail("the entry in line %d takes all devices of %s, none is left for this entry: select devices there, or remove one of them", line, s.Name)
		return
	}
	if !devices.Set() || devices.IsText() {
		r.whole[s.Name] = name.Line()
	}
	for _, ref := range s.Devices.Refs {
		key := s.Name + " " + string(ref)
		if line := r.refs[key]; line > 0 {
			devices.Fail("the entry in line %d already takes %s of %s", line, ref, s.Name)
		}
		r.refs[key] = devices.Line()
		if r.strategy == SharingMPS && ref.MIG() {
			devices.Fail("%s is a MIG device, which MPS cannot share: use sharing.timeSlicing for it", ref)
		}
	}
}

func readSelection(v strict.Value) Selection {
	const allowed = "all, a number of devices, or a list of devices"
	if !v.Set() {
		return Selection{}
	}
	if v.IsText() {
		if t, _ := v.Text(); t != "all" {
			v.Bad(allowed)
		}
		return Selection{}
	}
	if !v.IsList() {
		n, ok := v.Int(1, math.MaxInt32)
		if !ok {
			n = 0
		}
		return Selection{Count: n}
	}
	var s Selection
	entries := v.List()
	for _, entry := range entries {
		t, ok := entry.Text()
		switch ref := Ref(t); {
		case !ok:
		case !ref.Valid():
			entry.Bad(refAllowed)
		default:
			s.Refs = append(s.Refs, ref)
		}
	}
	if len(entries) == 0 {
		v.Fail("the list is empty: must be %s", allowed)
	}
	return s
}
