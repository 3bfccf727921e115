package config

import (
	"fmt"
	"math"

	"outrigger.dev/pkg/config/strict"
)

// MaxReplicas is the largest number of replicas of a device. Kubelets do not accept more, because
// the list of the devices of a resource is one message of at most 4 MiB, about 63,000 entries. The
// device plugin shortens the list until it fits.
const (
	MaxReplicas     = 100_000
	tooManyReplicas = "the kubelet accepts about 63000 devices in a list, so fewer replicas are advertised"
)

const sharedSuffix = ".shared"

// sharingReader reads the section of one sharing strategy.
type sharingReader struct {
	strategy  SharingStrategy
	resources Resources
	// rename is renameByDefault.
	rename bool
	// whole has, by name, the line of the entry that selects all devices of the name. refs has, by
	// name and Ref, the line of the entry that selects the device.
	whole map[string]int
	refs  map[string]int
}

func readSharing(name string, v strict.Value, r Resources) (s Sharing, at string) {
	m := v.Map("timeSlicing", "mps")
	s = Sharing{Strategy: SharingNone}
	first := 0
	for _, way := range []struct {
		of   strict.Value
		read sharingReader
		fail bool
	}{
		{m.Get("timeSlicing"), sharingReader{strategy: SharingTimeSlicing, resources: r}, false},
		{m.Get("mps"), sharingReader{strategy: SharingMPS, resources: r}, true},
	} {
		section := way.read.all(way.of, way.fail)
		if section.Strategy == SharingNone {
			continue
		}
		if first > 0 {
			way.of.Fail("sharing.timeSlicing is also set, in line %d, but a GPU has only one sharing strategy: remove one of them", first)
		}
		s, first = section, way.of.Line()
		at = fmt.Sprintf("%s:%d: %s", name, first, way.of.Key())
	}
	return s, at
}

// all reads the section. fail is the default of failRequestsGreaterThanOne. A section without
// entries shares nothing.
func (r sharingReader) all(v strict.Value, fail bool) Sharing {
	m := v.Map("renameByDefault", "failRequestsGreaterThanOne", "resources")
	r.rename, _ = m.Get("renameByDefault").Bool()
	if v, ok := m.Get("failRequestsGreaterThanOne").Bool(); ok {
		fail = v
	}
	r.whole, r.refs = map[string]int{}, map[string]int{}
	entries := m.Get("resources").List()
	if len(entries) == 0 {
		if v.Set() {
			v.Warn("it has no resources, so nothing is shared")
		}
		return Sharing{Strategy: SharingNone}
	}
	s := Sharing{Strategy: r.strategy, FailRequestsGreaterThanOne: fail}
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
			m.Get("name").Fail("renameByDefault turns %s into %s, which is too long: set rename", name, s.Rename)
		}
	}
	replicas := m.Get("replicas")
	if !replicas.Set() {
		replicas.Missing("an integer of at least 1; 1 only renames the resource")
	}
	s.Replicas, _ = replicas.Int(1, math.MaxInt)
	if s.Replicas > MaxReplicas {
		s.Replicas = MaxReplicas
		replicas.Warn(tooManyReplicas)
	}
	s.Devices = readSelection(m.Get("devices"))
	if named {
		r.checkShare(s, m)
	}
	return s
}

// checkShare reports an entry that contradicts another entry. It warns about an entry that cannot
// have an effect or that no hardware supports.
func (r sharingReader) checkShare(s Share, m strict.Map) {
	name, devices := m.Get("name"), m.Get("devices")
	if why := unknownName(s.Name, r.resources); why != "" {
		name.Warn("%s", why)
	}
	onMIG := r.strategy == SharingMPS && s.Replicas > 1
	if onMIG && onlyMIG(s.Name, r.resources) {
		name.Warn("MPS cannot share MIG devices (%s), so each is advertised once: use sharing.timeSlicing for them", s.Name)
	}
	if line := r.whole[s.Name]; line > 0 {
		name.Fail("the entry in line %d takes all devices of %s, so no device is left for this entry: select devices there, or remove one of the entries", line, s.Name)
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
		if onMIG && ref.MIG() {
			devices.Warn("%s is a MIG device, which MPS cannot share, so it is advertised once: use sharing.timeSlicing for it", ref)
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
