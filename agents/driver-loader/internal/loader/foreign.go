package loader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/procowner"
	"outrigger.dev/pkg/text"
)

// Displaced returns the modules of the kernel's own drivers for NVIDIA's GPUs. They are unloaded
// in this order before the driver is loaded. Modules in use are not included, because they stay.
func (o Observation) Displaced() []string {
	var out []string
	for _, name := range stack.InTree() {
		if order := stack.HoldersOf(o.Modules, name); len(stack.Used(o.Modules, order)) == 0 {
			out = append(out, order...)
		}
	}
	return out
}

// Foreign returns a cause for each GPU that stays bound to another driver.
func (o Observation) Foreign() []cause.Cause {
	var out []cause.Cause
	for _, g := range o.GPUs() {
		if g.Driver == "" || g.Driver == stack.Core || passedThrough(g) {
			continue
		}
		module := stack.ModuleOfDriver(g.Driver)
		if slices.Contains(o.Displaced(), module) {
			continue
		}
		why := "it is bound to the driver " + g.Driver
		if o.held(g) {
			by := "a process that this agent cannot see (run the agent with hostPID)"
			if len(o.Displays) > 0 {
				by = strings.Join(o.Displays, ", ")
			}
			why += ", which cannot be unloaded, because it is used by " + by
		}
		out = append(out, cause.Cause{
			Code: cause.OtherDriverBound, Subject: "GPU " + g.BusID, Text: text.Printable(why),
			Fix: "add modprobe.blacklist=" + module + " to the kernel's command line, and reboot",
		})
	}
	return out
}

// held reports whether a GPU is bound to one of the kernel's own drivers whose module is in use.
func (o Observation) held(g pci.Device) bool {
	module := stack.ModuleOfDriver(g.Driver)
	return slices.Contains(stack.InTree(), module) && len(stack.Used(o.Modules, stack.HoldersOf(o.Modules, module))) > 0
}

// displays describes the users of the GPUs whose driver cannot be unloaded: processes, and the
// console.
func (l *Loader) displays(ctx context.Context, o Observation) ([]string, error) {
	var devices []holders.Devices
	var out []string
	for _, g := range o.GPUs() {
		if !o.held(g) {
			continue
		}
		dir := filepath.Join(l.cfg.Kernel.Sys, "bus/pci/devices", g.BusID)
		devices = append(devices, deviceNumbers(filepath.Join(dir, "drm/*/dev"))...)
		devices = append(devices, deviceNumbers(filepath.Join(dir, "graphics/*/dev"))...)
		if buffers, err := filepath.Glob(filepath.Join(dir, "graphics/fb*")); err == nil && len(buffers) > 0 && l.console() {
			out = append(out, "the console, on "+filepath.Base(buffers[0]))
		}
	}
	if len(devices) == 0 {
		return out, nil
	}
	found, err := holders.Find(ctx, procowner.Root{Proc: l.cfg.Kernel.Proc, PodLogs: l.cfg.PodLogs}, devices)
	if err != nil {
		err = fmt.Errorf("find the users of the GPUs: %w", err)
	}
	for _, h := range found {
		out = append(out, fmt.Sprintf("%s, which has %s open", h, strings.Join(h.Devices, ", ")))
	}
	return out, err
}

// deviceNumbers reads device numbers from files such as drm/card0/dev: "226:0".
func deviceNumbers(pattern string) []holders.Devices {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	var out []holders.Devices
	for _, file := range files {
		data, err := hostfs.ReadFile(file, maxAttribute)
		var major, minor uint32
		if err == nil {
			_, err = fmt.Sscanf(string(data), "%d:%d", &major, &minor)
		}
		if err == nil {
			out = append(out, holders.Devices{Major: major, Minors: []uint32{minor}})
		}
	}
	return out
}

// maxAttribute is the largest size of a sysfs file, in bytes.
const maxAttribute = 4096

// console reports whether the kernel shows its console on a frame buffer.
func (l *Loader) console() bool {
	dirs, err := filepath.Glob(filepath.Join(l.cfg.Kernel.Sys, "class/vtconsole/vtcon*"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		name, nameErr := hostfs.ReadFile(filepath.Join(dir, "name"), maxAttribute)
		bound, boundErr := hostfs.ReadFile(filepath.Join(dir, "bind"), maxAttribute)
		return errors.Join(nameErr, boundErr) == nil && strings.Contains(string(name), "frame buffer") && strings.TrimSpace(string(bound)) == "1"
	})
}
