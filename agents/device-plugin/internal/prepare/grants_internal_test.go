package prepare

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/gpu"
)

// check returns an error if an allocated name points to another device, or if a held device has
// another resource.
func (w *world) check() error {
	specs, err := w.named(w.used.namers()...)
	if err != nil {
		return err
	}
	toolkit, err := w.named(cdi.ByIndex, cdi.ByType, cdi.ByUUID)
	if err != nil {
		return err
	}
	claims, err := w.draNames()
	if err != nil {
		return err
	}
	now := map[gpu.UUID]string{}
	for _, r := range w.set.Resources {
		for _, d := range r.Devices {
			now[d.UUID] = r.Name
		}
	}
	for _, h := range w.held {
		for _, name := range h.cdi {
			if id := specs[name]; id != "" && id != h.id {
				return fmt.Errorf("CDI name %s of %s points to %s", name, h.id, id)
			}
		}
		for _, name := range h.live {
			if id := toolkit[name]; id != "" && id != h.id {
				return fmt.Errorf("name %s of %s points to %s in the specs of the toolkit", name, h.id, id)
			}
		}
		if id := claims[h.dra]; id != "" && id != h.id {
			return fmt.Errorf("%s of a claim for %s names %s", h.dra, h.id, id)
		}
		if r := now[h.id]; r != "" && r != h.resource && h.dra == "" {
			return fmt.Errorf("%s of %s is %s now", h.id, h.resource, r)
		}
	}
	return nil
}

// allocate gives a random device to a container.
func (w *world) allocate() error {
	if w.r.IntN(3) == 0 {
		return w.claim()
	}
	if len(w.set.Resources) == 0 {
		return nil
	}
	res := pick(w.r, w.set.Resources...)
	d := pick(w.r, res.Devices...)
	a := allocate.New(res, allocate.Options{ListStrategies: w.config.ListStrategies, IDStrategy: w.config.IDStrategy, CDIAnnotationPrefix: "cdi.k8s.io/"})
	resp, err := a.Allocate([]string{d.ID(0)}, "token")
	if err != nil {
		return err
	}
	g := grant{id: d.UUID, resource: res.Name}
	add := func(qualified string) {
		_, name, _ := strings.Cut(qualified, "=")
		g.cdi = append(g.cdi, name)
	}
	for _, c := range resp.CdiDevices {
		add(c.Name)
	}
	for _, v := range resp.Annotations {
		add(v)
	}
	for _, m := range resp.Mounts {
		g.live = append(g.live, filepath.Base(m.ContainerPath))
	}
	if v := resp.Envs["NVIDIA_VISIBLE_DEVICES"]; v != "" && !strings.HasPrefix(v, "/") {
		g.live = append(g.live, v)
	}
	for _, name := range g.live {
		if id := w.atNVML(name); id != d.UUID {
			return fmt.Errorf("NVML has %s at %s, which was passed for %s", id, name, d.UUID)
		}
	}
	w.held = append(w.held, g)
	return nil
}

// claim gives a random device to a claim.
func (w *world) claim() error {
	names, err := w.draNames()
	if err != nil || len(names) == 0 {
		return err
	}
	name := pick(w.r, slices.Sorted(maps.Keys(names))...)
	w.held = append(w.held, grant{id: names[name], dra: name})
	return nil
}

// atNVML returns the device that NVML has for a name.
func (w *world) atNVML(name string) gpu.UUID {
	n := w.list()
	for i, g := range n.GPUs {
		if name == fmt.Sprint(i) || name == string(g.UUID) {
			return g.UUID
		}
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			if id := g.MIG.Devices[j].UUID; name == fmt.Sprintf("%d:%d", i, j) || name == string(id) {
				return id
			}
		}
	}
	return ""
}

func (w *world) isHeld(id gpu.UUID) bool {
	return slices.ContainsFunc(w.held, func(g grant) bool { return g.id == id })
}
