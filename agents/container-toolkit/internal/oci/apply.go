package oci

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Edits describes changes of a config.json. The order in each list matters.
type Edits struct {
	// Env replaces variables with the same name, and adds the others.
	Env []string
	// Devices replaces devices with the same path.
	Devices []specs.LinuxDevice
	// Rules is added to the rules of the device cgroup.
	Rules []specs.LinuxDeviceCgroup
	// NetDevices maps the name of an interface on the host to the network device.
	NetDevices map[string]specs.LinuxNetDevice
	// Mounts replaces mounts with the same destination. If Mounts is not empty, all mounts are sorted
	// by the depth of their destination.
	Mounts []specs.Mount
	Hooks  []Hook
	// IntelRdt replaces the container's value unless it is nil.
	IntelRdt *specs.LinuxIntelRdt
	// GIDs is added to the groups of the process.
	GIDs []uint32
}

// Hook is a hook with its phase: "prestart", "createRuntime", "createContainer", "startContainer",
// "poststart" or "poststop".
type Hook struct {
	Phase string
	specs.Hook
}

// Apply makes the changes. It does not add a hook that exists. If Apply returns an error, the Spec
// does not change.
func (s *Spec) Apply(e Edits) error { return s.change(patch{add: e}) }

// RemovePrestart removes each prestart hook if remove returns true for it.
func (s *Spec) RemovePrestart(remove func(specs.Hook) bool) error {
	if !slices.ContainsFunc(s.Prestart(), remove) {
		return nil
	}
	return s.change(patch{remove: remove})
}

// change applies a patch to the data of the Spec.
func (s *Spec) change(p patch) error {
	data, err := p.document(s.data)
	if err != nil {
		return fmt.Errorf("change container spec: %w", err)
	}
	s.data = data
	return nil
}

// patch is a change of a config.json.
type patch struct {
	add    Edits
	remove func(specs.Hook) bool
}

// changeObject applies change to the object at a key. It does not add an empty object.
func changeObject(o *object, key string, change func(*object) error) error {
	inner, err := parseObject(o.get(key))
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if err := change(&inner); err != nil {
		return err
	}
	if len(inner) == 0 {
		return nil
	}
	raw, err := inner.encode()
	if err == nil {
		o.set(key, raw)
	}
	return err
}

// changeArray applies change to the array at a key.
func changeArray(o *object, key string, change func(*array) error) error {
	a, err := parseArray(o.get(key))
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if err := change(&a); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	o.set(key, a.encode())
	return nil
}

func (p patch) document(data []byte) ([]byte, error) {
	root, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		needed bool
		key    string
		change func(*object) error
	}{
		{len(p.add.Env)+len(p.add.GIDs) > 0, "process", p.process},
		{len(p.add.Hooks) > 0 || p.remove != nil, "hooks", p.hooks},
		{len(p.add.Devices)+len(p.add.Rules)+len(p.add.NetDevices) > 0 || p.add.IntelRdt != nil, "linux", p.linux},
	} {
		if !step.needed {
			continue
		}
		if err := changeObject(&root, step.key, step.change); err != nil {
			return nil, err
		}
	}
	if len(p.add.Mounts) > 0 {
		if err := changeArray(&root, "mounts", p.mounts); err != nil {
			return nil, err
		}
	}
	return root.encode()
}

func (p patch) process(process *object) error {
	if len(p.add.Env) > 0 {
		if err := changeArray(process, "env", p.env); err != nil {
			return err
		}
	}
	if len(p.add.GIDs) == 0 {
		return nil
	}
	return changeObject(process, "user", func(user *object) error {
		return changeArray(user, "additionalGids", func(gids *array) error {
			for _, gid := range p.add.GIDs {
				text := fmt.Sprint(gid)
				if !slices.ContainsFunc(*gids, func(raw json.RawMessage) bool { return string(raw) == text }) {
					*gids = append(*gids, json.RawMessage(text))
				}
			}
			return nil
		})
	})
}

// env applies Env. If a variable appears several times, env replaces its last value, because the
// last value takes effect.
func (p patch) env(env *array) error {
	places := map[string]int{}
	for i, raw := range *env {
		var variable string
		if err := json.Unmarshal(raw, &variable); err != nil {
			return err
		}
		name, _, _ := strings.Cut(variable, "=")
		places[name] = i
	}
	for _, variable := range p.add.Env {
		name, _, _ := strings.Cut(variable, "=")
		if i, ok := places[name]; ok {
			raw, err := encode(variable)
			if err != nil {
				return err
			}
			(*env)[i] = raw
			continue
		}
		places[name] = len(*env)
		if err := env.add(variable); err != nil {
			return err
		}
	}
	return nil
}

func (p patch) linux(linux *object) error {
	e := p.add
	if len(e.Devices) > 0 {
		if err := changeArray(linux, "devices", func(devices *array) error {
			return replace(devices, e.Devices, func(d specs.LinuxDevice) string { return d.Path })
		}); err != nil {
			return err
		}
	}
	if len(e.Rules) > 0 {
		if err := changeObject(linux, "resources", func(resources *object) error {
			return changeArray(resources, "devices", func(rules *array) error { return addAll(rules, e.Rules) })
		}); err != nil {
			return err
		}
	}
	if len(e.NetDevices) > 0 {
		if err := e.netDevices(linux); err != nil {
			return err
		}
	}
	if e.IntelRdt == nil {
		return nil
	}
	raw, err := encode(e.IntelRdt)
	if err == nil {
		linux.set("intelRdt", raw)
	}
	return err
}

// netDevices sets network devices. It does not use object, because the case of their names matters.
func (e Edits) netDevices(linux *object) error {
	all := map[string]json.RawMessage{}
	if raw := linux.get("netDevices"); raw != nil {
		if err := json.Unmarshal(raw, &all); err != nil {
			return fmt.Errorf("netDevices: %w", err)
		}
	}
	for name, device := range e.NetDevices {
		raw, err := encode(device)
		if err != nil {
			return err
		}
		if all == nil {
			all = map[string]json.RawMessage{}
		}
		all[name] = raw
	}
	raw, err := encode(all)
	if err == nil {
		linux.set("netDevices", raw)
	}
	return err
}

// replace appends the values. For each value, it removes the first item with the same name.
func replace[T any](a *array, values []T, name func(T) string) error {
	names := make([]string, len(*a))
	for i, raw := range *a {
		var old T
		if err := json.Unmarshal(raw, &old); err != nil {
			return err
		}
		names[i] = name(old)
	}
	for _, v := range values {
		if i := slices.Index(names, name(v)); i >= 0 {
			*a, names = slices.Delete(*a, i, i+1), slices.Delete(names, i, i+1)
		}
		if err := a.add(v); err != nil {
			return err
		}
		names = append(names, name(v))
	}
	return nil
}

func addAll[T any](a *array, values []T) error {
	for _, v := range values {
		if err := a.add(v); err != nil {
			return err
		}
	}
	return nil
}

func (p patch) mounts(mounts *array) error {
	destination := func(m specs.Mount) string { return m.Destination }
	if err := replace(mounts, p.add.Mounts, destination); err != nil {
		return err
	}
	type mount struct {
		raw   json.RawMessage
		depth int
	}
	sorted := make([]mount, len(*mounts))
	for i, raw := range *mounts {
		var m specs.Mount
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		sorted[i] = mount{raw, strings.Count(path.Clean(m.Destination), "/")}
	}
	slices.SortStableFunc(sorted, func(a, b mount) int { return cmp.Compare(a.depth, b.depth) })
	for i := range sorted {
		(*mounts)[i] = sorted[i].raw
	}
	return nil
}
