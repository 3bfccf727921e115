package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"outrigger.dev/pkg/text"
)

// Detect returns c if its engine runs on the node. If exactly one other engine runs, Detect
// returns a Config for that engine, without the paths and the restart mode of c, because they
// belong to c's engine. Otherwise it returns c.
func (c Config) Detect(log *slog.Logger) Config {
	h := host{root: cmp.Or(c.HostRoot, "/"), proc: cmp.Or(c.ProcRoot, "/proc")}
	running := h.engines()
	if slices.Contains(running, c.Engine) || len(running) != 1 {
		return c
	}
	log.Info("found another container engine on the node, configuring this one", "engine", running[0], "default", c.Engine)
	c.Engine = running[0]
	c.ConfigPath, c.DropIn, c.Socket, c.Executable, c.Reload = "", "", "", "", ""
	return c
}

// engines returns the engines that run.
func (h host) engines() []Name {
	return slices.DeleteFunc(allNames(), func(engine Name) bool {
		found, err := h.running(engine)
		return err != nil || len(found) == 0
	})
}

// installed returns an error if the host has neither the engine nor its config. If
// Config.ConfigPath is set, it does not check whether they exist.
func (k *Keeper) installed(t target) error {
	real, err := k.host.path(t.main)
	if t.process != nil || t.denied != nil || t.program != "" || k.config.ConfigPath != "" || err == nil && exists(real) ||
		t.main != (process{}).configPath(t.engine) {
		return err
	}
	fix := "install it, or set --runtime (RUNTIME) to the engine of the node"
	if running := k.host.engines(); len(running) > 0 {
		fix = "set --runtime (RUNTIME) to " + text.OneOf(running) + ", which runs on the node"
	}
	return fmt.Errorf("find %s: it does not run, and the host has neither its program nor its config %s: %s, or turn the configuration off with --no-runtime-config (NO_RUNTIME_CONFIG)",
		t.engine, t.main, fix)
}

// running returns the processes of an engine, the oldest first, without the processes that it or another
// engine started.
func (h host) running(engine Name) ([]process, error) {
	all, err := h.processes(engine)
	slices.SortStableFunc(all, func(a, b process) int { return cmp.Compare(a.start, b.start) })
	return slices.DeleteFunc(all, func(p process) bool {
		// dockerd runs a private containerd, and writes its config. A process that an engine starts is a
		// copy of the engine until it runs its own program.
		parent, ok := h.process(p.parent)
		return ok && (parent.runs(Docker.program()) || parent.runs(engine.program()))
	}), err
}
