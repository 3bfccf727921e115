package migconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/text"
)

// ErrNoEntry is returned if a config file does not have the selected config.
var ErrNoEntry = errors.New("selected mig-config not present")

// ErrNoMatch is returned if no item of a config selects a GPU of the node.
var ErrNoMatch = errors.New("selects no GPU of the node")

// Selection is the result of a config for the GPUs of a node. Each GPU is in exactly one of its fields.
type Selection struct {
	Want map[gpu.UUID]mig.Desired
	// Unmatched are the GPUs that no item selects. They are not changed.
	Unmatched []mig.GPU
	// Incapable are the selected GPUs without a MIG mode, if the item selects all GPUs or desires no
	// MIG devices. They are not changed.
	Incapable []mig.GPU
	// Faulty are the GPUs that cannot be read, if an item selects them or may select them by product.
	Faulty []mig.GPU
}

// Unreadable returns an error for the GPUs that cannot be read, or nil.
func (s Selection) Unreadable() error {
	var errs []error
	for _, g := range s.Faulty {
		errs = append(errs, fmt.Errorf("GPU %d cannot be read: %w: reset or repair it", g.Index, g.Fault))
	}
	return errors.Join(errs...)
}

// Select returns the desired states of the GPUs of a node for the config with a name. It returns an
// error if two items desire different states for a GPU, if the node has no GPU with an index in the
// config, if the index named another GPU before the last boot, or if an item enables the MIG mode of a
// GPU that it selects by index and that has no MIG mode. It can also return ErrNoEntry or ErrNoMatch.
func (c Config) Select(name string, gpus []mig.GPU) (Selection, error) {
	items, ok := c.Entries[name]
	if !ok {
		return Selection{}, fmt.Errorf("%w: %q: must be %s", ErrNoEntry, name, c.Choices())
	}
	var errs []error
	for _, item := range items {
		errs = append(errs, item.checkIndices(gpus), item.checkReboot(gpus))
	}
	s := Selection{Want: map[gpu.UUID]mig.Desired{}}
	for _, g := range gpus {
		errs = append(errs, s.add(items, g))
	}
	if err := errors.Join(errs...); err != nil {
		return Selection{}, fmt.Errorf("config %q: %w", name, err)
	}
	if len(gpus) > 0 && len(s.Unmatched) == len(gpus) {
		return s, fmt.Errorf("config %q %w, which has %s: add an item for it", name, ErrNoMatch, products(gpus))
	}
	return s, nil
}

// maxChoices is the largest number of names in an error.
const maxChoices = 8

// Choices lists the names of the configs for an error. A long list is cut.
func (c Config) Choices() string {
	names := c.Names()
	if more := len(names) - maxChoices; more > 1 {
		names = append(names[:maxChoices], fmt.Sprintf("one of %d others", more))
	}
	return text.OneOf(names)
}

// add adds a GPU to the field of the selection that the items determine.
func (s *Selection) add(items []Item, g mig.GPU) error {
	var first *Item
	for i := range items {
		item := &items[i]
		switch {
		case !item.selects(g):
		case first == nil:
			first = item
		case g.Fault == nil && !first.Desired.Equal(item.Desired):
			return fmt.Errorf("GPU %d is selected twice, and with different MIG devices: by %s and by %s: restrict one of them with devices or device-filter",
				g.Index, first.name(), item.name())
		}
	}
	switch {
	case first == nil:
		s.Unmatched = append(s.Unmatched, g)
	case g.Fault != nil:
		s.Faulty = append(s.Faulty, g)
	case g.Capable:
		s.Want[g.UUID] = first.Desired
	case !first.All && first.Enabled:
		return fmt.Errorf("GPU %d (%s) has no MIG mode, and %s enables it: remove the GPU from devices", g.Index, g.Name, first.name())
	default:
		s.Incapable = append(s.Incapable, g)
	}
	return nil
}

// Indices returns the number of GPUs that a node needs to have all GPU indices in the config with a
// name. It is at least 1.
func (c Config) Indices(name string) int {
	n := 1
	for _, item := range c.Entries[name] {
		for _, index := range item.GPUs {
			n = max(n, index+1)
		}
	}
	return n
}

// Filters reports whether the config with a name has a filter for a device.
func (c Config) Filters(name string, device uint32) bool {
	return slices.ContainsFunc(c.Entries[name], func(i Item) bool {
		return slices.ContainsFunc(i.Filters, func(f Filter) bool { return f.Device == device })
	})
}

// selects reports whether the item selects a GPU. If the product is not known because the GPU cannot
// be read, all filters match.
func (i Item) selects(g mig.GPU) bool {
	if !i.All && !slices.Contains(i.GPUs, g.Index) {
		return false
	}
	return len(i.Filters) == 0 || g.Fault != nil && g.PCI.DeviceID == 0 ||
		slices.ContainsFunc(i.Filters, func(f Filter) bool { return f.Matches(g.PCI) })
}

// checkIndices returns an error for indices that the node does not have. If the node does not have a
// product in the filters, the item is for other nodes, and any index is allowed.
func (i Item) checkIndices(gpus []mig.GPU) error {
	everywhere := i
	everywhere.All = true
	if len(i.Filters) > 0 && !slices.ContainsFunc(gpus, everywhere.selects) {
		return nil
	}
	var missing []string
	for _, index := range i.GPUs {
		if !slices.ContainsFunc(gpus, func(g mig.GPU) bool { return g.Index == index }) {
			missing = append(missing, strconv.Itoa(index))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the node has no GPU %s: it has %s", i.name(), strings.Join(missing, ", "), products(gpus))
}

// checkReboot returns an error for indices that named other GPUs before the last boot.
func (i Item) checkReboot(gpus []mig.GPU) error {
	var errs []error
	for _, index := range i.GPUs {
		for _, g := range gpus {
			if e := g.Earlier; e.Ambiguous(index, g.Index) {
				errs = append(errs, fmt.Errorf("%s: it selects index %d, and indices have changed with a reboot: GPU %d is %s now; before, %s:"+
					" check devices and device-filter and, if they mean the GPUs that the indices name now, remove %s on the node",
					i.name(), index, g.Index, g.UUID, e, e.File))
			}
		}
	}
	return errors.Join(errs...)
}

// name returns the name of an item for errors.
func (i Item) name() string {
	switch {
	case i.At != "":
		return i.At
	case i.All:
		return "the item for all GPUs"
	default:
		return fmt.Sprintf("the item for GPUs %v", i.GPUs)
	}
}

// products describes GPUs, such as "GPUs 0 to 7 (0x20B010DE, NVIDIA A100-SXM4-40GB)".
func products(gpus []mig.GPU) string {
	var out []string
	for i := 0; i < len(gpus); {
		j := i + 1
		for j < len(gpus) && gpus[j].PCI.DeviceID == gpus[i].PCI.DeviceID && gpus[j].Name == gpus[i].Name && gpus[j].Index == gpus[j-1].Index+1 {
			j++
		}
		which := fmt.Sprintf("GPU %d", gpus[i].Index)
		if j > i+1 {
			which = fmt.Sprintf("GPUs %d to %d", gpus[i].Index, gpus[j-1].Index)
		}
		what := "cannot be read"
		if gpus[i].Name != "" {
			what = fmt.Sprintf("%s, %s", Filter{Device: gpus[i].PCI.DeviceID}, gpus[i].Name)
		}
		out = append(out, fmt.Sprintf("%s (%s)", which, what))
		i = j
	}
	if len(out) == 0 {
		return "no GPUs"
	}
	return strings.Join(out, ", ")
}
