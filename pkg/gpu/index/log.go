package index

import (
	"errors"
	"strings"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// report logs each shift once.
func (p *Pins) report(n *gpu.Node, moved []string) {
	if text := strings.Join(moved, "; "); p.logged["moved"] != text {
		if p.logged["moved"] = text; text == "" {
			p.cfg.Log.Info("nvml lists all gpus at their indices again")
		} else {
			p.cfg.Log.Warn("nvml lists gpus at other indices than before, each gpu keeps its index until the next boot", "gpus", moved)
		}
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		text := ""
		if g.Earlier != nil {
			text = g.Earlier.String()
		}
		if p.logged[string(g.UUID)] == text {
			continue
		}
		if p.logged[string(g.UUID)] = text; text != "" {
			p.cfg.Log.Warn("the index of a gpu has changed over a reboot", "gpu", g.UUID, "index", g.Index, "before", text)
		}
	}
}

// logOnce logs an error unless it is the last one of its kind. A node without a run root is normal
// for a tool that runs alone.
func (p *Pins) logOnce(kind string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if p.logged[kind] == text {
		return
	}
	switch p.logged[kind] = text; {
	case err == nil:
	case errors.Is(err, contract.ErrNoRunRoot):
		p.cfg.Log.Debug("no file with the indices of the gpus, using nvml's", "err", err)
	default:
		p.cfg.Log.Warn("cannot share the indices of the gpus with other agents, retrying", "err", err)
	}
}
