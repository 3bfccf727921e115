package app

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu/mig"
)

// choose returns the desired state of the GPUs for a config. It logs the GPUs that stay as they are.
func choose(config migconfig.Config, name string, gpus []mig.GPU, log *slog.Logger) (migconfig.Selection, error) {
	s, err := config.Select(name, gpus)
	if err != nil {
		return s, err
	}
	for _, g := range s.Unmatched {
		log.Info("the config does not select gpu, leaving it unchanged", "gpu", g.Index, "product", g.Name)
	}
	for _, g := range gpus {
		for _, u := range g.Unlisted {
			log.Warn("gpu has an instance of a profile that nvml does not list, leaving the instance unchanged", "gpu", g.Index, "instance", u.String())
		}
	}
	for _, g := range s.Incapable {
		log.Debug("gpu does not support mig, nothing to do", "gpu", g.Index, "product", g.Name)
	}
	if len(s.Incapable) > 0 && len(s.Want) == 0 && slices.ContainsFunc(config.Entries[name], func(i migconfig.Item) bool { return i.Enabled }) {
		log.Warn("no gpu that the config selects has a mig mode, so nothing changes: use a gpu that supports mig, or a config that turns mig off",
			"config", name, "product", s.Incapable[0].Name)
	}
	return s, nil
}

// inForce returns nil if a GPU has the desired state, and otherwise an error with the difference. If
// modeOnly is set, it compares only the MIG mode.
func inForce(g mig.GPU, want mig.Desired, modeOnly bool) error {
	if g.Enabled != want.Enabled {
		pending := ""
		if g.Pending == want.Enabled {
			pending = " until it is reset"
		}
		return fmt.Errorf("GPU %d: the MIG mode is %s%s, but the config wants it %s", g.Index, onOff(g.Enabled), pending, onOff(want.Enabled))
	}
	if modeOnly || !g.Enabled {
		return nil
	}
	if has := g.Layout.Devices(); !maps.Equal(has, want.Devices) {
		return fmt.Errorf("GPU %d: it has %s, but the config wants %s", g.Index, plan.Text(has), plan.Text(want.Devices))
	}
	if g.Layout.Undivided() {
		return fmt.Errorf("GPU %d: it has a GPU instance without a compute instance", g.Index)
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
