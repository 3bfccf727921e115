package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"outrigger.dev/pkg/text"
)

// device is a device of a ResourceSlice.
type device struct {
	id   deviceID
	node string
	*resourcev1.Device
}

type deviceID struct{ driver, pool, name string }

// devices returns the devices of the newest generation of each pool.
func (d *diagnosis) devices() (all []device) {
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, s := range d.Slices {
		p := pool{s.Spec.Driver, s.Spec.Pool.Name}
		newest[p] = max(newest[p], s.Spec.Pool.Generation)
	}
	for _, s := range d.Slices {
		if s.Spec.Pool.Generation < newest[pool{s.Spec.Driver, s.Spec.Pool.Name}] {
			continue
		}
		for i := range s.Spec.Devices {
			one := device{id: deviceID{s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name}, node: s.Spec.Pool.Name, Device: &s.Spec.Devices[i]}
			for _, node := range []*string{s.Spec.NodeName, one.NodeName} {
				if node != nil {
					one.node = *node
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// allocated returns the claim that has each device. Administrative access, and devices for several claims, keep nobody off.
func (d *diagnosis) allocated() map[deviceID]*resourcev1.ResourceClaim {
	if d.claimed != nil {
		return d.claimed
	}
	d.claimed = map[deviceID]*resourcev1.ResourceClaim{}
	for _, c := range d.Claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if (r.AdminAccess == nil || !*r.AdminAccess) && r.ShareID == nil {
				d.claimed[deviceID{r.Driver, r.Pool, r.Device}] = c
			}
		}
	}
	return d.claimed
}

// selector is an expression of a DeviceClass or a claim.
type selector struct {
	expression string
	compiled   cel.CompilationResult
	// matches is the number of devices that match, and err the first error.
	matches int
	err     error
}

// newSelectors compiles expressions as the scheduler does.
func newSelectors(from []resourcev1.DeviceSelector) (all []*selector) {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	for _, s := range from {
		if s.CEL == nil {
			continue
		}
		one := &selector{expression: s.CEL.Expression, compiled: compiler.CompileCELExpression(s.CEL.Expression, cel.Options{DisableCostEstimation: true})}
		if one.compiled.Error != nil {
			one.err = one.compiled.Error
		}
		all = append(all, one)
	}
	return all
}

// match reports whether a device matches. A selector that fails matches nothing.
func (s *selector) match(one device) bool {
	if s.compiled.Error != nil {
		return false
	}
	is, _, err := s.compiled.DeviceMatches(context.Background(), cel.Device{
		Driver: one.id.driver, AllowMultipleAllocations: one.AllowMultipleAllocations, Attributes: one.Attributes, Capacity: one.Capacity,
	})
	if err != nil && s.err == nil {
		s.err = err
	}
	if is {
		s.matches++
	}
	return is
}

// matchAll reports whether a device matches all selectors. Each selector counts the device.
func matchAll(list []*selector, one device) bool {
	matches := true
	for _, s := range list {
		matches = s.match(one) && matches
	}
	return matches
}

// matching returns the devices that match a class and the selectors of a request, or why none does.
func (d *diagnosis) matching(class *resourcev1.DeviceClass, request []resourcev1.DeviceSelector) (found []device, why string) {
	ofClass, ofRequest := newSelectors(class.Spec.Selectors), newSelectors(request)
	all := d.devices()
	inClass := 0
	for _, one := range all {
		if !matchAll(ofClass, one) {
			continue
		}
		inClass++
		if matchAll(ofRequest, one) {
			found = append(found, one)
		}
	}
	switch {
	case len(found) > 0:
		return found, ""
	case len(all) == 0:
		return nil, "no ResourceSlice has a device: no DRA plugin publishes one"
	case inClass == 0:
		return nil, fmt.Sprintf("none of %s in ResourceSlices is of the DeviceClass %s%s", plural(len(all), "device"), class.Name, reasons(ofClass))
	}
	return nil, fmt.Sprintf("none of %s of the DeviceClass %s matches%s", plural(inClass, "device"), class.Name, reasons(ofRequest))
}

// reasons names the selectors that no device matches, or all selectors, and why they fail.
func reasons(all []*selector) string {
	named := slices.DeleteFunc(slices.Clone(all), func(s *selector) bool { return s.matches > 0 })
	if len(named) == 0 {
		named = all // only all together exclude each device
	}
	var b strings.Builder
	for i, s := range named {
		b.WriteString([]string{" ", " and "}[min(i, 1)] + s.expression)
		if s.err != nil {
			b.WriteString(", which fails: " + text.OneLine(s.err))
		}
	}
	return b.String()
}
