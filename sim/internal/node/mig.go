package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/sim/internal/state"
)

// Request asks for a MIG device with its GPU instance.
type Request struct {
	// Profile is the profile of the MIG device ("3g.20gb", "1c.3g.20gb"), or the profile ID that
	// nvidia-smi prints.
	Profile string
	// Start is the first memory slice of the GPU instance, or state.Anywhere.
	Start int
}

// ParseRequest parses "PROFILE" or "PROFILE@START".
func ParseRequest(text string) (Request, error) {
	profile, at, placed := strings.Cut(text, "@")
	r := Request{Profile: profile, Start: state.Anywhere}
	if placed {
		start, err := strconv.ParseUint(at, 10, 8)
		if err != nil {
			return Request{}, fmt.Errorf("instance %q: want PROFILE or PROFILE@START, with the first memory slice as START", text)
		}
		r.Start = int(start)
	}
	return r, nil
}

// Made is a MIG device that CreateMIG made, with its GPU instance.
type Made struct {
	GPUInstance     state.GPUInstance
	ComputeInstance state.ComputeInstance
}

// SetMIGMode switches the MIG mode of a GPU.
func (n *Node) SetMIGMode(g state.GPU, on bool) (activation state.Activation, err error) {
	err = n.changeMIG(func() error {
		activation, err = n.state.SetMIGMode(g.Slot, on)
		return n.explain(g, err)
	})
	return activation, err
}

// CreateMIG makes all requested instances, or none. A request for a part of a GPU instance
// ("1c.3g.20gb") uses a GPU instance of the same call if it has room. Otherwise it makes a new GPU
// instance.
func (n *Node) CreateMIG(g state.GPU, requests []Request) (made []Made, err error) {
	err = n.changeMIG(func() error {
		c := &creation{state: n.state, slot: g.Slot}
		for _, r := range requests {
			if err = c.create(g, r); err != nil {
				return errors.Join(n.explain(g, err), c.undo())
			}
		}
		made = c.made
		return nil
	})
	return made, err
}

// DestroyMIG destroys a compute instance, a GPU instance with its compute instances, or all
// instances of a GPU. gi and ci are IDs, or state.WholeGPU for all. If one of the instances is in
// use, DestroyMIG destroys nothing.
func (n *Node) DestroyMIG(g state.GPU, gi, ci int) error {
	return n.changeMIG(func() error {
		mig, err := n.state.MIG(g.Slot)
		if err != nil {
			return err
		}
		doomed, err := chooseInstances(mig, gi, ci)
		if err != nil {
			return fmt.Errorf("GPU %d: %w; see \"gpu-sim mig list\"", g.Index, err)
		}
		if err := n.checkUnused(g, doomed); err != nil {
			return err
		}
		for _, d := range doomed {
			if err := n.destroy(g.Slot, d, ci == state.WholeGPU); err != nil {
				return n.explain(g, err)
			}
		}
		return nil
	})
}

// Reset resets a GPU that no process uses. During the reset, which ctx can shorten, the GPU is
// lost.
func (n *Node) Reset(ctx context.Context, g state.GPU, takes time.Duration) error {
	return n.changeMIG(func() error {
		if err := n.state.BeginReset(g.Slot); err != nil {
			return n.explain(g, err)
		}
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return n.state.EndReset(g.Slot)
	})
}

// Reboot restarts the node: it unloads the driver, restarts all GPUs, and loads the driver again.
func (n *Node) Reboot() error {
	loaded := n.state.Show().Driver.Loaded
	if err := n.SetDriver(false); err != nil {
		return err
	}
	if err := n.state.Reboot(); err != nil {
		return err
	}
	if !loaded {
		return nil
	}
	return n.SetDriver(true)
}

// changeMIG runs a change, and then updates the kernel's files.
func (n *Node) changeMIG(change func() error) error {
	return n.withLock(func() error {
		return errors.Join(change(), n.state.ShowInstances())
	})
}

// creation makes instances one by one.
type creation struct {
	state *state.State
	slot  state.Slot
	made  []Made
	own   []state.GPUInstance // GPU instances that this creation made
}

func (c *creation) create(g state.GPU, r Request) error {
	board, err := c.state.Board(g.Slot)
	if err != nil {
		return err
	}
	profile, part, err := board.Find(r.Profile)
	if err != nil {
		return err
	}
	gi, ci, err := c.createInOwn(profile, part, r.Start)
	if errors.Is(err, state.ErrNoRoom) {
		gi, err = c.state.CreateGPUInstance(c.slot, profile, r.Start)
		if errors.Is(err, state.ErrArgument) {
			return fmt.Errorf("%w; %s may start at the memory slices %v", err, profile.Name, profile.Starts)
		}
		if err != nil {
			return err
		}
		c.own = append(c.own, gi)
		ci, err = c.state.CreateComputeInstance(c.slot, gi, part, state.Anywhere)
	}
	if err != nil {
		return err
	}
	c.made = append(c.made, Made{gi, ci})
	return nil
}

// createInOwn makes a part of a GPU instance in a GPU instance that this creation made.
func (c *creation) createInOwn(profile state.GIProfile, part state.CIProfile, start int) (gi state.GPUInstance, ci state.ComputeInstance, err error) {
	err = state.ErrNoRoom
	for _, gi = range c.own {
		if part.Slices == profile.Slices || gi.Profile != profile.Name || start != state.Anywhere && gi.Start != start {
			continue
		}
		if ci, err = c.state.CreateComputeInstance(c.slot, gi, part, state.Anywhere); err == nil {
			return gi, ci, nil
		}
	}
	return gi, ci, err
}

func (c *creation) undo() error {
	var errs []error
	for _, m := range c.made {
		errs = append(errs, c.state.DestroyComputeInstance(c.slot, m.ComputeInstance))
	}
	for _, gi := range c.own {
		errs = append(errs, c.state.DestroyGPUInstance(c.slot, gi))
	}
	return errors.Join(errs...)
}

// chooseInstances returns the instances that gi and ci select.
func chooseInstances(mig state.MIG, gi, ci int) ([]state.GPUInstance, error) {
	var found []state.GPUInstance
	for _, g := range mig.GPUInstances {
		if gi != state.WholeGPU && g.ID != gi {
			continue
		}
		if ci != state.WholeGPU {
			g.ComputeInstances = only(g.ComputeInstances, ci)
			if len(g.ComputeInstances) == 0 {
				return nil, fmt.Errorf("compute instance %d of GPU instance %d: %w", ci, gi, state.ErrNoInstance)
			}
		}
		found = append(found, g)
	}
	if len(found) == 0 && gi != state.WholeGPU {
		return nil, fmt.Errorf("GPU instance %d: %w", gi, state.ErrNoInstance)
	}
	return found, nil
}

func only(list []state.ComputeInstance, id int) []state.ComputeInstance {
	for _, ci := range list {
		if ci.ID == id {
			return []state.ComputeInstance{ci}
		}
	}
	return nil
}

func (n *Node) destroy(slot state.Slot, gi state.GPUInstance, whole bool) error {
	for _, ci := range gi.ComputeInstances {
		if err := n.state.DestroyComputeInstance(slot, ci); err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	return n.state.DestroyGPUInstance(slot, gi)
}
