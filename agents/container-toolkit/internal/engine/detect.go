package engine

import (
	"cmp"
	"log/slog"
	"slices"
)

// Detect returns the Config for the engine of the node: that of c if it runs, or else the
// only other one that does. Paths and the restart mode are those of c's engine, so another
// one gets none of them.
func (c Config) Detect(log *slog.Logger) Config {
	h := host{root: cmp.Or(c.HostRoot, "/"), proc: cmp.Or(c.ProcRoot, "/proc")}
	running := slices.DeleteFunc(allNames(), func(engine Name) bool {
		found, err := h.running(engine)
		return err != nil || len(found) == 0
	})
	if slices.Contains(running, c.Engine) || len(running) != 1 {
		return c
	}
	log.Info("found another container engine on the node, configuring this one", "engine", running[0], "default", c.Engine)
	c.Engine = running[0]
	c.ConfigPath, c.DropIn, c.Socket, c.Executable, c.Reload = "", "", "", "", ""
	return c
}

// running returns the processes of an engine, other than those of another engine.
func (h host) running(engine Name) ([]process, error) {
	all, err := h.processes(engine)
	return slices.DeleteFunc(all, func(p process) bool {
		// dockerd runs a containerd of its own, with a config that it writes itself.
		parent, ok := h.process(p.parent)
		return ok && parent.runs(Docker.program())
	}), err
}
