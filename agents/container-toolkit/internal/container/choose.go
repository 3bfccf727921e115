package container

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/request"
)

// Chosen is a GPU that a container gets.
type Chosen struct {
	GPU
	// Whole is false if the container only gets the MIG devices in Instances.
	Whole bool
	// Instances has the MIG devices that the container gets.
	Instances []Instance
}

// choose returns the GPUs that a container asks for, in the order of the node. A name is "all", an
// index, a UUID, a PCI bus ID, the UUID of a MIG device, the name that drivers before 470 gave to a
// MIG device (see request.ParseInstance), or the index of a GPU and the index of its MIG device
// ("0:1"). A GPU in MIG mode includes all of its MIG devices.
func choose(gpus []GPU, specs namer, names []string) ([]Chosen, error) {
	byIndex := map[int]Chosen{}
	for _, name := range names {
		found, err := findDevice(gpus, specs, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			byIndex[c.Index] = merge(byIndex[c.Index], c)
		}
	}
	out := make([]Chosen, 0, len(byIndex))
	for _, g := range gpus {
		if c, ok := byIndex[g.Index]; ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// merge combines two requests for the same GPU.
func merge(a, b Chosen) Chosen {
	out := Chosen{GPU: b.GPU, Whole: a.Whole || b.Whole}
	for _, in := range b.GPU.Instances {
		if slices.Contains(a.Instances, in) || slices.Contains(b.Instances, in) {
			out.Instances = append(out.Instances, in)
		}
	}
	return out
}

func findDevice(gpus []GPU, specs namer, name string) ([]Chosen, error) {
	lower := strings.ToLower(name)
	switch {
	case name == "" || lower == "none":
		return nil, nil
	case lower == "all":
		out := make([]Chosen, 0, len(gpus))
		for _, g := range gpus {
			out = append(out, whole(g))
		}
		return out, nil
	case strings.HasPrefix(lower, "mig-gpu-"):
		c, err := migInstance(gpus, name)
		return []Chosen{c}, err
	case strings.HasPrefix(lower, "mig-") || isMIGIndex(name):
		c, err := migDevice(gpus, specs, name)
		return []Chosen{c}, err
	}
	is, err := matcher(lower)
	if err != nil {
		return nil, fmt.Errorf("find device %q: %w", name, err)
	}
	for _, g := range gpus {
		if is(g) {
			return []Chosen{whole(g)}, nil
		}
	}
	return nil, fmt.Errorf("find device %q: %w", name, notFoundError(gpus, lower))
}

func whole(g GPU) Chosen { return Chosen{GPU: g, Whole: true, Instances: g.Instances} }

// matcher returns a function that reports whether a GPU has the name.
func matcher(name string) (func(GPU) bool, error) {
	if names := request.PCINames(name); names != nil {
		return func(g GPU) bool { return slices.Contains(names, g.BusID) }, nil
	}
	if isIndex(name) {
		n, err := strconv.Atoi(name)
		return func(g GPU) bool { return g.Index == n }, err
	}
	if strings.HasPrefix(name, "gpu-") {
		return func(g GPU) bool { return g.UUID != "" && strings.EqualFold(string(g.UUID), name) }, nil
	}
	return nil, errors.New("it is not an index, a UUID or a PCI bus ID")
}

// isIndex reports whether a name is an index of up to four digits. It does not use a regular
// expression, because this program runs for each container and would have to compile it.
func isIndex(name string) bool {
	return len(name) > 0 && len(name) <= 4 && strings.Trim(name, "0123456789") == ""
}

// isMIGIndex reports whether a name has the index of a GPU and the index of its MIG device.
func isMIGIndex(name string) bool {
	gpu, device, ok := strings.Cut(name, ":")
	return ok && isIndex(gpu) && isIndex(device)
}

// notFoundError explains why no GPU has the name.
func notFoundError(gpus []GPU, name string) error {
	if len(gpus) == 0 {
		return errors.New("the node has no GPU that the NVIDIA driver uses")
	}
	for _, g := range gpus {
		if g.UUID == "" && strings.HasPrefix(name, "gpu-") {
			return fmt.Errorf("no GPU has this UUID, but the UUID of GPU %s is unknown until a program uses this GPU (run nvidia-smi -L once)", g.BusID)
		}
	}
	return fmt.Errorf("none of the %d GPUs of the node has this name", len(gpus))
}
