package resource

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// class is a set of devices that are equal for a container with the MIG strategy single: MIG
// devices of one profile on one model of GPU. All whole GPUs are the zero class, because the other
// strategies do not distinguish them either.
type class struct {
	model   string
	profile gpu.Profile
}

func classOf(u *unit) class {
	if u.mig == nil {
		return class{}
	}
	return class{model: u.gpu.Name, profile: u.mig.Profile}
}

func (c class) String() string {
	if c == (class{}) {
		return "whole GPUs"
	}
	return "MIG devices " + c.profile.String() + " of " + c.model
}

// single omits units so that all devices of nvidia.com/gpu are equal for a container, as the MIG
// strategy single requires. It advertises the class with the most memory in total, so that as
// little hardware as possible is idle. If classes have the same memory, MIG devices win over whole
// GPUs, because the strategy is for MIG devices, and then the first class on the node wins. Health
// does not count, because a GPU that fails must not change the resource of the others. Units that a
// pattern of the config gives another name are not affected.
func (d *derivation) single(units []*unit) []*unit {
	winner := largestClass(units)
	return slices.DeleteFunc(units, func(u *unit) bool {
		if u.resource != GPU || classOf(u) == winner {
			return false
		}
		is, like, patterns := "this GPU is whole", "divide it likewise", "resources.gpus"
		if u.mig != nil {
			is, like, patterns = "this is one of the "+classOf(u).String(), "divide all GPUs alike", "resources.mig"
		}
		d.omit(u, cause.DeviceMIG, "migStrategy single advertises only equal devices as %s, on this node the devices with the most memory in total, %s; %s:"+
			" %s, set migStrategy to mixed, or give it another name in %s", GPU, winner, is, like, patterns)
		return true
	})
}

// largestClass returns the class with the most memory among the units of nvidia.com/gpu.
func largestClass(units []*unit) class {
	var classes []class
	memory := map[class]uint64{}
	for _, u := range units {
		if u.resource != GPU {
			continue
		}
		c := classOf(u)
		if _, known := memory[c]; !known {
			classes = append(classes, c)
		}
		memory[c] += u.memory()
	}
	if len(classes) == 0 {
		return class{}
	}
	return slices.MaxFunc(classes, func(a, b class) int {
		return cmp.Or(cmp.Compare(memory[a], memory[b]), cmp.Compare(precedence(a), precedence(b)))
	})
}

func precedence(c class) int {
	if c == (class{}) {
		return 0
	}
	return 1
}
