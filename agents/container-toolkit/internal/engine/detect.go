package engine

import (
	"cmp"
	"log/slog"
	"slices"
)

// Detect returns c if its engine runs on the node. If exactly one other engine runs, Detect
// returns a Config for that engine, without the paths and the restart mode of c, because they
// belong to c's engine. Otherwise it returns c.
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

// running returns the processes of an engine, without those that another engine started.
func (h host) running(engine Name) ([]process, error) {
	all, err := h.processes(engine)
	return slices.DeleteFunc(all, func(p process) bool {
		// dockerd runs a private containerd, and writes its config.
		parent, ok := h.process(p.parent)
		return ok && parent.runs(Docker.program())
	}), err
}
