package app

import (
	"errors"
	"log/slog"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// marker publishes the fact plugin-ready. It holds the fact while the devices are
// registered and listed, so that the fact ends with this process.
type marker struct {
	dir  contract.Dir
	log  *slog.Logger
	held *contract.Held
	// alone is set if there is no folder for facts.
	alone bool
}

// Ready publishes the fact. Without a run root it logs once that it does not.
func (m *marker) Ready(n *gpu.Node) error {
	if m.held != nil || m.alone {
		return nil
	}
	held, err := m.dir.Hold(contract.PluginReady, contract.Record{Writer: name, DriverVersion: n.Driver.Version})
	if errors.Is(err, contract.ErrNoRunRoot) {
		m.alone = true
		m.log.Info("no run root, not publishing readiness to other agents", "err", err)
		return nil
	}
	m.held = held
	return err
}

// NotReady withdraws the fact.
func (m *marker) NotReady() error {
	held := m.held
	m.held = nil
	return held.Release()
}
